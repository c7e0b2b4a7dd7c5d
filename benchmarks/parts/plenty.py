"""Many runs, checkpoints, lines of metrics, tokens of a vocabulary, or sessions that are idle.

However many there are, the app starts and its pages are drawn.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch

from benchmarks.load_server import serving
from benchmarks.load_session import Session, connected
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.runs import write_run
from benchmarks.sizes import tokenizers_of
from headwise.model.checkpoint import save_weights
from headwise.model.config import EOS, TransformerConfig
from headwise.model.interface import Head
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer

MOST_SECONDS = 8.0
"""From the start of the process to the first page; and until any other page is there."""
PAGES = ("inside", "architecture", "embeddings", "training", "")
"""All but Heads, which asks for measures before it shows anything."""
RUN, HEAD, WORDS = "plenty", Head("cross", 1, 1), 9


@dataclass(frozen=True)
class Plenty:
    """How many there are of one thing; of all else there is one, or little."""

    runs: int = 1
    checkpoints: int = 1
    metrics: int = 1
    vocabulary: int = 1_000
    idle: int = 0


CASES: Mapping[str, Plenty] = {
    "little of all": Plenty(),
    "500 runs": Plenty(runs=500),
    "1,000 checkpoints": Plenty(checkpoints=1_000),
    "1,000,000 lines of metrics": Plenty(metrics=1_000_000),
    "a vocabulary of 64,000": Plenty(vocabulary=64_000),
    "200 idle sessions": Plenty(idle=200),
}
STEPS = len(CASES)


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Start the app once for each case and draw each page once; the rounds do not matter."""
    rows, rules = [], []
    for name, plenty in CASES.items():
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
            tokenizers = tokenizers_of(plenty.vocabulary)
            write_runs(Path(folder), plenty, tokenizers)
            with patch.dict(os.environ, HEADWISE_CHECKPOINTS=folder):
                # A loop of events may be running in this thread.
                drawn = pool.submit(asyncio.run, _draw(plenty, tokenizers)).result()
        slowest = max(drawn.later, key=drawn.later.__getitem__)
        rows.append((name, drawn.start, slowest, drawn.later[slowest], drawn.memory))
        rules += [
            Rule(f"plenty: seconds to the first page, {name}", drawn.start, MOST_SECONDS),
            Rule(f"plenty: seconds of {slowest}, {name}", drawn.later[slowest], MOST_SECONDS),
        ]
        tick(name)
    columns = ("", "start to first page (s)", "slowest of all else", "(s)", "memory (MiB)")
    return Findings((Table("Plenty of one thing", columns, tuple(rows)),), tuple(rules))


def write_runs(root: Path, plenty: Plenty, tokenizers: TokenizerPair) -> None:
    """Write a folder of runs of random weights, of which one has as much as is asked for."""
    torch.manual_seed(0)
    size = tokenizers.source.vocab_size
    model = Transformer(TransformerConfig(size, size, d_model=32, d_ff=64, max_length=64))
    write_run(root / RUN, model, tokenizers, source="en", target="es")
    for step in range(1, plenty.checkpoints):
        save_weights(root / RUN, model, run=RUN, step=step)
    for number in range(1, plenty.runs):
        write_run(root / f"run-{number}", model, tokenizers, source="en", target="es")
    with (root / RUN / "metrics.jsonl").open("w", encoding="utf-8") as log:
        for step in range(plenty.metrics):
            row = {"step": step, "tokens": 1_000 * step, "train_loss": 1 + 9 / (1 + step)}
            log.write(json.dumps(row) + "\n")


@dataclass(frozen=True)
class _Drawn:
    start: float
    """Seconds."""
    later: dict[str, float]
    """Page or action → seconds."""
    memory: float
    """MiB of the server in the end."""


async def _draw(plenty: Plenty, tokenizers: TokenizerPair) -> _Drawn:
    words = tokenizers.source.tokens(range(EOS + 1, tokenizers.source.vocab_size))
    shuffled = random.Random(0)

    def sentence() -> str:
        return " ".join(shuffled.choices(words, k=WORDS))

    began = time.perf_counter()
    with serving() as server:
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(connected(0, HEAD, server.address, Session))
            await session.open(RUN, sentence())
            start = time.perf_counter() - began
            for number in range(plenty.idle):
                idle = connected(number + 1, HEAD, server.address, Session)
                await (await stack.enter_async_context(idle)).open(RUN, sentence())
            later = {page or "translate": await _seconds(session.go_to(page)) for page in PAGES} | {
                "a sentence": await _seconds(session.type(sentence()))
            }
            return _Drawn(start, later, server.resident() or float("nan"))


async def _seconds(act: Awaitable[None]) -> float:
    began = time.perf_counter()
    await act
    return time.perf_counter() - began
