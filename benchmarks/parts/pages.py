"""A new sentence in the app, from Enter to both maps, and the same attention in BertViz."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from benchmarks.chromium import PATIENCE, chromium
from benchmarks.load_server import serving
from benchmarks.models import Sentences, sharp_run
from benchmarks.peers.bertviz import draw, fetch_scripts, lines_of, page_of
from benchmarks.report import Findings
from benchmarks.typed import Drawn, TypedPage
from headwise.model.checkpoint import open_trained_run
from headwise.viz_app.records.trace import Trace

SIZES = {20: 100, 50: 5, 100: 3, 200: 1}
"""Tokens of the source, and of the target → most rounds of BertViz, which takes minutes at last."""
SHAPE = {"n_layers": 6, "n_heads": 8}
_CLICKS = {
    "another head": ("head", "2"),
    "another layer": ("layer", "3"),
    "decoder self-attention": ("kind", "Decoder self"),
    "encoder self-attention": ("kind", "Encoder self"),
}
"""What is done → the widget's key, and its option."""
_WARM_UPS = 2
_NOTES = (
    "6 layers of 8 heads, random weights, as many target tokens as source tokens. Ours is from "
    "Enter to the large map and all heads of one kind, translation by the model included; another "
    "kind is another click. BertViz writes all three kinds into its page, draws the first, and is "
    "given the arrays that our model has computed: its seconds are those of writing and drawing "
    "model view and head view.",
    "Bytes are those of our WebSocket and HTTP, and of BertViz's HTML; scripts are left out on "
    "both sides. Nothing of BertViz crosses a network.",
)


class BertViz:
    """Draws traces, in a browser that is started again when a page has hung."""

    def __init__(self, launch: Callable[[], Browser], folder: Path) -> None:
        self._launch, self._page = launch, folder / "bertviz.html"
        self._scripts = fetch_scripts()
        self._browser = launch()

    def draw(self, trace: Trace) -> tuple[int, float]:
        """Bytes of its page, and seconds until that is written and drawn, infinite if never."""
        began = time.perf_counter()
        written = page_of(trace).encode()
        writing = time.perf_counter() - began
        self._page.write_bytes(written)
        lines, scripts = lines_of(trace), self._scripts
        try:
            drawing = draw(
                self._browser, self._page, lines=lines, scripts=scripts, patience=PATIENCE
            )
        except (TimeoutError, BrowserError):
            drawing = float("inf")
            self._browser.close()
            self._browser = self._launch()
        return len(written), writing + drawing


def measure(found: Findings, rounds: int) -> None:
    """Type sentences into the app and give their traces to BertViz, in turn, length by length."""
    tokenizers = open_trained_run("en-es").tokenizers
    sentences = Sentences(tokenizers, seed=0)
    rows, clicked = [], dict[str, int]()
    with tempfile.TemporaryDirectory() as scratch, chromium() as launch:
        root = Path(scratch, "runs")
        runs = {tokens: sharp_run(root, tokens, tokenizers=tokenizers, **SHAPE) for tokens in SIZES}
        bertviz, browser = BertViz(launch, Path(scratch)), launch()
        with patch.dict(os.environ, {"HEADWISE_CHECKPOINTS": str(root)}), serving() as server:
            for tokens, run in runs.items():
                page = TypedPage(browser, server.address, run, sentences.of(tokens))
                for _ in range(_WARM_UPS):
                    page.type(sentences.of(tokens))
                if not rows:
                    bertviz.draw(page.trace)
                ours: list[Drawn] = []
                theirs: list[tuple[int, float]] = []
                for round in range(rounds):
                    ours.append(page.type(sentences.of(tokens)))
                    lengths = len(page.trace.source), len(page.trace.consumed)
                    if lengths != (tokens, tokens):
                        raise ValueError(f"expected {tokens} tokens on both sides, got {lengths}")
                    if round < SIZES[tokens]:
                        theirs.append(bertviz.draw(page.trace))
                if tokens == max(SIZES):
                    clicked = {name: page.choose(*each).received for name, each in _CLICKS.items()}
                page.page.close()
                rows.append(_row(found, tokens, ours, theirs))
            if faults := server.faults():
                raise RuntimeError("\n".join(faults))
    bytes_of = ("ours (bytes)", "BertViz (bytes)", "of BertViz")
    times = ("ours, median (s)", "ours, p95 (s)", "BertViz, median (s)", "its rounds")
    found.table("A new sentence: translated, its heads drawn", ("tokens", *bytes_of, *times), rows)
    found.table(f"A click at {max(SIZES)} tokens", ("", "bytes"), clicked.items())
    most = max(*(drawn.received for drawn in ours), *clicked.values())
    found.rule(f"pages, {max(SIZES)} tokens: most bytes of an interaction", most, 1e6)
    found.notes += _NOTES


def _row(
    found: Findings, tokens: int, ours: list[Drawn], theirs: list[tuple[int, float]]
) -> tuple[str | int | float, ...]:
    seconds, received = zip(*((each.seconds, float(each.received)) for each in ours), strict=True)
    sizes, drawing = zip(*theirs, strict=True)
    of = f"pages, {tokens} tokens"
    p95, share = float(np.percentile(seconds, 95)), median(received) / median(sizes)
    if tokens == 100:
        found.rule(f"{of}: bytes of BertViz", share, 1 / 20)
    if tokens == min(SIZES):
        found.rule(f"{of}: median seconds", median(seconds), 0.5)
        found.rule(f"{of}: 95th percentile of the seconds", p95, 1.0)
    middle = median(drawing)
    drawn = middle if math.isfinite(middle) else f"not drawn in {PATIENCE:.0f} s"
    bytes_of = round(median(received)), round(median(sizes)), share
    return (tokens, *bytes_of, median(seconds), p95, drawn, len(theirs))
