"""A new sentence in the app, from Enter to both maps, and the same attention in BertViz."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
from playwright.sync_api import Browser

from benchmarks.chromium import PATIENCE, SCREEN, chromium, drawn_after, watch
from benchmarks.load_server import serving
from benchmarks.load_session import NOTHING, address_of
from benchmarks.models import Sentences, sharp_run
from benchmarks.report import Cell, Findings
from benchmarks.traffic import Message, Traffic
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import Head
from headwise.viz_app.trace.sentence import run_trace

SIZES = {20: 100, 50: 5, 100: 3, 200: 1}
"""Tokens of the source, and of the target → most rounds of BertViz, which takes minutes at last."""
_CLICKS = {
    "another head": ("head", "2"),
    "another layer": ("layer", "3"),
    "decoder self-attention": ("kind", "Decoder self"),
    "encoder self-attention": ("kind", "Encoder self"),
}
"""What is done → the widget's key, and its option."""
_NOTES = (
    "6 layers of 8 heads, random weights, as many target tokens as source tokens. Ours is from "
    "Enter to the large map and all heads of one kind, translation by the model included; another "
    "kind is another click. BertViz writes all three kinds into its page, draws the first, and is "
    "given the arrays that our model has computed: its seconds are those of writing and drawing "
    "model view and head view.",
    "Bytes are those of our WebSocket and HTTP, and of BertViz's HTML; scripts are left out on "
    "both sides. Nothing of BertViz crosses a network.",
)
_PICTURE = "document.querySelector(`.st-key-${key} .heat_map image`)?.href.baseVal"
_PICTURES = f"""() => Object.fromEntries(['large', 'mosaic'].map(key => [key, {_PICTURE}]))"""
"""What both maps are painted with."""
_SHOWN = f"""given => given.translation
        === document.querySelector('.st-key-translation')?.textContent
    && Object.entries(given.before).every(
        ([key, before]) => {_PICTURE} && {_PICTURE} !== before)"""
"""True when the translation stands there and each map that was given is painted anew."""


@dataclass(frozen=True)
class Drawn:
    """What a sentence, or a click, led to."""

    seconds: float
    """From the key or click until both maps are drawn."""
    received: int
    """Bytes until the app is at rest."""
    messages: tuple[Message, ...]


class TypedPage:
    """A page on a run, opened with a sentence; its exceptions and messages end in an error."""

    def __init__(self, browser: Browser, address: str, run: TrainedRun, sentence: str) -> None:
        self._tokenizers, self._model = run.tokenizers, load_weights(run, run.steps()[-1]).model
        self.page = browser.new_page(viewport=SCREEN)
        self.page.set_default_timeout(1_000 * PATIENCE)
        self._traffic = Traffic(self.page)
        head = Head("cross", run.info.model.n_decoder_layers - 1, 0)
        self.page.goto(f"{address}/?{address_of(run.info.name, head, sentence)}")
        self.trace = run_trace(self._model, self._tokenizers, sentence)
        self.page.wait_for_function(_SHOWN, arg=self._given({"large": "", "mosaic": ""}))
        self._traffic.settle(patience=PATIENCE)

    def type(self, sentence: str) -> Drawn:
        """Type a sentence and press Enter; TimeoutError if its maps are not drawn."""
        self.trace = run_trace(self._model, self._tokenizers, sentence)
        entry = self.page.locator(".st-key-sentence textarea")
        entry.fill(sentence)
        self._watch(self.page.evaluate(_PICTURES))
        entry.press("Enter")
        return self._drawn()

    def choose(self, key: str, option: str) -> Drawn:
        """Choose an option that makes another head large; TimeoutError if it is not drawn."""
        before = self.page.evaluate(_PICTURES)
        if key != "kind":
            del before["mosaic"]  # that of the same kind may stay
        self._watch(before)
        control = self.page.locator(f".st-key-{key}")
        control.get_by_role("radio", name=option, exact=True).click()
        return self._drawn()

    def _given(self, before: dict[str, str]) -> dict[str, object]:
        return {"translation": self.trace.target_text or NOTHING, "before": before}

    def _watch(self, before: dict[str, str]) -> None:
        self._traffic.clear()
        watch(self.page, _SHOWN, self._given(before))

    def _drawn(self) -> Drawn:
        seconds = drawn_after(self.page)
        self._traffic.settle(patience=PATIENCE)
        wrong = self.page.locator(".stException, .stAlert").all_text_contents()
        if wrong:
            raise ValueError(f"the page says {wrong}")
        return Drawn(seconds, self._traffic.received, tuple(self._traffic.messages))


def measure(found: Findings, rounds: int) -> None:
    """Type sentences into the app and give their traces to BertViz, in turn, length by length."""
    from benchmarks.peers.bertviz import BertViz

    tokenizers = open_trained_run("en-es").tokenizers
    sentences = Sentences(tokenizers, seed=0)
    rows = list[tuple[Cell, ...]]()
    with tempfile.TemporaryDirectory() as scratch, chromium() as launch:
        root = Path(scratch, "runs")
        bertviz, browser = BertViz(launch, Path(scratch)), launch()
        with patch.dict(os.environ, {"HEADWISE_CHECKPOINTS": str(root)}), serving() as server:
            for tokens, most in SIZES.items():
                run = sharp_run(root, tokens, tokenizers=tokenizers, n_layers=6, n_heads=8)
                page = TypedPage(browser, server.address, run, sentences.of(tokens))
                for _ in range(2):  # warm-ups
                    page.type(sentences.of(tokens))
                if not rows:
                    bertviz.draw(page.trace)
                ours, theirs = list[Drawn](), list[tuple[int, float]]()
                for number in range(rounds):
                    ours.append(page.type(sentences.of(tokens)))
                    lengths = len(page.trace.source), len(page.trace.consumed)
                    if lengths != (tokens, tokens):
                        raise ValueError(f"expected {tokens} tokens on both sides, got {lengths}")
                    if number < most:
                        theirs.append(bertviz.draw(page.trace))
                seconds = [each.seconds for each in ours]
                middle, p95 = median(seconds), float(np.percentile(seconds, 95))
                received = median(each.received for each in ours)
                written, drawing = map(median, zip(*theirs, strict=True))
                drawn = drawing if np.isfinite(drawing) else f"not drawn in {PATIENCE:.0f} s"
                share, sizes = received / written, (round(received), round(written))
                rows.append((tokens, *sizes, share, middle, p95, drawn, len(theirs)))
                if tokens == 100:
                    found.rule(f"pages, {tokens} tokens: bytes of BertViz", share, 1 / 20)
                if tokens == min(SIZES):
                    found.rule(f"pages, {tokens} tokens: median seconds", middle, 0.5)
                    found.rule(f"pages, {tokens} tokens: 95th percentile of the seconds", p95, 1.0)
                if tokens == max(SIZES):
                    clicked = {name: page.choose(*each).received for name, each in _CLICKS.items()}
                page.page.close()
            if faults := server.faults():
                raise RuntimeError("\n".join(faults))
    bytes_of = ("ours (bytes)", "BertViz (bytes)", "of BertViz")
    times = ("ours, median (s)", "ours, p95 (s)", "BertViz, median (s)", "its rounds")
    found.table("A new sentence: translated, its heads drawn", ("tokens", *bytes_of, *times), rows)
    found.table(f"A click at {max(SIZES)} tokens", ("", "bytes"), clicked.items())
    most_bytes = max(*(drawn.received for drawn in ours), *clicked.values())
    found.rule(f"pages, {max(SIZES)} tokens: most bytes of an interaction", most_bytes, 1e6)
    found.notes += _NOTES
