from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.model.interface import Kind
from headwise.viz_app.figures.head_matrix import HeadRows, head_matrix, step_ticks
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.records.measures import MeasureRange
from tests.floats import near

NAN = float("nan")
KINDS: dict[Kind, str] = {"encoder_self": "Encoder <self>", "decoder_self": "D", "cross": "Cross"}
ROWS = HeadRows(
    heads=[("encoder_self", 0, 0), ("encoder_self", 0, 1), ("cross", 0, 0), ("cross", 0, 1)],
    names=["E 1.1", "E 1.2", "C 1.1", "C 1.2"],
    cells=np.array(
        [[0.1, 0.2, 0.3], [NAN, 0.5, 0.6], [0.7, -0.8, 0.9], [0.0, 0.1, 0.2]], np.float32
    ),
    words=[[f"on </s> {row} {column}" for column in range(3)] for row in range(4)],
)


def draw(rows: HeadRows = ROWS, **changes: Any) -> go.Figure:
    given: dict[str, Any] = {"steps": [0, 20, 10_000], "kinds": KINDS, "measured": "cost"}
    return head_matrix(rows, **(given | {"values": "share", "theme": LIGHT} | changes))


def test_rows_stand_below_the_name_of_their_kind_and_cells_without_a_value_are_grey() -> None:
    figure = draw(theme=DARK)
    cells, grey, _ = figure.data
    assert cells.z.shape == (6, 3)
    np.testing.assert_array_equal(cells.z[[1, 2, 4, 5]], ROWS.cells)
    assert np.isnan(cells.z[[0, 3]]).all()
    names = [(note.text, note.y) for note in figure.layout.annotations]
    assert names == [("Encoder &lt;self&gt;", 0), ("Cross", 3)]
    assert figure.layout.yaxis.tickvals == (1, 2, 4, 5)
    assert figure.layout.yaxis.ticktext == ("1.1", "1.2", "1.1", "1.2")
    assert figure.layout.xaxis.ticktext == ("0", "20", "10,000")
    assert step_ticks([0, 20, 10_000], 2) == {
        "tickvals": [0, 2],
        "ticktext": ["0", "10,000"],
        "labelalias": {"0": "0", "1": "20", "2": "10,000"},
    }
    assert np.argwhere(grey.z).tolist() == [[2, 0]]
    assert grey.colorscale[-1][1] == DARK.masked


@pytest.mark.parametrize(
    ("values", "ends", "written"),
    [
        ("share", (0, 1), None),
        ("signed", (-3.6, 3.6), ("-3.6", "-0.9", "0", "+0.9", "+3.6")),
        ("amount", (0, 3.6), ("0", "0.36", "0.9", "1.8", "3.6")),
    ],
)
def test_scales_fit_the_range_of_the_measure(
    values: MeasureRange, ends: tuple[float, float], written: tuple[str, ...] | None
) -> None:
    drawn = draw(replace(ROWS, cells=4 * ROWS.cells), values=values).data[0]
    assert (drawn.zmin, drawn.zmax) == near(ends, dtype=np.float32, operations=1)
    assert drawn.colorbar.ticktext == written
    colours = LIGHT.difference if values == "signed" else LIGHT.weights
    assert [colour for _, colour in drawn.colorscale] == list(colours)
    if values == "signed":  # the middle is 0, and a third of the way out is at a ninth of the range
        assert [at for at, _ in drawn.colorscale][3:5] == near([0.5, 0.5 + 1 / 18])


def test_a_signed_matrix_of_zeros_can_be_drawn() -> None:
    cells = draw(replace(ROWS, cells=ROWS.cells * 0), values="signed").data[0]
    assert (cells.zmin, cells.zmax) == (-1, 1)


def test_each_cell_has_a_click_target() -> None:
    marks = draw().data[-1]
    assert len(marks.x) == 12
    at = marks.customdata.index("cross,0,1,10000")
    assert (marks.x[at], marks.y[at]) == (2, 5)
    assert marks.text[at] == "C 1.2, step 10,000<br>on &lt;/s&gt; 3 2"


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ((("cross", 0, 0), 20), [(0.5, 1.5, 3.5, 4.5)]),
        ((("decoder_self", 0, 0), 20), []),
        ((("cross", 0, 0), 7), []),
        (None, []),
    ],
)
def test_a_selected_cell_is_framed_if_it_is_drawn(selected: Any, expected: list[Any]) -> None:
    shapes = draw(selected=selected).layout.shapes
    assert [(shape.x0, shape.x1, shape.y0, shape.y1) for shape in shapes] == expected


def test_many_checkpoints_fit_and_only_some_are_labelled() -> None:
    rows = replace(ROWS, cells=np.zeros((4, 90), np.float32), words=[[""] * 90] * 4)
    layout = draw(rows, steps=[100 * i for i in range(90)]).layout
    assert layout.width <= 700
    assert layout.xaxis.tickangle == -90
    assert 10 <= len(layout.xaxis.tickvals) <= 60


@pytest.mark.parametrize(
    "rows",
    [
        replace(ROWS, cells=ROWS.cells[:3]),
        replace(ROWS, names=ROWS.names[:3]),
        replace(ROWS, words=ROWS.words[:3]),
        HeadRows([], [], np.zeros((0, 3), np.float32), []),
    ],
)
def test_arrays_that_do_not_fit_their_labels_are_refused(rows: HeadRows) -> None:
    with pytest.raises(ValueError, match=r"^expected"):
        draw(rows)
