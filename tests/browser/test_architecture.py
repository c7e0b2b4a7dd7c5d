"""The page Architecture unfolds its tree by mouse and keyboard, and colours tables by the theme."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.analysis.labels import token_label, token_labels
from headwise.viz_app.analysis.predictions import read_lens
from headwise.viz_app.figures.theme import DARK, LIGHT, text_on_weight, weight_colour
from headwise.viz_app.records.trace import Trace
from tests.browser.driver import rgb

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "Where is my book?"
STYLES = """all => all.map(cell => {
    const style = getComputedStyle(cell);
    return [style.backgroundColor, style.color, style.borderTopColor];
})"""
RIGHT_EDGES = "all => all.map(element => element.getBoundingClientRect().right)"


def channels(colour: str) -> list[int]:
    """The numbers of ``rgb(…)``."""
    return [int(number) for number in re.findall(r"\d+", colour)]


def test_tree_folds_its_numbers_stand_in_columns_and_formulas_are_typeset(app: App) -> None:
    """In a run with the norms after the sums."""
    app.open("/architecture", run="books-small", q=SENTENCE)
    point = "encoder.layers.1.feed_forward.hidden"
    layer = app.page.locator('details[data-module="encoder.layers.1"]')
    hidden = layer.locator(f'tr[data-hook="{point}"]')
    layer.wait_for()
    expect(hidden).to_be_hidden()
    layer.locator("> summary").click()
    inner = layer.locator('details[data-module="encoder.layers.1.feed_forward"] > summary')
    inner.focus()
    app.page.keyboard.press("Enter")
    expect(hidden).to_be_visible()
    assert inner.evaluate("element => element.matches(':focus-visible')")
    app.page.keyboard.press("Enter")
    expect(hidden).to_be_hidden()
    app.choose(unfold="everything")
    expect(hidden).to_be_visible()
    app.find("() => true")
    cells = app.page.locator(".st-key-tree tr[data-hook] > td")
    rows = app.page.locator(".st-key-tree tr[data-hook]").count()
    edges = np.reshape(cells.evaluate_all(RIGHT_EDGES), (rows, -1))
    np.testing.assert_allclose(edges, np.broadcast_to(edges[0], edges.shape), atol=0.6)
    counts = app.page.locator(".st-key-tree .count").evaluate_all(RIGHT_EDGES)
    np.testing.assert_allclose(counts, edges[0][-1], atol=0.6)

    tree = app.page.locator(".st-key-tree")
    expect(tree).to_contain_text("LayerNorm(x + CrossAttention(x))", use_inner_text=True)
    expect(tree).not_to_contain_text("tied to", use_inner_text=True)
    expect(app.page.locator(".katex-display")).to_have_count(7)
    expect(app.page.locator(".katex-error")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_masks_lens_and_checks_have_the_colours_of_the_theme(
    new_app: Callable[..., App],
    run: TrainedRun,
    newest: int,
    trace_at: Callable[..., Trace],
    scheme: str,
) -> None:
    theme = {"light": LIGHT, "dark": DARK}[scheme]
    trace = trace_at(newest, SENTENCE)
    lens = read_lens(trace)
    app = new_app(color_scheme=scheme)
    app.open("/architecture", q=SENTENCE)
    steps = len(trace.consumed)
    app.expect_drawn("causal", np.tri(steps), tolerance=0)
    for axis in "xy":
        app.expect_labels("causal", axis, token_labels(trace.consumed))
    app.expect_read("causal", "gd._fullData[2]._length", steps * (steps - 1) // 2)  # crosses

    assert [row[1:] for row in app.rows(".st-key-lens tbody tr")] == [
        [("✓ " if hit else "") + label for label, hit in zip(*pair, strict=True)]
        for pair in zip(lens.labels, lens.actual, strict=True)
    ]
    assert lens.actual.any()
    assert not lens.actual.all()
    styles = app.page.locator(".st-key-lens tbody td").evaluate_all(STYLES)
    pairs = zip(styles, lens.probabilities.ravel().tolist(), lens.actual.ravel(), strict=True)
    for (ground, text, border), p, hit in pairs:
        np.testing.assert_allclose(channels(ground), channels(rgb(weight_colour(theme, p))), atol=1)
        assert text == rgb(text_on_weight(theme, p))
        assert (border == rgb(theme.accent)) is bool(hit)

    names = app.page.locator(".st-key-checks li strong").all_text_contents()
    assert names == [check.name for check in trace.checks]
    signs = app.page.locator(".st-key-checks li .stMarkdownBadge").evaluate_all(STYLES)
    assert len(signs) == len(trace.checks)
    for _, text, _ in signs:
        red, green, blue = channels(text)[:3]
        assert green > max(red, blue)
    [alone] = app.rows(".st-key-alone tr")
    assert alone[1:] == [token_label(text) for text in trace.source.texts]
    [masked] = {tuple(s) for s in app.page.locator(".padding td.masked").evaluate_all(STYLES)}
    [allowed] = {tuple(s[:2]) for s in app.page.locator(".padding td.allowed").evaluate_all(STYLES)}
    assert masked == (rgb(theme.masked), rgb(theme.text), rgb(theme.muted))
    assert allowed[0] != masked[0]
