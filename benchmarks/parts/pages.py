"""A new sentence in the app, from Enter to both maps, and the same attention in BertViz."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import numpy as np
from playwright.sync_api import Browser
from playwright.sync_api import Error as BrowserError

from benchmarks.chromium import PATIENCE, chromium
from benchmarks.load_server import serving
from benchmarks.peers.bertviz import draw, fetch_scripts, lines_of, page_of
from benchmarks.report import Cell, Findings, Rule, Table, Tick
from benchmarks.rounds import median
from benchmarks.runs import Sentences, sharp_run
from benchmarks.typed import Drawn, TypedPage
from headwise.model.checkpoint import open_trained_run
from headwise.model.interface import Head
from headwise.viz_app.records.trace import Trace

_LAYERS, _HEADS = 6, 8
_SIZES = {20: 100, 50: 5, 100: 3, 200: 1}
"""Tokens of the source, and of the target → most rounds of BertViz, which takes minutes at last."""
_QUICK, _LONGEST = min(_SIZES), max(_SIZES)
STEPS = len(_SIZES) + 1
_CLICKS: Mapping[str, tuple[str, str, Head]] = {
    "another head": ("head", "2", ("cross", 5, 1)),
    "another layer": ("layer", "3", ("cross", 2, 1)),
    "decoder self-attention": ("kind", "Decoder self", ("decoder_self", 2, 1)),
    "encoder self-attention": ("kind", "Encoder self", ("encoder_self", 2, 1)),
}
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "the next step of decoding": ("next",),
    "lines instead of a map": ("style", "lines"),
    "lines of all kinds": ("style", "each kind"),
}
_WARM_UPS = 2
_NOTES = (
    f"{_LAYERS} layers of {_HEADS} heads, random weights, as many target tokens as source tokens. "
    "Ours is from Enter to the large map and all heads of one kind, translation by the model "
    "included; another kind is another click. BertViz writes all three kinds into its page, draws "
    "the first, and is given the arrays that our model has computed: its seconds are those of "
    "writing and drawing model view and head view.",
    "Bytes are those of our WebSocket and HTTP, and of BertViz's HTML; scripts are left out on "
    "both sides. Nothing of BertViz crosses a network.",
)


@dataclass
class PageTimes:
    """Of sentences of one length."""

    ours: list[Drawn] = field(default_factory=list)
    their_bytes: list[float] = field(default_factory=list)
    their_seconds: list[float] = field(default_factory=list)
    """Infinite where nothing was drawn in time."""


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
        try:
            drawing = draw(
                self._browser,
                self._page,
                lines=lines_of(trace),
                scripts=self._scripts,
                patience=PATIENCE,
            )
        except (TimeoutError, BrowserError):
            drawing = float("inf")
            self._browser.close()
            self._browser = self._launch()
        return len(written), writing + drawing


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Type sentences into the app and give their traces to BertViz, in turn, length by length."""
    tokenizers = open_trained_run("en-es").tokenizers
    sentences = Sentences(tokenizers, seed=0)
    measured: dict[int, PageTimes] = {}
    clicked: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as scratch, chromium() as launch:
        root = Path(scratch, "runs")
        shape = {"tokenizers": tokenizers, "n_layers": _LAYERS, "n_heads": _HEADS}
        runs = {tokens: sharp_run(root, tokens, **shape) for tokens in _SIZES}
        bertviz, browser = BertViz(launch, Path(scratch)), launch()
        with patch.dict(os.environ, {"HEADWISE_CHECKPOINTS": str(root)}), serving() as server:
            for tokens, run in runs.items():
                page = TypedPage(browser, server.address, run, sentences.of(tokens))
                for _ in range(_WARM_UPS):
                    page.type(sentences.of(tokens))
                if not measured:
                    bertviz.draw(page.trace)
                at = measured[tokens] = PageTimes()
                for round in range(rounds):
                    at.ours.append(page.type(sentences.of(tokens)))
                    _check(page.trace, tokens)
                    if round < _SIZES[tokens]:
                        size, seconds = bertviz.draw(page.trace)
                        at.their_bytes.append(size)
                        at.their_seconds.append(seconds)
                tick(f"{tokens} tokens")
                if tokens == _LONGEST:
                    clicked = click_through(page)
                    tick("clicks")
                page.close()
            if faults := server.faults():
                raise RuntimeError("\n".join(faults))
    return findings_of(measured, clicked)


def _check(trace: Trace, tokens: int) -> None:
    """That source and target are as long as both sides are said to be."""
    lengths = len(trace.source), len(trace.consumed)
    if lengths != (tokens, tokens):
        raise ValueError(f"expected {tokens} tokens on both sides, got {lengths}")


def click_through(page: TypedPage) -> dict[str, int]:
    """Bytes for each of some clicks."""
    clicks = {name: page.choose(*click).received for name, click in _CLICKS.items()}
    page.scroll_to_steps()
    return clicks | {name: page.received_for(*click) for name, click in _OTHERS.items()}


def findings_of(measured: Mapping[int, PageTimes], clicked: Mapping[str, int]) -> Findings:
    rows, raw, shares = [], {}, {}
    for tokens, at in measured.items():
        seconds = [drawn.seconds for drawn in at.ours]
        received = [float(drawn.received) for drawn in at.ours]
        ours, theirs = median(received), median(at.their_bytes)
        shares[tokens] = ours / theirs
        row: tuple[Cell, ...] = (tokens, round(ours), round(theirs), shares[tokens])
        row += (median(seconds), p95(seconds), _drawn_in(at.their_seconds), len(at.their_seconds))
        rows.append(row)
        of = f"pages, {tokens} tokens"
        raw |= {f"{of}, ours (bytes)": received, f"{of}, BertViz (bytes)": at.their_bytes}
        raw |= {f"{of}, ours (s)": seconds}
        raw[f"{of}, BertViz (s)"] = [s for s in at.their_seconds if math.isfinite(s)]
    quick = [drawn.seconds for drawn in measured[_QUICK].ours]
    longest = measured[_LONGEST].ours
    most = max(*(drawn.received for drawn in longest), *clicked.values())
    bytes_columns = ("tokens", "ours (bytes)", "BertViz (bytes)", "of BertViz")
    times = ("ours, median (s)", "ours, p95 (s)", "BertViz, median (s)", "its rounds")
    tables = (
        Table("A new sentence: translated, its heads drawn", bytes_columns + times, tuple(rows)),
        Table(f"A click at {_LONGEST} tokens", ("", "bytes"), tuple(clicked.items())),
        Table(
            f"The largest messages of a new sentence of {_LONGEST} tokens",
            ("", "bytes"),
            tuple(largest(longest[-1])),
        ),
    )
    rules = (
        Rule("pages, 100 tokens: bytes of BertViz", shares[100], 1 / 20),
        Rule(f"pages, {_LONGEST} tokens: most bytes of an interaction", most, 1e6),
        Rule(f"pages, {_QUICK} tokens: median seconds", median(quick), 0.5),
        Rule(f"pages, {_QUICK} tokens: 95th percentile of the seconds", p95(quick), 1.0),
    )
    return Findings(tables, rules, notes=_NOTES, raw=raw)


def p95(values: Sequence[float]) -> float:
    """The 95th percentile, interpolated."""
    return float(np.percentile(values, 95))


def _drawn_in(seconds: Sequence[float]) -> Cell:
    middle = median(seconds)
    return middle if math.isfinite(middle) else f"not drawn in {PATIENCE:.0f} s"


def largest(drawn: Drawn, count: int = 6) -> list[tuple[str, int]]:
    """Names and bytes of the messages that make most of what was received."""
    sizes: Counter[str] = Counter()
    for message in drawn.messages:
        sizes[message.name] += message.size
    return sizes.most_common(count)
