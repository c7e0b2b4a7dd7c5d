"""The page Data flow draws what a trace computed here says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from model.checkpoint import Run, load_weights
from model.data import pad
from model.hooks import hook_names
from model.masks import causal_mask, padding_mask
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.analysis.lens import read_lens
from viz_app.figures.theme import DARK, LIGHT, text_on_weight, weight_colour
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "Where is my book?"
ROWS = """all => all.map(row => [...row.cells].map(cell => cell.textContent.trim()))"""
STYLES = """all => all.map(cell => {
    const style = getComputedStyle(cell);
    return [style.backgroundColor, style.color, style.borderTopColor];
})"""


def open_flow(app: App, **address: str) -> None:
    """Open the page as a person does, from the first one."""
    app.open("/", q=SENTENCE, **address)
    app.page.get_by_role("link", name="Data flow").click()
    app.page.locator(".st-key-checks table").wait_for()


def rows(app: App, place: str) -> list[list[str]]:
    """Texts of a table's rows."""
    app.page.locator(place).first.wait_for()
    found: list[list[str]] = app.page.locator(place).evaluate_all(ROWS)
    return found


def rgb(colour: str) -> str:
    """``#rrggbb`` as browsers write it."""
    return f"rgb({', '.join(str(value) for value in bytes.fromhex(colour[1:]))})"


def test_the_tree_has_the_trace_s_numbers(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[-1]
    trace = trace_at(step, SENTENCE)
    open_flow(app)
    drawn = rows(app, ".st-key-tree tr[data-hook]")
    names = app.page.locator(".st-key-tree tr[data-hook]").evaluate_all(
        "all => all.map(row => row.dataset.hook)"
    )
    assert names == hook_names(load_weights(run, step).model)
    for row, seen in zip(drawn, trace.summary, strict=True):
        assert row[1] == " × ".join(f"{size:,}" for size in seen.shape)
        numbers = [float(cell.replace(",", "")) for cell in row[2:5]]
        expected = [seen.mean, seen.standard_deviation, seen.norm]
        np.testing.assert_allclose(numbers, expected, atol=2e-3)
    total = app.page.locator(".st-key-tree .count").first
    assert total.text_content() == f"{run.info.parameters:,}"


def test_the_tree_folds_by_mouse_and_by_keyboard_and_its_numbers_stand_in_columns(
    app: App,
) -> None:
    open_flow(app)
    layer = app.page.locator('details[data-module="encoder.layers.1"]')
    point = layer.locator('tr[data-hook="encoder.layers.1.feed_forward.hidden"]')
    layer.wait_for()
    assert not point.is_visible()
    layer.locator("> summary").click()
    inner = layer.locator('details[data-module="encoder.layers.1.feed_forward"] > summary')
    inner.focus()
    app.page.keyboard.press("Enter")
    point.wait_for()
    assert point.is_visible()
    assert inner.evaluate("element => element.matches(':focus-visible')")
    app.page.keyboard.press("Enter")
    point.wait_for(state="hidden")
    app.choose("unfold", "everything")
    point.wait_for()
    edges = app.page.locator(".st-key-tree tr[data-hook]").evaluate_all(
        "all => all.map(row => [...row.cells].slice(1).map(c => c.getBoundingClientRect().right))"
    )
    np.testing.assert_allclose(edges, np.broadcast_to(edges[0], np.shape(edges)), atol=0.6)
    counts = app.page.locator(".st-key-tree .count").evaluate_all(
        "all => all.map(count => count.getBoundingClientRect().right)"
    )
    np.testing.assert_allclose(counts, edges[0][-1], atol=0.6)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lens_is_drawn_in_the_colours_of_weights(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace], scheme: str
) -> None:
    theme = {"light": LIGHT, "dark": DARK}[scheme]
    trace = trace_at(run.steps()[-1], SENTENCE)
    lens = read_lens(trace)
    app = new_app(color_scheme=scheme)
    open_flow(app)
    drawn = rows(app, ".st-key-lens tbody tr")
    assert [row[1:] for row in drawn] == [
        [("✓ " if hit else "") + label for label, hit in zip(*pair, strict=True)]
        for pair in zip(lens.labels, lens.actual, strict=True)
    ]
    assert lens.actual.any()
    assert not lens.actual.all()
    cells = app.page.locator(".st-key-lens tbody td")
    styles = cells.evaluate_all(STYLES)
    pairs = zip(styles, lens.probabilities.ravel().tolist(), lens.actual.ravel(), strict=True)
    for (ground, text, border), p, hit in pairs:
        np.testing.assert_allclose(channels(ground), channels(rgb(weight_colour(theme, p))), atol=1)
        assert text == rgb(text_on_weight(theme, p))
        assert (border == rgb(theme.accent)) is bool(hit)
    notes = cells.evaluate_all("all => all.map(cell => cell.title)")
    expected = [
        line.split("  ")[0] for row in lens.notes for note in row for line in note.split("\n")
    ]
    assert [line.split("  ")[0] for note in notes for line in note.split("\n")] == expected


def channels(colour: str) -> list[int]:
    """The numbers of ``rgb(…)``."""
    return [int(number) for number in re.findall(r"\d+", colour)]


def test_masks_are_the_model_s(app: App, run: Run, trace_at: Callable[..., Trace]) -> None:
    trace = trace_at(run.steps()[-1], SENTENCE)
    steps = len(trace.consumed)
    open_flow(app)
    app.expect_drawn("causal", causal_mask(steps, steps)[0, 0].numpy().astype(np.float32))
    for axis in "xy":
        app.expect_labels("causal", axis, piece_labels(trace.consumed))
    later = [[x, y] for y in range(steps) for x in range(y + 1, steps)]
    crosses = app.read("causal", "gd._fullData[2]._length")
    assert crosses == len(later)
    alone, batch = (rows(app, f".st-key-{key} tr") for key in ("alone", "batch"))
    assert [row[1:] for row in alone] == [[piece_label(p) for p in trace.source.pieces]]
    drawn = [[cell.removesuffix(" ×") for cell in row[1:]] for row in batch]
    allowed = [["×" not in cell for cell in row[1:]] for row in batch]
    assert len(batch) == 3
    assert len({sum(row) for row in allowed}) == 3
    samples = {str(row["source"]) for row in run.samples()}
    sentences = [run.tokenizers.encode_source(text) for text in (SENTENCE, *samples)]
    own = [
        next(ids for ids in sentences if labels(run, ids) == row[: sum(seen)])
        for row, seen in zip(drawn, allowed, strict=True)
    ]
    assert own[0] == list(trace.source.ids)
    assert padding_mask(pad(own))[:, 0, 0].tolist() == allowed
    assert {cell for row in drawn for cell in row[min(map(len, own)) :]} > {"<pad>"}


def labels(run: Run, ids: list[int]) -> list[str]:
    """Of the pieces of a source."""
    return [piece_label(piece) for piece in run.tokenizers.source.pieces(ids)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_checks_are_green_and_allowed_cells_unlike_forbidden_ones(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace], scheme: str
) -> None:
    theme = {"light": LIGHT, "dark": DARK}[scheme]
    trace = trace_at(run.steps()[-1], SENTENCE)
    app = new_app(color_scheme=scheme)
    open_flow(app)
    drawn = rows(app, ".st-key-checks tbody tr")
    assert [(row[0], row[1]) for row in drawn] == [("✓ holds", c.name) for c in trace.checks]
    limits = [float(row[3].replace("−", "-")) for row in drawn]
    assert limits == [check.limit for check in trace.checks]
    for row in drawn:
        assert float(row[2].replace("−", "-")) <= float(row[3].replace("−", "-"))
    signs = app.page.locator(".st-key-checks tbody .stMarkdownBadge").evaluate_all(STYLES)
    assert len(signs) == len(trace.checks)
    for _, text, _ in signs:
        red, green, blue = channels(text)[:3]
        assert green > max(red, blue)
    [masked] = {tuple(s) for s in app.page.locator(".padding td.masked").evaluate_all(STYLES)}
    [allowed] = {tuple(s[:2]) for s in app.page.locator(".padding td.allowed").evaluate_all(STYLES)}
    assert masked == (rgb(theme.masked), rgb(theme.text), rgb(theme.muted))
    assert allowed[0] != masked[0]


def test_another_run_has_its_own_formulas(app: App) -> None:
    open_flow(app, run="books-small")
    app.choose("unfold", "everything")
    tree = app.page.locator(".st-key-tree")
    tree.locator('details[data-module="decoder.layers.2"]').wait_for()
    text = tree.inner_text()
    assert "LayerNorm(x + CrossAttention(x))" in text
    assert "x + CrossAttention(LayerNorm(x))" not in text
    assert "no norm on top" in text
    assert "tied to" not in text
    body = app.page.locator(".stMain").inner_text()
    assert "never meant for the unembedding" in body
    assert app.page.locator(".st-key-presets td.own").first.text_content() == "post"
    assert app.page.locator(".katex-error").count() == 0
    assert app.page.locator(".katex-display").count() == 7
