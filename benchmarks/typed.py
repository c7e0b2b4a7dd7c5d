"""The page Translate in Chromium: sentences are typed, heads chosen, what is drawn is checked."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Browser, Locator

from benchmarks.chromium import PATIENCE, SCREEN, drawn_after, watch
from benchmarks.load_answers import address_of
from benchmarks.shown import PICTURES, SHOWN, given
from benchmarks.traffic import Message, Traffic
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import Head
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace


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
        self._head: Head = ("cross", run.info.model.n_decoder_layers - 1, 0)
        self.trace = self._trace_of(sentence)
        self.page.goto(f"{address}/?{address_of(run.info.name, self._head, sentence)}")
        watch(self.page, SHOWN, given(self.trace, self._head, before={}), since_opened=True)
        self._drawn()

    def _trace_of(self, sentence: str) -> Trace:
        return run_trace(self._model, self._run.tokenizers, sentence)

    def type(self, sentence: str) -> Drawn:
        """Type a sentence and press Enter.

        Raises:
            TimeoutError: if its maps are not drawn.
        """
        self.trace = self._trace_of(sentence)
        entry = self.page.locator(".st-key-sentence textarea")
        entry.fill(sentence)
        self._watch(before=self.page.evaluate(PICTURES))
        entry.press("Enter")
        return self._drawn()

    def choose(self, key: str, option: str, head: Head) -> Drawn:
        """Choose an option that makes this head the large one.

        Raises:
            TimeoutError: if its map is not drawn.
        """
        before = self.page.evaluate(PICTURES)
        if head[0] == self._head[0]:
            del before["mosaic"]  # that of the same kind may stay
        self._head = head
        self._watch(before=before)
        self._option(key, option).click()
        return self._drawn()

    def scroll_to_steps(self) -> None:
        """Scroll to the steps of decoding, which are drawn when they are seen."""
        steps = self.page.locator(".st-key-next")
        if not steps.count():
            self._traffic.clear()
            self.page.locator(".st-key-below_maps").scroll_into_view_if_needed()
            self._traffic.settle(patience=PATIENCE)
        steps.wait_for()

    def received_for(self, key: str, option: str = "") -> int:
        """Bytes for choosing an option, or pressing a button, that changes more than the map."""
        self._traffic.clear()
        button = self.page.locator(f".st-key-{key} button")
        (self._option(key, option) if option else button).click()
        self._traffic.settle(patience=PATIENCE)
        return self._traffic.received

    def close(self) -> None:
        """Close the page."""
        self.page.close()

    def _option(self, key: str, option: str) -> Locator:
        control = self.page.locator(f".st-key-{key}")
        return control.get_by_role("radio", name=option, exact=True)

    def _watch(self, before: dict[str, str]) -> None:
        self._traffic.clear()
        watch(self.page, SHOWN, given(self.trace, self._head, before))

    def _drawn(self) -> Drawn:
        seconds = drawn_after(self.page)
        self._traffic.settle(patience=PATIENCE)
        wrong = self.page.locator(".stException, .stAlert").all_text_contents()
        if wrong:
            raise ValueError(f"the page says {wrong}")
        return Drawn(seconds, self._traffic.received, tuple(self._traffic.messages))
