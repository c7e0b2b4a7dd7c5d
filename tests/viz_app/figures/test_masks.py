from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.masks import mask_map, padding_rows
from headwise.viz_app.figures.theme import LIGHT, Theme, text_on_weight, weight_colour


def causal(n: int, theme: Theme = LIGHT, **options: Any) -> go.Figure:
    labels = [f"p{i}" for i in range(n)]
    allowed = np.tri(n, dtype=bool)
    return mask_map(
        allowed, rows=labels, columns=labels, titles=("query", "key"), theme=theme, **options
    )


def test_masked_cells_are_grey_and_crossed(theme: Theme) -> None:
    figure = causal(5, theme)
    mask, forbidden, crosses = figure.data
    np.testing.assert_array_equal(mask.z, np.tri(5))
    assert {colour for _, colour in mask.colorscale} <= set(weight_colours(theme))
    np.testing.assert_array_equal(forbidden.z, 1 - np.tri(5))
    assert forbidden.colorscale[-1][1] == theme.masked
    cells = list(zip(crosses.y, crosses.x, strict=True))
    assert cells == [(y, x) for y in range(5) for x in range(y + 1, 5)]
    assert crosses.marker.symbol == "x-thin"
    assert not mask.showscale


def weight_colours(theme: Theme) -> list[str]:
    return [weight_colour(theme, p) for p in np.linspace(0, 1, 401)]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 61, 301])
def test_cells_are_square_and_fit(n: int) -> None:
    layout = causal(n, width=440).layout
    margin = layout.margin
    across = layout.width - margin.l - margin.r
    assert across == pytest.approx(layout.height - margin.t - margin.b, abs=2)
    assert 200 <= layout.width <= 441
    assert across / n <= 31


def test_small_cells_are_not_crossed() -> None:
    assert [len(causal(n).data) for n in (40, 301)] == [3, 2]


def padded(lengths: list[int], **options: Any) -> Element:
    longest = max(lengths)
    allowed = np.arange(longest) < np.array(lengths)[:, None]
    tokens = [[f"{n}.{i}" if i < n else "<pad>" for i in range(longest)] for n in lengths]
    named: dict[str, Any] = {"rows": [f"r{n}" for n in lengths], "theme": LIGHT} | options
    return fromstring(padding_rows(tokens, allowed, **named))


def texts(table: Element) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_padding_is_crossed_and_dashed() -> None:
    table = padded([3, 2, 5])
    assert texts(table) == [
        ["r3", "3.0", "3.1", "3.2", "<pad> ×", "<pad> ×"],
        ["r2", "2.0", "2.1", "<pad> ×", "<pad> ×", "<pad> ×"],
        ["r5", "5.0", "5.1", "5.2", "5.3", "5.4"],
    ]
    kinds = [[cell.get("class") for cell in row][1:] for row in table.iter("tr")]
    assert kinds[0] == ["allowed"] * 3 + ["masked"] * 2
    style = "".join(table[-1].itertext())
    [masked] = [line for line in style.splitlines() if line.startswith(".padding td.masked")]
    assert "dashed" in masked
    assert LIGHT.masked in masked


def test_of_a_long_batch_columns_without_padding_are_left_out() -> None:
    rows = texts(padded([30, 31, 27]))
    assert rows[0][1:6] == ["30.0", "30.1", "30.2", "30.3", "… 22 more"]
    assert rows[0][6:] == ["30.26", "30.27", "30.28", "30.29", "<pad> ×"]
    assert [row[-1] for row in rows] == ["<pad> ×", "31.30", "<pad> ×"]
    assert {len(row) for row in rows} == {11}
    [alone] = texts(padded([17]))
    assert alone[1:] == ["17.0", "17.1", "17.2", "17.3", "… 12 more", "17.16"]
    [short] = texts(padded([16]))
    assert len(short) == 17


def test_text_has_contrast_on_allowed_cells(theme: Theme) -> None:
    style = "".join(padded([2], theme=theme)[-1].itertext())
    [line] = [line for line in style.splitlines() if line.startswith(".padding td.allowed")]
    ground = line.split("background: ")[1].split(";")[0]
    [p] = [p for p in np.linspace(0, 1, 401) if weight_colour(theme, p) == ground][:1]
    assert f" color: {text_on_weight(theme, p)};" in line


def test_no_text_is_read_as_html(markup: str) -> None:
    table = fromstring(
        padding_rows([[markup]], np.ones((1, 1), bool), rows=[markup], theme=LIGHT, language=markup)
    )
    assert texts(table) == [[markup, markup]]
    assert not list(table.iter("script"))


def test_rows_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^expected \(2, 3\) labels, got \[3, 2\]$"):
        padding_rows([["a"] * 3, ["a"] * 2], np.ones((2, 3), bool), rows=["a", "b"], theme=LIGHT)
