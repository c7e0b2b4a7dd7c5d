"""What looks like a thing can be clicked, and each click has a way by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import Locator, expect

from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.records.trace import Trace
from tests.browser.driver import either, step_label
from tests.floats import printed

if TYPE_CHECKING:
    from tests.browser.driver import App

BRIEF = "I am hungry."
FOCUSED = "() => document.activeElement?.shadowRoot?.activeElement?.textContent"
"""The text of what is focused in a component."""
COLUMN_FRAMES = """(gd.layout.shapes ?? []).filter(shape => shape.yref === 'y domain')
    .map(shape => [shape.x0, shape.x1])"""


def click_cell(app: App, trace: Trace, row: int, column: int) -> None:
    """Click a cell of the map of cross-attention."""
    rows, columns = trace.attention["cross"].shape[-2:]
    app.click_in("large", (column + 0.5) / columns, (row + 0.5) / rows)


def token(app: App, side: str, place: int) -> Locator:
    return app.page.locator(f".st-key-{side}_tokens button").nth(place)


def expect_inside(app: App, trace: Trace, query: int, key: int) -> None:
    """Inside a head is open, at a query and a key of cross-attention."""
    grid = make_grid(trace, "cross")
    app.expect_field("query", f"{query + 1}: {grid.rows[query]}")
    app.expect_field("key", f"{key + 1}: {grid.columns[key]}")
    app.expect_address(query=str(query) if query else None, key=str(key))
    assert "/inside?" in app.page.url


def test_a_cell_opens_inside_a_head(app: App, newest: int, trace_at: Callable[..., Trace]) -> None:
    trace = trace_at(newest, BRIEF)
    app.open(q=BRIEF, head=2)
    app.expect_drawn("large", trace.attention["cross"][-1, 1])
    click_cell(app, trace, 1, 3)
    expect_inside(app, trace, 1, 3)
    app.expect_chosen(kind="cross", head="2")


def test_a_row_s_label_and_mark_choose_its_step(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    app.open(q=BRIEF)
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    for row, away in ((2, 60), (1, 6)):
        left, top, _, height = app.box('.st-key-large .nsewdrag[data-subplot="xy"]')
        app.page.mouse.click(left - away, top + (row + 0.5) / len(trace.predicted) * height)
        app.expect_field("at", step_label(trace, row))
        app.expect_address(at=str(row))


def test_the_map_is_walked_by_arrow_keys_and_read_out(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    grid, weights = make_grid(trace, "cross"), trace.attention["cross"][-1, 0]
    app.open(q=BRIEF)
    app.expect_drawn("large", weights)
    app.page.locator(".st-key-large_cells .walker").focus()
    app.page.keyboard.press("ArrowUp")  # there is no row above
    status = app.page.locator('.st-key-large_cells [aria-live="polite"]')
    for key, (row, column) in (
        ("ArrowDown", (1, 0)),
        ("ArrowRight", (1, 1)),
        ("End", (1, len(grid.columns) - 1)),
        ("Home", (1, 0)),
    ):
        app.page.keyboard.press(key)
        said = f"query {grid.rows[row]}, key {grid.columns[column]}: weight {{:.4f}}"
        told = printed(said, weights[row, column], dtype=np.float32, size=1)
        expect(status).to_have_text(either(told))
    app.page.keyboard.press(" ")
    app.expect_field("at", step_label(trace, 1))
    app.page.keyboard.press("ArrowRight")
    app.page.keyboard.press("Enter")
    expect_inside(app, trace, 1, 1)


def test_tokens_choose_step_and_column(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    app.open(q=BRIEF)
    token(app, "target", 2).click()
    app.expect_field("at", step_label(trace, 2))
    expect(token(app, "target", 2)).to_have_attribute("aria-pressed", "true")
    token(app, "source", 1).click()
    app.expect_address(at="2", column="1")
    app.expect_read("large", COLUMN_FRAMES, [[0.5, 1.5]])
    token(app, "source", 1).click()
    app.expect_address(at="2", column=None)
    app.expect_read("large", COLUMN_FRAMES, [])


def test_a_row_of_tokens_is_one_stop_and_walked_by_arrow_keys(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, BRIEF)
    labels = token_labels(trace.predicted)
    app.open(q=BRIEF)
    token(app, "source", 0).focus()
    app.page.keyboard.press("Tab")
    for key, place in (("", 0), ("ArrowRight", 1), ("End", len(labels) - 1), ("ArrowLeft", -2)):
        if key:
            app.page.keyboard.press(key)
        app.expect(FOCUSED, labels[place])
    app.page.keyboard.press("Enter")
    app.expect_field("at", step_label(trace, len(labels) - 2))
    app.expect(FOCUSED, labels[-2])  # it is drawn again, and has kept the focus
    stops = app.page.locator(".st-key-target_tokens button[tabindex='0']")
    expect(stops).to_have_text([labels[-2]])


def test_a_bar_forces_its_token(app: App, newest: int, trace_at: Callable[..., Trace]) -> None:
    """Wherever in its row the click is, short as the bar may be."""
    trace = trace_at(newest, BRIEF)
    names = [next_token_label(each, spaced=True) for each in trace.top_tokens[0]]
    predicted = names.index(token_labels(trace.predicted)[0])
    app.open(q=BRIEF)
    app.expect_labels("top_tokens", "y", names)
    other = 1 if predicted == 0 else 0
    app.click_in("top_tokens", 0.7, (other + 0.5) / len(names))
    app.expect_field("fork", names[other])
    app.expect_address(fork=names[other])
    expect(app.page.locator(".st-key-forked")).to_be_visible()


def test_what_follows_a_forced_token_comes_into_view(new_app: Callable[..., App]) -> None:
    app = new_app(viewport={"width": 1280, "height": 500})
    app.open(q=BRIEF, below="steps")
    app.click_in("top_tokens", 0.7, 0.25)
    expect(app.page.locator(".st-key-forked-result")).to_be_in_viewport(ratio=0.9)


def test_a_neighbour_s_bar_looks_it_up(app: App) -> None:
    app.open("/embeddings", q=BRIEF, section="similarity")
    for place in (1, 2):
        labels = app.read("neighbours", "gd.layout.yaxis.ticktext")
        app.click_in("neighbours", 0.9, (place + 0.5) / len(labels))
        app.expect_field("token", labels[place])
