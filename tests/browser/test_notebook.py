"""A trace in the output of a notebook's cell, drawn in Chromium as JupyterLab shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from headwise.model.checkpoint import load_weights, open_trained_run
from headwise.model.interface import Kind
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, weight_colour
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_notebook
from headwise.viz_app.trace.sentence import run_trace

pytestmark = pytest.mark.release

COLOURS = """(canvas, [rows, columns]) => {
    const [left, top, size] = canvas.dataset.cells.split(" ").map(Number);
    const ratio = canvas.width / parseFloat(canvas.style.width);
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    return Array.from({ length: rows }, (_, row) =>
        Array.from({ length: columns }, (_, column) => {
            const at = [left + (column + 0.5) * size, top + (row + 0.5) * size];
            const data = pen.getImageData(...at.map((x) => Math.floor(x * ratio)), 1, 1).data;
            return [...data].slice(0, 3);
        }),
    );
}"""
"""Red, green and blue in the middle of each cell."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Of a run whose weights stay as they are."""
    run = open_trained_run("de-en")
    text = "Ein kleiner Hund läuft über die grüne Wiese."
    return run_trace(load_weights(run, run.steps()[-1]).model, run.tokenizers, text)


def as_in_jupyterlab(html: str, *, is_light: bool) -> bytes:
    """A page around an output, with what JupyterLab says of its theme."""
    light = str(is_light).lower()
    return (
        f'<!doctype html><meta charset="utf-8"><body data-jp-theme-light="{light}">{html}</body>'
    ).encode()


def expected_colours(theme: Theme, weights: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Of weights whose roots have 8 bits; masked cells have a colour of their own."""
    rounded = (np.rint(np.sqrt(weights) * 254) / 254) ** 2
    colours = [
        [
            weight_colour(theme, float(weight)) if seen else theme.masked
            for weight, seen in zip(row, row_allowed, strict=True)
        ]
        for row, row_allowed in zip(rounded, allowed, strict=True)
    ]
    return np.array([[list(bytes.fromhex(c[1:])) for c in row] for row in colours])


def expect_map(page: Page, trace: Trace, kind: Kind, layer: int, head: int, theme: Theme) -> None:
    """The large map has the colours of this head, as the lists say."""
    for name, value in (("kind", kind), ("layer", layer), ("head", head)):
        expect(page.locator(f'select[data-of="{name}"]')).to_have_value(str(value))
    weights = trace.attention[kind][layer, head]
    allowed = np.tri(*weights.shape) > 0 if kind == "decoder_self" else weights >= 0
    drawn = np.array(page.locator("canvas.large").evaluate(COLOURS, list(weights.shape)))
    # A mix of two colours may be rounded to either side.
    assert np.abs(drawn - expected_colours(theme, weights, allowed)).max() <= 1


def cell(canvas: Locator, row: int, column: int) -> dict[str, float]:
    left, top, size = map(float, (canvas.get_attribute("data-cells") or "").split())
    return {"x": left + (column + 0.5) * size, "y": top + (row + 0.5) * size}


@pytest.mark.parametrize(("theme", "other"), [(LIGHT, DARK), (DARK, LIGHT)], ids=["light", "dark"])
def test_every_head_is_drawn_in_the_colours_of_the_notebook(
    open_page: Callable[[bytes], Page], trace: Trace, theme: Theme, other: Theme
) -> None:
    """By click, by the lists, and when the notebook's theme changes."""
    page = open_page(as_in_jupyterlab(to_notebook(trace), is_light=theme is LIGHT))
    expect(page.locator("canvas.large")).to_be_visible()
    expect(page.locator(".waiting")).to_be_hidden()
    last = trace.shapes["cross"][0] - 1
    expect_map(page, trace, "cross", last, 0, theme)
    every = page.locator("canvas.all")
    width, height = map(float, (every.get_attribute("data-head") or "").split())
    every.click(position={"x": 2.5 * width, "y": 1.5 * height})
    expect_map(page, trace, "cross", 1, 2, theme)
    page.locator('select[data-of="kind"]').select_option("decoder_self")
    page.locator('select[data-of="layer"]').select_option(index=3)
    expect_map(page, trace, "decoder_self", 3, 2, theme)
    page.evaluate("it => {document.body.dataset.jpThemeLight = it;}", str(other is LIGHT).lower())
    page.wait_for_timeout(100)
    expect_map(page, trace, "decoder_self", 3, 2, other)


def test_a_cell_says_its_weight(open_page: Callable[[bytes], Page], trace: Trace) -> None:
    page = open_page(as_in_jupyterlab(to_notebook(trace), is_light=True))
    large, said = page.locator("canvas.large"), page.locator("output")
    grid = make_grid(trace, "cross")
    weights = trace.attention["cross"][-1, 0]

    def told(row: int, column: int) -> str:
        rounded = (np.rint(np.sqrt(float(weights[row, column])) * 254) / 254) ** 2
        return f"{grid.rows[row]} → {grid.columns[column]}: {rounded:.2f}"

    large.hover(position=cell(large, 3, 2))
    expect(said).to_have_text(told(3, 2))
    large.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    expect(said).to_have_text(told(3, 3))
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
