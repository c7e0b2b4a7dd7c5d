"""Generation, step by step: at each step what is drawn is the trace's, and it plays by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from model.checkpoint import Run
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.figures.theme import LIGHT
from viz_app.records import Kind, Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
IN_PARTS = "The acrobats unbuttoned their waistcoats."
ROWS: tuple[Kind, ...] = ("cross", "decoder_self")
PATIENCE = 30_000
"""Milliseconds, for what the server has to draw."""
NOTHING = "Only special tokens stand here, and these are off."
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


@pytest.fixture
def newest(run: Run) -> int:
    """The step of training that the app chooses at first."""
    return run.steps()[-1]


def step_label(trace: Trace, at: int) -> str:
    """A step of decoding as the list of steps names it."""
    return (
        f"{at + 1}: after {piece_labels(trace.consumed)[at]}, {piece_labels(trace.predicted)[at]}"
    )


def button(app: App, key: str) -> Locator:
    return app.page.locator(f".st-key-{key} button")


def expect_rows(app: App, trace: Trace, at: int, **reading: Any) -> None:
    """The row of each head at a step, of decoder self-attention without what is masked."""
    for kind in ROWS:
        grid = make_grid(trace, kind, Reading(**reading))
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
    """The pieces that the decoder has, and the one it appends, which alone is framed."""
    pieces = app.page.locator(".st-key-loop bdi")
    expected = [*piece_labels(trace.consumed)[: at + 1], piece_labels(trace.predicted)[at]]
    expect(pieces).to_have_text(expected, timeout=PATIENCE)
    borders = pieces.evaluate_all("all => all.map(piece => getComputedStyle(piece).borderColor)")
    accent = f"rgb{tuple(bytes.fromhex(LIGHT.accent[1:]))}"
    assert [border == accent for border in borders] == [False] * (at + 1) + [True]


def expect_framed(app: App, row: int) -> None:
    """A row of the large map is framed."""
    app.wait(
        """row => {
            const chart = document.querySelector('.st-key-large .js-plotly-plot');
            return chart?.layout?.shapes?.[0]?.y0 === row - 0.5;
        }""",
        row,
    )
    places = app.read("large", "gd.layout.shapes.map(shape => [shape.y0, shape.y1])")
    assert places == [[row - 0.5, row + 0.5]]


def expect_step(app: App, trace: Trace, at: int) -> None:
    """All that depends on the step of decoding is the trace's."""
    app.expect_text("at", step_label(trace, at), within="input", by="value")
    predictions = trace.predictions
    top = np.exp(predictions.top_log_probability[at])
    app.expect_drawn("top_pieces", top, values="x", tolerance=1e-5)
    app.expect_labels("top_pieces", "y", [piece_label(piece) for piece in trace.top_pieces[at]])
    expect_framed(app, at)
    expect_loop(app, trace, at)
    expect_rows(app, trace, at)
    share = np.exp(predictions.log_probability[at])
    said = f"Probability of {piece_labels(trace.predicted)[at]}: {share:.3f}"
    expect(app.page.get_by_text(f"{said}, rank {predictions.rank[at]:,}")).to_be_visible(
        timeout=PATIENCE
    )
    expect(button(app, "back")).to_be_enabled(enabled=at > 0, timeout=PATIENCE)
    expect(button(app, "next")).to_be_enabled(
        enabled=at < len(trace.consumed) - 1, timeout=PATIENCE
    )


def test_next_back_and_the_list_move_through_the_steps(
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
    button(app, "back").click()
    expect_step(app, trace, 0)


def test_a_click_on_a_row_of_the_large_map_moves_all_of_the_section(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SHORT)
    app.open(q=SHORT)
    expect_step(app, trace, 0)
    app.click_in("large", 0.5, 5.5 / len(trace.consumed), subplot="x2y")
    expect_step(app, trace, 5)
    button(app, "next").click()
    expect_step(app, trace, 6)


def test_it_plays_to_the_last_step_by_itself_and_then_from_the_first(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    steps = len(trace.consumed)
    labels = [step_label(trace, at) for at in range(steps)]
    app.open(q=BRIEF)
    expect_step(app, trace, 0)
    app.page.evaluate(RECORD)
    toggle = app.page.locator(".st-key-play label")
    toggle.click()
    expect_step(app, trace, steps - 1)
    toggle.click()
    expect(app.page.locator(".st-key-play input")).not_to_be_checked()
    toggle.click()
    app.wait("n => window.__shown.length >= n", 2 * steps)
    assert app.page.evaluate("window.__shown") == [*labels, *labels]
    expect_step(app, trace, steps - 1)


def test_words_have_the_mean_row_of_their_pieces(
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


def test_without_special_tokens_a_row_of_nothing_else_says_so(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """The first step has seen only ``<s>``; the last one's row is that of ``</s>``."""
    trace = trace_at(newest, BRIEF)
    last = len(trace.consumed) - 1
    notes = app.page.get_by_text(NOTHING, exact=True)
    app.open(q=BRIEF, special="false")
    app.expect_drawn("rows_cross", _without_special(trace, "cross")[..., 0, :])
    expect(notes).to_have_count(1, timeout=PATIENCE)
    expect(app.page.locator(".st-key-rows_decoder_self")).to_have_count(0)
    button(app, "next").click()
    expect_loop(app, trace, 1)
    expect_rows(app, trace, 1, special=False)
    expect(notes).to_have_count(0, timeout=PATIENCE)
    app.pick("at", step_label(trace, last))
    expect(notes).to_have_count(2, timeout=PATIENCE)
    assert app.page.get_by_role("alert").count() == 0


def _without_special(trace: Trace, kind: Kind) -> Any:
    weights = make_grid(trace, kind, Reading(special=False)).apply(trace.attention[kind])
    return weights.reshape(-1, *weights.shape[2:])


def test_another_head_draws_no_other_part_of_the_page_again(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """What the server sends tells: the whole translation at first, then never again."""
    trace = trace_at(newest, SHORT)
    received: list[bytes] = []

    def hear(frame: bytes | str) -> None:
        received.append(frame if isinstance(frame, bytes) else frame.encode())

    app.page.on("websocket", lambda socket: socket.on("framereceived", hear))
    text = trace.target_text.encode()
    app.open(q=SHORT)
    expect_step(app, trace, 0)
    assert any(text in frame for frame in received)
    button(app, "next").click()
    expect_step(app, trace, 1)

    received.clear()
    app.choose("head", "2")
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
    assert app.page.locator(".stException, .stAlert").count() == 0
