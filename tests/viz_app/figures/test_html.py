"""What is HTML: rows of tokens, and a map before Plotly can draw it."""

from __future__ import annotations

import base64
import io
import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import plotly.graph_objects as go
import pytest
from PIL import Image

from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.early import early_map
from headwise.viz_app.figures.heads import mosaic
from headwise.viz_app.figures.html import lens_table, padding_rows, scale_legend, token_row
from headwise.viz_app.figures.maps import attention_map, vector_map
from headwise.viz_app.figures.theme import (
    DARK,
    LIGHT,
    Theme,
    difference_scale,
    text_on_weight,
    weight_colour,
)


def texts(table: Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


# A row


def drawn_row(labels: list[str], **changes: Any) -> Element:
    return fromstring(token_row(labels, **({"theme": LIGHT} | changes)))


@pytest.mark.parametrize(
    ("language", "tag"),
    [("es", "es"), ("eng_Latn", "eng-Latn"), ("", ""), ("symbols", "zxx"), ('"', "zxx")],
)
def test_its_language_is_named_as_html_has_it(language: str, tag: str) -> None:
    assert drawn_row(["a"], language=language).get("lang") == tag


def style(token: Element) -> dict[str, str]:
    parts = (part.partition(":") for part in token.get("style", "").split(";"))
    return {name: value for name, _, value in parts}


def test_tokens_are_shaded_by_probabilities_which_stand_below_and_one_framed(theme: Theme) -> None:
    row = drawn_row(["a", "b"], theme=theme, probabilities=[0.0, 0.9], selected=1)
    borders = [style(token)["border"] for token in row.iter("bdi")]
    assert borders == [f"1px solid {theme.line}", f"1px solid {theme.accent}"]
    assert [number.text for number in row.iter("small")] == ["<.01", "0.90"]
    for token, p in zip(row.iter("bdi"), [0.0, 0.9], strict=True):
        assert style(token)["background"] == weight_colour(theme, p)
        assert style(token)["color"] == text_on_weight(theme, p)
        assert token.get("title") is None


def test_a_legend_says_that_its_scale_is_not_linear_and_what_is_masked() -> None:
    """A weight of a quarter has the colour in the middle of the bar of roots."""
    legend = scale_legend(LIGHT, "weight", masked=True)
    assert re.sub("<[^>]*>", "", legend).startswith("weight (√ scale): 0  1")
    middle = LIGHT.weights[(len(LIGHT.weights) - 1) // 2]
    assert len(LIGHT.weights) % 2 == 0 or f"{middle} 25%" in legend
    assert f"background:{LIGHT.masked}" in legend
    assert "masked" not in scale_legend(LIGHT, "weight")
    signed = scale_legend(LIGHT, "B − A", signed=True)
    assert re.sub("<[^>]*>", "", signed) == "B − A: −1  1"
    assert f"{difference_scale(LIGHT)[-1][1]} 100%" in signed


# A padded batch


def padded(lengths: list[int]) -> Element:
    longest = max(lengths)
    allowed = np.arange(longest) < np.array(lengths)[:, None]
    tokens = [[f"{n}.{i}" if i < n else "<pad>" for i in range(longest)] for n in lengths]
    return fromstring(padding_rows(tokens, allowed, rows=[f"r{n}" for n in lengths]))


def test_padding_is_crossed_and_has_a_class_of_its_own() -> None:
    table = padded([3, 2, 5])
    assert texts(table) == [
        ["r3", "3.0", "3.1", "3.2", "<pad> ×", "<pad> ×"],
        ["r2", "2.0", "2.1", "<pad> ×", "<pad> ×", "<pad> ×"],
        ["r5", "5.0", "5.1", "5.2", "5.3", "5.4"],
    ]
    kinds = [cell.get("class") for cell in next(table.iter("tr"))][1:]
    assert kinds == ["allowed"] * 3 + ["masked"] * 2


def test_of_a_long_batch_columns_without_padding_are_left_out() -> None:
    rows = texts(padded([30, 31, 27]))
    assert rows[0][1:6] == ["30.0", "30.1", "30.2", "30.3", "… 22 more"]
    assert rows[0][6:] == ["30.26", "30.27", "30.28", "30.29", "<pad> ×"]
    assert [row[-1] for row in rows] == ["<pad> ×", "31.30", "<pad> ×"]
    assert {len(row) for row in rows} == {11}
    [alone], [short] = texts(padded([17])), texts(padded([16]))
    assert alone[1:] == ["17.0", "17.1", "17.2", "17.3", "… 12 more", "17.16"]
    assert len(short) == 17


# The lens

P = np.array([[0.0, 0.5], [0.9, 1.0], [0.2, 0.3]], np.float32)
ACTUAL = np.array([[False, True], [True, True], [False, False]])


def lens(**changes: Any) -> Element:
    named: dict[str, Any] = {
        "labels": [["a", "b"], ["c", "d"], ["e", "f"]],
        "probabilities": P,
        "actual": ACTUAL,
        "notes": [["na", "nb"], ["nc", "nd"], ["ne", "nf"]],
        "rows": ["r1", "r2", "r3"],
        "columns": ["embedding", "layer 1"],
        "row_title": "step",
        "theme": LIGHT,
    } | changes
    return fromstring(lens_table(named.pop("labels"), named.pop("probabilities"), **named))


def test_each_step_has_a_row_and_each_layer_a_column_shaded_by_probability(theme: Theme) -> None:
    table = lens(theme=theme)
    assert texts(table) == [
        ["step", "embedding", "layer 1"],
        ["r1", "a", "✓ b"],
        ["r2", "✓ c", "✓ d"],
        ["r3", "e", "f"],
        ["✓ at so many positions", "1 of 3", "2 of 3"],
    ]
    cells = list(table.iterfind(".//tbody//td"))
    assert [cell.get("title") for cell in cells] == ["na", "nb", "nc", "nd", "ne", "nf"]
    assert [cell.get("class") == "actual" for cell in cells] == ACTUAL.ravel().tolist()
    for cell, p in zip(cells, P.ravel().tolist(), strict=True):
        expected = f"background:{weight_colour(theme, p)};color:{text_on_weight(theme, p)}"
        assert cell.get("style") == expected


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
    assert [[*pixel[:3]] for pixel in on_the_scale] == [rgb(theme.weights[i]) for i in (0, 2, 4, 6)]
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
