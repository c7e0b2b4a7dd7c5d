from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

import pytest

from headwise.viz_app.figures.comparison import comparison_table
from headwise.viz_app.figures.theme import LIGHT


def drawn(rows: list[tuple[str, list[str], str]], columns: list[str]) -> Element:
    return fromstring(comparison_table(columns, rows, theme=LIGHT, notes="why"))


def test_values_that_differ_from_the_first_are_marked_and_so_is_their_row() -> None:
    rows = [
        ("norm", ["pre", "pre", "post"], "order"),
        ("heads", ["3", "3", "3"], "shapes"),
        ("d_k", ["5", "7", "11"], ""),
    ]
    table = drawn(rows, ["own", "a", "b"])
    assert [head.text or "" for head in table.findall(".//thead//th")] == [
        "",
        "own",
        "a",
        "b",
        "why",
    ]
    texts = [["".join(cell.itertext()) for cell in row] for row in table.findall(".//tbody/tr")]
    assert texts == [
        ["≠ norm", "pre", "pre", "≠ post", "order"],
        ["heads", "3", "3", "3", "shapes"],
        ["≠ d_k", "5", "≠ 7", "≠ 11", ""],
    ]
    kinds = [[cell.get("class") for cell in row][1:-1] for row in table.findall(".//tbody/tr")]
    assert kinds == [["own", "same", "other"], ["own", "same", "same"], ["own", "other", "other"]]


def test_no_text_is_read_as_html(markup: str) -> None:
    table = drawn([(markup, [markup, "b"], markup)], [markup, "b"])
    assert not list(table.iter("script"))
    texts = ["".join(cell.itertext()) for cell in table.findall(".//tbody/tr/*")]
    assert texts == [f"≠ {markup}", markup, "≠ b", markup]


def test_a_row_with_another_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^heads: expected 3 values, got 2$"):
        drawn([("heads", ["3", "5"], "")], ["own", "a", "b"])
