"""A page that stands by itself, opened from disk without a network, beside its trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from playwright.sync_api import Page, TimeoutError, expect

from headwise.model.checkpoint import TrainedRun
from headwise.model.interface import KINDS, Kind
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.report import to_html
from tests.browser.driver import TEXTS, contrast_to_ground, cut

SENTENCE = "We saw three black cats on the white roof."
HOSTILE = '</script><img src=x onerror="window.__hacked = 1"> <b>b</b> &lt; {{TITLE}} $x^2$ שלום 😀'
CELLS = "plot => plot._fullData[0].z.map(row => Array.from(row))"
MIDDLES = """(plot, head) => {
    const [frame, marks] = [plot._fullLayout.shapes[0], plot._fullData[1]];
    const at = marks.customdata.indexOf(head);
    return [[(frame.x0 + frame.x1) / 2, (frame.y0 + frame.y1) / 2], [marks.x[at], marks.y[at]]];
}"""
"""Of the frame, and of the map of a head."""


@pytest.fixture
def trace(run: TrainedRun, trace_at: Callable[..., Trace]) -> Trace:
    return trace_at(run.steps()[-1], SENTENCE)


def expect_large(page: Page, kind: Kind, expected: Floats) -> None:
    """Wait until the large map of a kind draws these cells, to the last bit."""
    large = page.locator(f"#{kind} .large")
    expect(large.locator(".xtick").first).to_be_visible()
    matches = f"([plot, cells]) => JSON.stringify(({CELLS})(plot)) === JSON.stringify(cells)"
    with suppress(TimeoutError):  # the assertion says what is drawn then
        page.wait_for_function(matches, arg=[large.element_handle(), expected.tolist()])
    drawn = np.array(large.evaluate(CELLS), dtype=np.float32)
    np.testing.assert_array_equal(drawn, expected)


def expect_head(page: Page, trace: Trace, kind: Kind, layer: int, head: int) -> None:
    """The lists say this layer and head, the frame is around its map, and it is the large one."""
    expect_large(page, kind, trace.attention[kind][layer, head])
    for at, value in enumerate((layer, head)):
        expect(page.locator(f"#{kind} select").nth(at)).to_have_value(str(value))
    middle, marker = page.locator(f"#{kind} .mosaic").evaluate(MIDDLES, f"{layer},{head}")
    assert middle == marker


def click_head(page: Page, trace: Trace, kind: Kind, layer: int, head: int) -> None:
    """Click a head's map, once the chart has seen the mouse there; one just drawn does not yet."""
    mosaic = page.locator(f"#{kind} .mosaic")
    mosaic.scroll_into_view_if_needed()
    mosaic.evaluate("gd => { gd._hoverdata = undefined; }")
    layers, heads = trace.attention[kind].shape[:2]
    for attempt in range(100):
        box = mosaic.locator(".nsewdrag").bounding_box()
        assert box is not None
        x = box["x"] + (head + 0.5) / heads * box["width"]
        y = box["y"] + (layer + 0.5) / layers * box["height"]
        page.mouse.move(x + attempt % 2, y)
        with suppress(TimeoutError):
            hovered = "gd => gd._hoverdata?.length"
            page.wait_for_function(hovered, arg=mosaic.element_handle(), timeout=300)
            break
    page.mouse.down()
    page.mouse.up()


def test_a_page_from_disk_draws_every_head_without_a_network(
    open_page: Callable[[bytes], Page], trace: Trace
) -> None:
    page = open_page(to_html(trace))
    for kind in KINDS:
        expect_head(page, trace, kind, 0, 0)
        for name, value in (("layer", 2), ("head", 3)):
            page.locator(f'#{kind} select[data-of="{name}"]').select_option(str(value + 1))
        expect_head(page, trace, kind, 2, 3)
        for layer, head in ((0, 2), (2, 1)):
            click_head(page, trace, kind, layer, head)
            expect_head(page, trace, kind, layer, head)
    for kind in KINDS:
        expect_large(page, kind, trace.attention[kind][2, 1])  # each has a choice of its own


@pytest.mark.release
def test_markup_in_a_page_from_disk_is_text(
    open_page: Callable[[bytes], Page], run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(run.steps()[-1], HOSTILE)
    reading = GridOptions(units="words")
    page = open_page(to_html(trace, grid_options=reading))
    assert page.title() == HOSTILE
    assert page.locator("h1").text_content() == HOSTILE
    grid = make_grid(trace, "cross", reading)
    expect_large(page, "cross", grid.apply(trace.attention["cross"])[0, 0])
    ticks = page.locator("#cross .large .xtick").evaluate_all(TEXTS)
    every = -(-len(grid.columns) // len(ticks))  # where there is no room for all labels
    assert ticks == cut(grid.columns)[::every]
    assert page.locator("img, body b, iframe").count() == 0
    assert page.evaluate("window.__hacked") is None


@pytest.mark.release
def test_a_page_is_legible_in_both_themes(open_page: Callable[[bytes], Page], trace: Trace) -> None:
    grounds = []
    for theme in (LIGHT, DARK):
        page = open_page(to_html(trace, theme=theme))
        expect_large(page, "cross", trace.attention["cross"][0, 0])
        for place in ("h1", ".note", "td", "dt", "select", ".large .xtick text", ".ytick text"):
            contrast, ground = contrast_to_ground(page.locator(place).first)
            assert contrast >= 4.5, place
        grounds.append(ground)
    assert grounds[1] < 0.1 < 0.9 < grounds[0]
