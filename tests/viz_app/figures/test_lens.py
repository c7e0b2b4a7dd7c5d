from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest

from headwise.viz_app.figures.lens import lens_table
from headwise.viz_app.figures.theme import LIGHT, Theme, text_on_weight, weight_colour

P = np.array([[0.0, 0.5], [0.9, 1.0], [0.2, 0.3]], np.float32)
ACTUAL = np.array([[False, True], [True, True], [False, False]])


def drawn(**changes: Any) -> Element:
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


def body(table: Element) -> list[list[Element]]:
    return [list(row) for row in table.findall(".//tbody/tr")]


def test_each_step_has_a_row_and_each_layer_a_column() -> None:
    table = drawn()
    heads = [head.text for head in table.findall(".//thead//th")]
    assert heads == ["step", "embedding", "layer 1"]
    texts = [["".join(cell.itertext()) for cell in row] for row in body(table)]
    assert texts == [["r1", "a", "✓ b"], ["r2", "✓ c", "✓ d"], ["r3", "e", "f"]]
    titles = [[cell.get("title") for cell in row[1:]] for row in body(table)]
    assert titles == [["na", "nb"], ["nc", "nd"], ["ne", "nf"]]
    kinds = [[cell.get("class") == "actual" for cell in row[1:]] for row in body(table)]
    assert kinds == ACTUAL.tolist()


def test_hits_of_a_column_are_counted() -> None:
    foot = ["".join(cell.itertext()) for cell in drawn().findall(".//tfoot//*")][1:]
    assert foot == ["✓ in so many steps", "1 of 3", "2 of 3"]


def test_cells_are_coloured_on_the_scale_of_weights(theme: Theme) -> None:
    for row, p_row in zip(body(drawn(theme=theme)), P.tolist(), strict=True):
        for cell, p in zip(row[1:], p_row, strict=True):
            expected = f"background:{weight_colour(theme, p)};color:{text_on_weight(theme, p)}"
            assert cell.get("style") == expected


def test_no_text_is_read_as_html(markup: str) -> None:
    cells = [[markup, markup]] * 3
    table = drawn(
        labels=cells, notes=cells, rows=[markup] * 3, columns=[markup] * 2, language=markup
    )
    assert not list(table.iter("script"))
    texts = ["".join(cell.itertext()).removeprefix("✓ ") for row in body(table) for cell in row]
    assert set(texts) == {markup}
    assert body(table)[0][1].get("title") == markup


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", [["a", "b"], ["c", "d"]]),
        ("probabilities", P.T),
        ("actual", ACTUAL[:, :1]),
        ("notes", [["a", "b"], ["c"], ["d", "e"]]),
    ],
)
def test_arrays_that_do_not_fit_their_labels_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected \(3, 2\), got"):
        drawn(**{name: value})
