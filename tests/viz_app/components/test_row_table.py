from __future__ import annotations

import json
from typing import Any

import pytest

from headwise.viz_app.components.row_table import (
    Bar,
    Cell,
    MarkedText,
    Row,
    TextPart,
    row_table_data,
)
from headwise.viz_app.figures.theme import DARK, LIGHT
from tests.floats import near


def sent(*cells: Cell, **changes: Any) -> Any:
    given: dict[str, Any] = {"label": "heads", "theme": LIGHT} | changes
    data = row_table_data(
        ["head", *map(str, range(len(cells)))], [Row("a", ("1.1", *cells))], **given
    )
    return json.loads(json.dumps(data, allow_nan=False))


def test_texts_and_marked_words_are_sent_unchanged() -> None:
    text = MarkedText(
        (TextPart("The "), TextPart("<b>", "query"), TextPart("&", "query key")), "en"
    )
    data = sent("$x$", text, legend=[TextPart("who looks", "query")], chosen="a", action="open")
    [row] = data["rows"]
    assert row["name"] == data["chosen"] == "a"
    assert row["cells"][:2] == [{"text": "1.1"}, {"text": "$x$"}]
    assert row["cells"][2] == {
        "language": "en",
        "parts": [
            {"text": "The ", "mark": ""},
            {"text": "<b>", "mark": "query"},
            {"text": "&", "mark": "query key"},
        ],
    }
    assert data["legend"] == [{"text": "who looks", "mark": "query"}]
    assert (data["label"], data["action"]) == ("heads", "open")


@pytest.mark.parametrize(
    ("bar", "start", "length"),
    [
        (Bar(0.25, ""), 0.0, 0.25),
        (Bar(0.3, "", low=-0.1, high=0.4), 0.2, 0.6),
        (Bar(-0.05, "", low=-0.1, high=0.4), 0.1, 0.1),
        (Bar(7.0, ""), 0.0, 1.0),  # no longer than its cell
        (Bar(0.0, ""), 0.0, 0.0),
    ],
)
def test_bars_begin_at_zero(bar: Bar, start: float, length: float) -> None:
    cell = sent(bar)["rows"][0]["cells"][1]
    assert (cell["start"], cell["length"]) == near((start, length), size=1)


def test_colours_come_from_the_theme() -> None:
    below = sent(Bar(-1.0, "-1", low=-1.0), theme=DARK)
    assert below["rows"][0]["cells"][1]["colour"] == DARK.series[1]
    assert sent(Bar(1.0, "1"))["rows"][0]["cells"][1]["colour"] == LIGHT.series[0]
    assert below["colours"]["accent"] == DARK.accent
    assert below["colours"]["query"] != below["colours"]["key"]


def test_a_row_without_a_cell_for_each_title_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a: expected 2 cells, got 1$"):
        row_table_data(["x", "y"], [Row("a", ("1",))], label="", theme=LIGHT)
