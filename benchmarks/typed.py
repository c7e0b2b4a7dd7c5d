"""The page Translate in Chromium: sentences are typed, heads chosen, and their maps waited for."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Browser

from benchmarks.chromium import PATIENCE, SCREEN, drawn_after, watch
from benchmarks.load_answers import NOTHING, address_of
from benchmarks.traffic import Message, Traffic
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import Head
from headwise.viz_app.trace.sentence import run_trace

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
        self._run = run
        self._model = load_weights(run, run.steps()[-1]).model
        self.page = browser.new_page(viewport=SCREEN)
        self.page.set_default_timeout(1_000 * PATIENCE)
        self._traffic = Traffic(self.page)
        head = Head("cross", run.info.model.n_decoder_layers - 1, 0)
        self.page.goto(f"{address}/?{address_of(run.info.name, head, sentence)}")
        self.trace = run_trace(self._model, run.tokenizers, sentence)
        self.page.wait_for_function(_SHOWN, arg=self._given({"large": "", "mosaic": ""}))
        self._traffic.settle(patience=PATIENCE)

    def type(self, sentence: str) -> Drawn:
        """Type a sentence and press Enter; TimeoutError if its maps are not drawn."""
        self.trace = run_trace(self._model, self._run.tokenizers, sentence)
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
