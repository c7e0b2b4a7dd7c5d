"""Measures of heads lead to what they were measured on: cells, examples and failures are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from model.checkpoint import Run, load_weights, open_run
from viz_app.analysis.failures import worst_first
from viz_app.analysis.head_words import ranked
from viz_app.measure_files import read_measures
from viz_app.measure_records import Measures
from viz_app.records import KINDS, Trace
from viz_app.trace import run_trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "c a f e b"


@pytest.fixture(scope="module")
def copy() -> Run:
    """The smallest of the shipped runs."""
    return open_run("copy")


@pytest.fixture(scope="module")
def measures(copy: Run) -> Measures:
    """Of its last checkpoint."""
    return read_measures(copy.folder, copy.steps()[-1])


def traced(run: Run, step: int, sentence: str, target: str | None = None) -> Trace:
    return run_trace(load_weights(run, step).model, run.tokenizers, sentence, target)


def address(app: App) -> dict[str, list[str]]:
    return parse_qs(urlsplit(app.page.url).query)


def test_a_cell_of_the_matrix_opens_its_head_at_its_step(app: App, copy: Run) -> None:
    steps = copy.steps()
    values = [read_measures(copy.folder, step).values["confidence"] for step in steps]
    app.open("/training", run="copy", training="heads", measure="confidence", q=SENTENCE)
    app.page.locator(".st-key-head_matrix .nsewdrag").wait_for()
    rows = [
        [np.full(len(steps), np.nan), *np.stack([v[kind].ravel() for v in values], 1)]
        for kind in KINDS
    ]
    expected = np.concatenate(rows)  # above each kind is a row for its name
    np.testing.assert_allclose(app.drawn("head_matrix"), expected, atol=1e-6)
    column, row = 3, len(expected) - 3  # of four heads of the last kind the second
    app.click_in("head_matrix", (column + 0.5) / len(steps), (row + 0.5) / len(expected))
    trace = traced(copy, steps[column], SENTENCE)
    app.expect_drawn("large", trace.attention["cross"][0, 1])
    app.expect_text("translation", trace.target_text)
    assert address(app)["step"] == [str(steps[column])]
    app.page.get_by_role("link", name="Training").click()
    # The button opens the same: the head's choice has come along.
    button = app.page.locator(".st-key-open_head button")
    expect(button).to_contain_text(f"Open Cross 1.2 at step {steps[column]:,} on Translate")
    button.click()
    app.expect_drawn("large", trace.attention["cross"][0, 1])


def test_a_strongest_example_is_opened_with_its_target(
    app: App, copy: Run, measures: Measures
) -> None:
    app.open("/heads", run="copy")
    listed = app.page.locator(".st-key-head_picks tbody tr")
    ranks = ranked(measures.values["cost"])
    expect(listed).to_have_count(len(ranks))
    kind, layer, number = head = next(h for h, _ in ranks if h[0] == "decoder_self")
    place = [h for h, _ in ranks].index(head)
    expect(listed.nth(place)).to_contain_text(f"Decoder self {layer + 1}.{number + 1}")
    listed.nth(place).click()
    example = measures.examples[head][0]
    sentence = measures.sentences[example.sentence]
    consumed = ["<s>", *sentence.reference.split()]
    first = app.page.locator(".st-key-example_picks tbody tr").first
    expect(first.locator("th")).to_have_text(f"{example.weight:.3f}")
    expect(first.locator("mark.query")).to_have_text(consumed[example.query])
    expect(first.locator("mark.key")).to_have_text(consumed[example.key])
    first.click()
    trace = traced(copy, measures.step, sentence.source, sentence.reference)
    app.expect_drawn("large", trace.attention[kind][layer, number])
    drawn = app.drawn("large")
    assert drawn[example.query, example.key] == pytest.approx(example.weight, abs=2e-5)
    app.wait(
        "target => new URLSearchParams(location.search).get('target') === target",
        sentence.reference,
    )
    assert address(app)["q"] == [sentence.source]
    assert address(app)["run"] == ["copy"]


def test_the_worst_translation_is_opened(app: App, copy: Run, measures: Measures) -> None:
    app.open("/heads", run="copy", target=SENTENCE, failure="repetition")
    figures = [translated.figures["repetition"] for translated in measures.translated]
    worst = worst_first("repetition", figures)
    rows = app.page.locator(".st-key-failure_picks tbody tr")
    expect(rows.first.locator("th")).to_have_text(f"{max(figures):.2f}")
    source = measures.sentences[worst[0]].source
    expect(rows.first.locator("td").first).to_have_text(source)
    expect(rows.first.locator("td").nth(1)).to_have_text(measures.translated[worst[0]].translation)
    rows.first.locator("button").press("Enter")
    app.expect_text("translation", measures.translated[worst[0]].translation)
    app.expect_drawn("large", traced(copy, measures.step, source).attention["cross"][1, 0])
    assert "target" not in address(app)
