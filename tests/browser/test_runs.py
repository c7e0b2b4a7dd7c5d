"""Every shipped run opens: other languages, other vocabularies, whole words, a tiny one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from model.checkpoint import list_runs, load_weights, open_run
from viz_app.analysis.grid import make_grid
from viz_app.records import Trace
from viz_app.trace import run_trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

LANGUAGES = {"de": "German", "en": "English", "symbols": "symbols"}
SENTENCES = {
    "de": "Zwei kleine Hunde rennen über die Wiese.",
    "en": "My sister zigzags to school.",
    "symbols": "b a d g e",
}


def trace_of(name: str, sentence: str) -> Trace:
    run = open_run(name)
    checkpoint = load_weights(run, run.steps()[-1])
    return run_trace(checkpoint.model, run.tokenizers, sentence, step=checkpoint.step)


def type_sentence(app: App, sentence: str) -> None:
    field = app.page.locator(".st-key-sentence input")
    field.fill(sentence)
    field.press("Enter")


@pytest.mark.parametrize("name", list_runs())
def test_a_run_translates_and_draws(app: App, name: str) -> None:
    """The last layer's first head of cross-attention, and the text, are those of its trace."""
    info = open_run(name).info
    sentence = SENTENCES[info.source_language]
    trace = trace_of(name, sentence)

    app.open(run=name)
    label = app.page.locator(".st-key-sentence label").text_content()
    assert label == f"Sentence in {LANGUAGES[info.source_language]}"
    type_sentence(app, sentence)

    grid = make_grid(trace, "cross")
    app.expect_text("translation", trace.target_text)
    app.expect_drawn("large", grid.apply(trace.attention["cross"])[-1, 0])
    app.expect_labels("large", "y", grid.rows)
    app.expect_labels("large", "x", grid.columns)
    assert app.page.locator(".st-key-large-box .stException").count() == 0


def test_words_outside_the_vocabulary_are_named(app: App) -> None:
    app.open(run="books-small", q="My sister zigzags to *school*.")
    note = "Not in the vocabulary, so the model reads <unk>: zigzags · * · *."
    app.wait("note => document.body.textContent.includes(note)", note)
    assert note in (app.page.locator(".stMain").text_content() or "")


def test_each_language_keeps_its_sentence(app: App) -> None:
    """Going to a run of another language and back loses nothing of what was typed."""
    first = {name: str(next(iter(open_run(name).samples()))["source"]) for name in list_runs()}

    def shown(text: str) -> None:
        field = ".st-key-sentence input"
        app.wait("([field, t]) => document.querySelector(field).value === t", [field, text])
        assert app.page.locator(field).input_value() == text

    app.open(run="en-es", q="Nobody knows me.")
    app.pick("run", "de-en")
    shown(first["de-en"])
    type_sentence(app, "Niemand kennt mich.")
    app.pick("run", "books-small")
    shown("Nobody knows me.")
    app.pick("run", "de-en")
    shown("Niemand kennt mich.")
    app.expect_text("translation", trace_of("de-en", "Niemand kennt mich.").target_text)
