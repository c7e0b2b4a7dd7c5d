"""Generation, step by step: at each step what is drawn is the trace's, and it plays by itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from playwright.sync_api import Locator, expect

from headwise.model.interface import Kind
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.figures.theme import LIGHT
from headwise.viz_app.records.trace import Trace
from tests.browser.driver import step_label
from tests.floats import printed

if TYPE_CHECKING:
    from tests.browser.driver import App

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
IN_PARTS = "The acrobats unbuttoned their waistcoats."
ROWS: tuple[Kind, ...] = ("cross", "decoder_self")
RECORD = """() => {
    window.__shown = [];
    const look = () => {
        const shown = document.querySelector('.st-key-at input')?.value;
        if (shown && shown !== window.__shown.at(-1)) window.__shown.push(shown);
        requestAnimationFrame(look);
    };
    look();
}"""
"""Keep each step that the list shows, in order."""


def button(app: App, key: str) -> Locator:
    return app.page.locator(f".st-key-{key} button")


def expect_rows(app: App, trace: Trace, at: int, **reading: Any) -> None:
    """The row of each head at a step, of decoder self-attention without what is masked."""
    for kind in ROWS:
        grid = make_grid(trace, kind, GridOptions(**reading))
        row = grid.row_of(at)
        assert row is not None
        weights = grid.apply(trace.attention[kind])[:, :, row].reshape(-1, len(grid.columns))
        seen = len(grid.columns) if grid.allowed is None else int(grid.allowed[row].sum())
        app.expect_drawn(f"rows_{kind}", weights[:, :seen])
        app.expect_labels(f"rows_{kind}", "x", grid.columns[:seen])
        layers, heads = trace.attention[kind].shape[:2]
        names = [f"{i + 1}.{h + 1}" for i in range(layers) for h in range(heads)]
        app.expect_labels(f"rows_{kind}", "y", names)


def expect_loop(app: App, trace: Trace, at: int) -> None:
    """The tokens that the decoder has, and the one it appends, which alone is framed."""
    tokens = app.page.locator(".st-key-loop bdi")
    expected = [*token_labels(trace.consumed)[: at + 1], token_labels(trace.predicted)[at]]
    expect(tokens).to_have_text(expected)
    borders = tokens.evaluate_all("all => all.map(token => getComputedStyle(token).borderColor)")
    accent = f"rgb{tuple(bytes.fromhex(LIGHT.accent[1:]))}"
    assert [border == accent for border in borders] == [False] * (at + 1) + [True]


def expect_framed(app: App, row: int) -> None:
    """A row of the large map is framed."""
    frames = "gd.layout.shapes.map(shape => [shape.y0, shape.y1])"
    app.expect_read("large", frames, [[row - 0.5, row + 0.5]])


def expect_step(app: App, trace: Trace, at: int) -> None:
    """All that depends on the step of decoding is the trace's."""
    app.expect_field("at", step_label(trace, at))
    predictions = trace.predictions
    top = np.exp(predictions.top_log_probability[at])
    app.expect_drawn("top_tokens", top, values="x")
    app.expect_labels(
        "top_tokens", "y", [next_token_label(token, spaced=True) for token in trace.top_tokens[at]]
    )
    expect_framed(app, at)
    expect_loop(app, trace, at)
    expect_rows(app, trace, at)
    share = np.exp(predictions.log_probability[at])
    said = f"Probability of {token_labels(trace.predicted)[at]}: {{:.3f}}"
    told = printed(f"{said}, rank {predictions.rank[at]:,}", share, dtype=np.float32, size=1)
    expect(app.page.get_by_text(re.compile("|".join(map(re.escape, told))))).to_be_visible()
    expect(button(app, "back")).to_be_enabled(enabled=at > 0)
    expect(button(app, "next")).to_be_enabled(enabled=at < len(trace.consumed) - 1)


def test_buttons_list_and_a_click_on_a_row_move_through_the_steps(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    last = len(trace.consumed) - 1
    assert last >= 3
    app.open(q=BRIEF)
    expect_step(app, trace, 0)
    for at in range(1, last + 1):
        button(app, "next").click()
        expect_step(app, trace, at)
    button(app, "back").click()
    expect_step(app, trace, last - 1)
    app.pick("at", step_label(trace, 1))
    expect_step(app, trace, 1)
    app.click_in("large", 0.5, 2.5 / len(trace.consumed), subplot="x2y")
    expect_step(app, trace, 2)


def test_steps_play_to_the_last_by_themselves_and_then_from_the_first(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    labels = [step_label(trace, at) for at in range(len(trace.consumed))]
    app.open(q=BRIEF)
    expect_step(app, trace, 0)
    app.page.evaluate(RECORD)
    toggle = app.page.locator(".st-key-play label")
    toggle.click()
    expect_step(app, trace, len(labels) - 1)
    toggle.click()
    expect(app.page.locator(".st-key-play input")).not_to_be_checked()
    toggle.click()
    app.expect("() => window.__shown", [*labels, *labels])
    expect_step(app, trace, len(labels) - 1)


def test_words_have_the_mean_row_of_their_tokens_and_special_ones_may_be_off(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, IN_PARTS)
    word = max(trace.predicted.words, key=lambda word: word.stop - word.start)
    assert word.stop - word.start > 1
    app.open(q=IN_PARTS, units="words")
    app.pick("at", step_label(trace, word.stop - 1))
    expect_loop(app, trace, word.stop - 1)
    expect_framed(app, trace.predicted.words.index(word))
    expect_rows(app, trace, word.stop - 1, units="words")

    app.choose(units="tokens")
    app.toggle("special")
    expect_rows(app, trace, word.stop - 1, special=False)
    notes = app.page.get_by_text("Only special tokens stand here, and these are off.", exact=True)
    expect(notes).to_have_count(0)
    app.pick("at", step_label(trace, len(trace.consumed) - 1))  # whose row is that of </s>
    expect(notes).to_have_count(2)
    expect(app.page.get_by_role("alert")).to_have_count(0)


def test_another_head_draws_no_other_part_of_the_page_again(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """What the server sends tells: the whole translation at first, then never again."""
    trace = trace_at(newest, SHORT)
    received = app.frames("framereceived")
    text = trace.target_text.encode()
    app.open(q=SHORT)
    expect_step(app, trace, 0)
    assert any(text in frame for frame in received)
    button(app, "next").click()
    expect_step(app, trace, 1)

    received.clear()
    app.choose(head="2")
    app.expect_drawn("large", trace.attention["cross"][-1, 1])
    app.page.get_by_text("Cross, layer 3, head 2").first.wait_for()
    assert received
    assert not any(text in frame for frame in received), "the translation was drawn again"
    assert not any(b"Probability of" in frame for frame in received), "the step was drawn again"
    expect_step(app, trace, 1)

    received.clear()
    button(app, "next").click()
    expect_step(app, trace, 2)
    assert any(b"Probability of" in frame for frame in received)
    assert not any(text in frame for frame in received), "the translation was drawn again"


def test_a_translation_of_nothing_but_special_tokens_has_no_map_without_them(app: App) -> None:
    """An early checkpoint whose best hypothesis ends at once."""
    app.open(run="books-small", step=500, q="a", decoding="beam", special="false")
    app.page.get_by_text("Without special tokens nothing is left of this map.").wait_for()
    app.page.get_by_text("Generation, step by step").wait_for()
    app.find("() => true")
    expect(app.page.locator(".stAlert")).to_have_count(0)
