"""How the time and bytes of the page *Translate* grow with the tokens of its sentence.

Attention compares every token with every other: nothing may grow faster than the square of the
sentence's length.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np

from benchmarks.load_server import serving
from benchmarks.load_session import apart, connected, faults_of
from benchmarks.models import Sentences, model_of, write_run
from benchmarks.report import Findings
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import Head
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.translate.shown_map import MOST_LABELLED

TOKENS = (10, 20, 50, 100, 200, 500, 1_000)
_IN_ALL = 1_000
"""Tokens of all rounds of a size, if these are more than two."""
_HEAD = Head("cross", 0, 0)
_NOTES = (
    "The target is forced, and as long as the source. A page is drawn by a server with one thread: "
    "from the sentence sent to its script finished, and all bytes received meanwhile.",
    "The exponent is the slope of log y over log x from the middle size on, where what does not "
    "grow counts for little.",
    f"Sentences of more than {_IN_ALL // 10} tokens are measured in fewer rounds, in two at least.",
)


def measure(found: Findings, rounds: int) -> None:
    """Pages of sentences of each size, in turn."""
    often = {tokens: min(rounds, max(2, _IN_ALL // tokens)) for tokens in TOKENS}
    tokenizers = open_trained_run("en-es").tokenizers
    with tempfile.TemporaryDirectory() as root:
        model = model_of(max_length=max(TOKENS))
        run = write_run(Path(root, "growing"), model, tokenizers)
        with patch.dict(os.environ, HEADWISE_CHECKPOINTS=root), serving() as server:
            figures = apart(_pages(server.address, run, often))
            if faults := server.faults():
                raise RuntimeError(faults[0])
    rows = []
    for name, by_size in figures.items():
        grown = {n: median(values) for n, values in by_size.items()}
        rows.append((name, *grown.values(), exponent(grown)))
        found.rule(f"{name}: exponent of tokens", exponent(grown), 2.1)  # 0.1 is left to noise
    found.table("Growth with tokens", ("", *(f"{n:,}" for n in TOKENS), "exponent"), rows)
    found.notes += _NOTES


def exponent(values: Mapping[int, float]) -> float:
    """The slope of log y over log x by least squares, from the middle size on."""
    x, y = np.log([*values.items()]).T[:, (len(values) - 1) // 2 :]
    return float(np.polyfit(x, y, 1)[0])


def _apart(shown: Floats | None, part: Floats) -> float:
    same = shown is not None and shown.shape == part.shape
    return float(np.abs(part - shown).max()) if same else math.inf


async def _pages(
    address: str, run: TrainedRun, often: Mapping[int, int]
) -> dict[str, dict[int, list[float]]]:
    """What is measured, with its unit → tokens → what each round gave.

    A server draws pages of sentences that it has not seen; the last map is compared.
    """
    name, sentences = run.info.name, Sentences(run.tokenizers, seed=1)
    model = load_weights(run, 0).model
    targets = {n: sentences.of(n) for n in often}
    seconds, megabytes = ({n: list[float]() for n in often} for _ in range(2))
    async with AsyncExitStack() as stack:
        readers = {n: await stack.enter_async_context(connected(0, _HEAD, address)) for n in often}
        for number in range(-1, max(often.values())):  # the first is a warm-up
            for n in [n for n in often if number < often[n]]:
                before, began = readers[n].received, time.perf_counter()
                shown = await readers[n].follow(name, sentences.of(n), target=targets[n])
                took = time.perf_counter() - began
                if number >= 0:
                    seconds[n].append(took)
                    megabytes[n].append((readers[n].received - before) / 1e6)
                if number == often[n] - 1:
                    trace = run_trace(model, run.tokenizers, shown.sentence, targets[n])
                    whole = trace.attention[_HEAD.kind][_HEAD.layer, _HEAD.head]
                    most = MOST_LABELLED  # rows, and columns where these have most weight
                    parts = [whole[:most, at : at + most] for at in range(max(1, n + 1 - most))]
                    right = min(parts, key=partial(_apart, shown.weights))
                    if faults := faults_of(
                        shown, replace(shown, translation=targets[n], weights=right)
                    ):
                        raise RuntimeError(f"the page shows {'; '.join(faults)[:1_000]}")
    return {"page (s)": seconds, "page (MB)": megabytes}
