"""Measures of heads lead to what they were measured on: cells, examples and failures are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import KINDS
from headwise.viz_app.analysis.failures import worst_first
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import rounding

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "c a f e b"


@pytest.fixture(scope="module")
def copy() -> TrainedRun:
    """The smallest of the shipped runs."""
    return open_trained_run("copy")


@pytest.fixture(scope="module")
def measures(copy: TrainedRun) -> Measures:
    """Of its last checkpoint."""
    return read_measures(copy.folder, copy.steps()[-1])


def traced(run: TrainedRun, step: int, sentence: str, target: str | None = None) -> Trace:
    return run_trace(load_weights(run, step).model, run.tokenizers, sentence, target)


def test_cell_of_the_matrix_opens_its_head_at_its_step(app: App, copy: TrainedRun) -> None:
    steps = copy.steps()
    values = [read_measures(copy.folder, step).values["confidence"] for step in steps]
    app.open("/training", run="copy", training="heads", measure="confidence", q=SENTENCE)
    rows = [
        [np.full(len(steps), np.nan), *np.stack([v[kind].ravel() for v in values], 1)]
        for kind in KINDS
    ]
    expected = np.concatenate(rows)  # above each kind is a row for its name
    app.expect_drawn("head_matrix", expected, tolerance=rounding(np.float32, 1, operations=1))
    column, row = 3, len(expected) - 3  # of four heads of the last kind the second
    app.click_in("head_matrix", (column + 0.5) / len(steps), (row + 0.5) / len(expected))
    trace = traced(copy, steps[column], SENTENCE)
    app.expect_drawn("large", trace.attention["cross"][0, 1])
    app.expect_text("translation", trace.target_text)
    app.expect_address(step=str(steps[column]))
    app.go_to("Training")
    # The button opens the same: the head's choice has come along.
    button = app.page.locator(".st-key-open_head button")
    expect(button).to_contain_text(f"Open Cross 1.2 at step {steps[column]:,} on Translate")
    button.click()
    app.expect_drawn("large", trace.attention["cross"][0, 1])


def test_strongest_example_is_opened_with_its_target(
    app: App, copy: TrainedRun, measures: Measures
) -> None:
    app.open("/heads", run="copy")
    listed = app.page.locator(".st-key-head_table tbody tr")
    ranks = rank_heads(measures.values["cost"])
    expect(listed).to_have_count(len(ranks))
    kind, layer, number = head = next(h for h, _ in ranks if h[0] == "decoder_self")
    place = [h for h, _ in ranks].index(head)
    expect(listed.nth(place)).to_contain_text(f"Decoder self {layer + 1}.{number + 1}")
    listed.nth(place).click()
    example = measures.examples[head][0]
    sentence = measures.sentences[example.sentence]
    consumed = ["<s>", *sentence.reference.split()]
    first = app.page.locator(".st-key-example_table tbody tr").first
    expect(first.locator("th")).to_have_text(f"{example.weight:.3f}")
    expect(first.locator("mark.query")).to_have_text(consumed[example.query])
    expect(first.locator("mark.key")).to_have_text(consumed[example.key])
    first.click()
    trace = traced(copy, measures.step, sentence.source, sentence.reference)
    app.expect_drawn("large", trace.attention[kind][layer, number])
    weight = trace.attention[kind][layer, number][example.query, example.key]
    off = 0.5e-5 + rounding(np.float32, 1)  # half of the last decimal in the file, and a pass
    assert weight == pytest.approx(example.weight, rel=0, abs=off)
    app.expect_address(run="copy", q=sentence.source, target=sentence.reference)


def test_worst_translation_is_opened(app: App, copy: TrainedRun, measures: Measures) -> None:
    app.open("/heads", run="copy", target=SENTENCE)
    figures = [translated.figures["log_probability"] for translated in measures.translated]
    worst = worst_first("log_probability", figures)
    rows = app.page.locator(".st-key-failure_table tbody tr")
    expect(rows.first.locator("th")).to_have_text(f"{min(figures):.2f}")
    source = measures.sentences[worst[0]].source
    expect(rows.first.locator("td").first).to_have_text(source)
    expect(rows.first.locator("td").nth(1)).to_have_text(measures.translated[worst[0]].translation)
    rows.first.locator("button").press("Enter")
    app.expect_text("translation", measures.translated[worst[0]].translation)
    app.expect_drawn("large", traced(copy, measures.step, source).attention["cross"][1, 0])
    app.expect_address(target=None)


def test_a_ranking_goes_to_its_top_and_keeps_the_chosen_head_in_view(app: App) -> None:
    app.open("/heads", q=SENTENCE, kind="encoder_self", layer=1, head=1)
    shown = app.page.locator(".st-key-head_table .list")
    expect(shown.locator("tr.chosen")).to_contain_text("Encoder self 1.1")
    for order in ("smallest first", "largest first"):
        shown.evaluate("list => { list.scrollTop = 200; }")
        app.choose(heads_order=order)
        expect(shown).to_have_js_property("scrollTop", 0)
        assert shown.evaluate(
            """list => {
                const [frame, row] = [list, list.querySelector('.chosen')].map(
                    (each) => each.getBoundingClientRect());
                return row.top >= frame.top && row.bottom <= frame.bottom + 1;
            }"""
        )
