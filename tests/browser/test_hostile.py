"""Text that looks like markup, text that is no sentence, and both themes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from model.checkpoint import Run
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import piece_labels
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "I am hungry."
HOSTILE = (
    '<img src=x onerror="window.__hacked = 1"> <b>bold</b> *a* $x^2$ %{z} `c` &lt; \u202eabc '
    "שלום 👩‍👩‍👧 😀 مرحبا"
)
LUMINANCE = """element => {
    const channels = getComputedStyle(element)[element.ownerSVGElement ? 'fill' : 'backgroundColor']
        .match(/[\\d.]+/g).slice(0, 3).map(value => value / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
}"""
"""Relative luminance of an element's colour (WCAG 2.2)."""


def test_markup_is_text_and_nothing_else(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(run.steps()[-1], HOSTILE)
    app.open()
    app.type(HOSTILE)
    app.expect_text("translation", trace.target_text)
    assert app.page.locator(".tokens").first.text_content() == "".join(piece_labels(trace.source))
    app.choose("units", "words")
    for kind, name in (("cross", "Cross"), ("encoder_self", "Encoder self")):
        app.choose("kind", name)
        grid = make_grid(trace, kind, Reading(units="words"))
        weights = grid.apply(trace.attention[kind])[-1, 0]
        app.expect_drawn("large", weights)
        app.expect_labels("large", "x", grid.columns)
        app.expect_labels("large", "y", grid.rows)
    for at, word in enumerate(grid.columns):
        app.hover_in("large", (at + 0.5) / len(grid.columns), 0.5 / len(grid.rows))
        said = f"query {grid.rows[0]}key {word}weight {weights[0, at]:.4f}"
        app.expect_text("large", said, within=".hoverlayer")
    assert app.page.locator("img[src='x'], .stMain b, .stMain mjx-container").count() == 0
    assert app.page.evaluate("window.__hacked") is None


def test_an_empty_sentence_invites_to_type_one(app: App) -> None:
    app.open(q="")
    app.page.get_by_text("Type a sentence above and press Enter").wait_for()
    app.type(SENTENCE)
    app.page.locator(".st-key-large .js-plotly-plot").wait_for()
    app.type("   ")
    app.page.get_by_text("Type a sentence above and press Enter").wait_for()


def test_a_sentence_that_is_too_long_says_so_and_the_next_one_works(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    app.open(q=SENTENCE)
    app.type(" ".join(["word"] * 2_000))
    app.page.get_by_role("alert").filter(has_text="at most 1,024; shorten it").wait_for()
    expect(app.page.locator(".js-plotly-plot:visible")).to_have_count(0, timeout=30_000)
    app.type(SENTENCE)
    trace = trace_at(run.steps()[-1], SENTENCE)
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    app.expect_text("translation", trace.target_text)
    expect(app.page.get_by_role("alert")).to_have_count(0, timeout=30_000)


def test_both_themes_are_legible(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(run.steps()[-1], SENTENCE)
    grounds = {}
    for theme in ("light", "dark"):
        app = new_app(color_scheme=theme)
        app.open(q=SENTENCE)
        app.expect_drawn("large", trace.attention["cross"][-1, 0])
        grounds[theme] = app.page.locator(".stApp").evaluate(LUMINANCE)
        for axis in "xy":
            for key in ("large", "mosaic"):
                text = app.page.locator(f".st-key-{key} .{axis}tick text").first.evaluate(LUMINANCE)
                low, high = sorted((text, grounds[theme]))
                assert (high + 0.05) / (low + 0.05) >= 4.5
    assert grounds["dark"] < 0.1 < 0.9 < grounds["light"]
