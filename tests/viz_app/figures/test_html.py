"""What is HTML: rows of tokens, and a map before Plotly can draw it."""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from headwise.viz_app.figures.html import lens_table, padding_rows, scale_legend, token_row
from headwise.viz_app.figures.theme import (
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
