"""What a browser shows of a map before Plotly can draw it: cells, labels and titles as HTML."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.early import early_map
from headwise.viz_app.figures.heads import mosaic
from headwise.viz_app.figures.maps import attention_map, vector_map
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, weight_colour

THIRDS = np.array([[0, 1 / 9, 4 / 9], [1, 0.25, 0.5]], dtype=np.float32)
"""Weights whose roots are 0, 1/3, 2/3, 1: the scale's colours 0, 2, 4 and 6 of seven."""
AXES: dict[str, Any] = {"row_title": "query", "column_title": "key"}
LABELS: dict[str, Any] = {"rows": ("<b>", "&lt;"), "columns": ("The", "$x$", "niña")} | AXES


def images(figure: go.Figure) -> list[np.ndarray]:
    """Decode the pictures of cells: RGBA, a pixel each."""
    found = re.findall(r'src="data:image/png;base64,([^"]+)"', early_map(figure))
    files = (io.BytesIO(base64.b64decode(text)) for text in found)
    return [np.asarray(Image.open(file).convert("RGBA")) for file in files]


def rgb(colour: str) -> list[int]:
    return list(bytes.fromhex(colour[1:]))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_cells_have_the_colours_of_the_scale(theme: Theme) -> None:
    [cells] = images(attention_map(THIRDS, theme=theme, **LABELS))
    assert cells.shape == (2, 3, 4)
    assert (cells[..., 3] == 255).all()
    on_the_scale = [cells[0, 0], cells[0, 1], cells[0, 2], cells[1, 0]]
    assert [list(pixel[:3]) for pixel in on_the_scale] == [
        rgb(theme.weights[i]) for i in (0, 2, 4, 6)
    ]
    for pixel, weight in ((cells[1, 1], 0.25), (cells[1, 2], 0.5)):
        # Plotly goes straight from colour to colour in the weight, and weight_colour in its root.
        assert np.abs(pixel[:3] - np.array(rgb(weight_colour(theme, weight)))).max() <= 8


def test_masked_cells_are_covered() -> None:
    allowed = np.array([[True, True, True], [True, False, True]])
    _, covers = images(attention_map(THIRDS, theme=LIGHT, allowed=allowed, **LABELS))
    assert covers[..., 3].tolist() == [[0, 0, 0], [0, 255, 0]]
    assert list(covers[1, 1, :3]) == rgb(LIGHT.masked)


def test_a_value_that_is_missing_is_not_painted() -> None:
    figure = attention_map(THIRDS, theme=LIGHT, **LABELS)
    figure.data[0].z = np.array([[0.5, np.nan, 1], [np.nan, 1, 0]])
    assert images(figure)[0][..., 3].tolist() == [[255, 0, 255], [0, 255, 255]]


def test_labels_stand_at_the_middle_of_their_cells_and_are_no_html() -> None:
    page = early_map(attention_map(THIRDS, theme=LIGHT, **LABELS))
    columns = dict(re.findall(r'<i style="left:([\d.]+)%;[^"]*">(.*?)</i>', page))
    rows = dict(re.findall(r'<i style="bottom:([\d.]+)%;[^"]*">(.*?)</i>', page))
    assert columns == {"16.667": "The", "50.000": "&#36;x&#36;", "83.333": "niña"}
    assert rows == {"75.000": "&lt;b&gt;", "25.000": "&amp;lt;"}
    assert page.count("writing-mode:vertical-rl") == 3
    assert ">query</i>" in page
    assert ">key</i>" in page


def test_of_many_labels_some_are_written() -> None:
    many = [f"token {i}" for i in range(90)]
    figure = attention_map(np.eye(90), rows=many, columns=many, theme=LIGHT, width=300, **AXES)
    every = figure.layout.xaxis.dtick
    assert re.findall(r'left:[\d.]+%;[^"]*">(.*?)</i>', early_map(figure)) == many[::every] != many


def test_heads_of_a_mosaic_are_named_in_their_middle() -> None:
    maps = np.full((2, 3, 4, 5), 0.25, dtype=np.float32)
    page = early_map(mosaic(maps, rows=["r"] * 4, columns=["c"] * 5, theme=LIGHT))
    named = re.findall(r"(left|bottom):([\d.]+)%;[^>]*>((?:head|layer) \d)<", page)
    # Cells are 5 + 1 + 5 + 1 + 5 wide and 4 + 1 + 4 high.
    expected = {"head 1": 2.5 / 17, "head 2": 8.5 / 17, "head 3": 14.5 / 17}
    expected |= {"layer 1": 7 / 9, "layer 2": 2 / 9}
    assert {name: float(at) for _, at, name in named} == {
        name: pytest.approx(100 * at, abs=1e-3) for name, at in expected.items()
    }


def test_cells_lie_within_the_margins_and_the_whole_is_as_high_as_the_figure() -> None:
    figure = attention_map(THIRDS, selected=1, theme=LIGHT, **LABELS)
    page, layout = early_map(figure), figure.layout
    assert f"height:{layout.height}px" in page
    margin = layout.margin
    assert f"inset:{margin.t}px {margin.r}px {margin.b}px {margin.l}px" in page


def test_a_row_with_a_scale_of_its_own_is_left_to_plotly() -> None:
    vectors = np.ones((3, 4), dtype=np.float32)
    figure = vector_map(vectors, labels=list("abc"), limit=1.0, apart=(1, 2.0), theme=LIGHT)
    assert [cells.shape for cells in images(figure)] == [(3, 4, 4)]


def test_there_is_none_of_bars_and_of_very_large_maps() -> None:
    assert early_map(bar_chart(["a"], [0.5], theme=LIGHT)) == ""
    large = np.zeros((201, 200), dtype=np.float32)
    labels = {"rows": ["r"] * 201, "columns": ["c"] * 200}
    assert early_map(attention_map(large, theme=LIGHT, **labels, **AXES)) == ""
