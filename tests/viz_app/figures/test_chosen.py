from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.figures.chosen import take_frames
from headwise.viz_app.figures.heads import mosaic
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.figures.theme import LIGHT

WEIGHTS = np.eye(5, 7, dtype=np.float32)
AXES: dict[str, Any] = {
    "rows": list("abcde"), "columns": list("ABCDEFG"), "row_title": "", "column_title": "",
    "theme": LIGHT,
}  # fmt: skip


def place(taken: str, side: str) -> list[tuple[float, float]]:
    """Where frames begin, or how large they are: pixels, and the share of the cells' own."""
    found = re.findall(rf"{side}:calc\((?:([\d.]+)px \+ )?([\d.e-]+) \* \(100% - \d+px\)\)", taken)
    return [(float(pixels or 0), float(share)) for pixels, share in found]


def test_a_figure_is_the_same_whatever_is_chosen() -> None:
    """Else Streamlit and Plotly would draw it anew at every click."""
    first, second = (attention_map(WEIGHTS, selected=at, column=at + 1, **AXES) for at in (1, 3))
    assert first != second
    assert take_frames(first) != take_frames(second)
    assert first == second
    maps = np.zeros((2, 3, 5, 7), np.float32)
    heads = [
        mosaic(maps, rows=AXES["rows"], columns=AXES["columns"], theme=LIGHT, selected=(1, head))
        for head in (0, 2)
    ]
    assert take_frames(heads[0]) != take_frames(heads[1])
    assert heads[0] == heads[1]


def test_frames_lie_over_the_chosen_row_and_column() -> None:
    figure = attention_map(WEIGHTS, selected=1, column=2, **AXES)
    margin, taken = figure.layout.margin, take_frames(figure)
    assert place(taken, "left") == [(margin.l, 0), (margin.l, pytest.approx(2 / 7, abs=1e-5))]
    assert place(taken, "width") == [(0, 1), (0, pytest.approx(1 / 7, abs=1e-5))]
    assert place(taken, "top") == [(margin.t, pytest.approx(1 / 5)), (margin.t, 0)]
    assert place(taken, "height") == [(0, pytest.approx(1 / 5)), (0, 1)]
    said = [json.loads(unescape(each)) for each in re.findall('data-frame="([^"]*)"', taken)]
    assert [(each["x0"], each["x1"]) for each in said] == [(0, 1), (1.5, 2.5)]
    assert figure.layout.shapes[0].fillcolor == LIGHT.line  # the marks of all rows stay
    assert len(figure.layout.shapes) == 1


def test_nothing_is_taken_where_nothing_is_chosen() -> None:
    figure = attention_map(WEIGHTS, **AXES)
    assert (take_frames(figure), figure.layout.shapes) == ("", ())
