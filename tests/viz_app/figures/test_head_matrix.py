from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwise.model.interface import Kind
from headwise.viz_app.figures.head_matrix import HeadRows, head_matrix, measure_lines
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.records.measures import MeasureRange
from tests.floats import near

NAN = float("nan")
KINDS: dict[Kind, str] = {"encoder_self": "Encoder <self>", "decoder_self": "D", "cross": "Cross"}
STEPS = [0, 20, 10_000]
ROWS = HeadRows(
    heads=[("encoder_self", 0, 0), ("encoder_self", 0, 1), ("cross", 0, 0), ("cross", 0, 1)],
    names=["E 1.1", "E 1.2", "C 1.1", "C 1.2"],
    cells=np.array(
        [[0.1, 0.2, 0.3], [NAN, 0.5, 0.6], [0.7, -0.8, 0.9], [0.0, 0.1, 0.2]], np.float32
    ),
    words=[[f"on </s> {row} {column}" for column in range(3)] for row in range(4)],
)


def test_rows_stand_below_the_name_of_their_kind() -> None:
    figure = head_matrix(
        ROWS, steps=STEPS, kinds=KINDS, measured="cost", values="share", theme=LIGHT
    )
    cells = np.array(figure.data[0].z)
    assert cells.shape == (6, 3)
    np.testing.assert_array_equal(cells[[1, 2, 4, 5]], ROWS.cells)
    assert np.isnan(cells[[0, 3]]).all()
    assert [(note.text, note.y) for note in figure.layout.annotations] == [
        ("Encoder &lt;self&gt;", 0),
        ("Cross", 3),
    ]
    assert figure.layout.yaxis.tickvals == (1, 2, 4, 5)
    assert figure.layout.yaxis.ticktext == ("1.1", "1.2", "1.1", "1.2")
    assert figure.layout.xaxis.ticktext == ("0", "20", "10,000")


def test_only_cells_without_a_value_are_grey() -> None:
    figure = head_matrix(
        ROWS, steps=STEPS, kinds=KINDS, measured="cost", values="share", theme=DARK
    )
    grey = figure.data[1]
    assert np.argwhere(np.array(grey.z)).tolist() == [[2, 0]]
    assert grey.colorscale[-1][1] == DARK.masked


@pytest.mark.parametrize(
    ("values", "ends"), [("share", (0, 1)), ("signed", (-0.9, 0.9)), ("amount", (0, 0.9))]
)
def test_scales_fit_the_range_of_the_measure(
    values: MeasureRange, ends: tuple[float, float]
) -> None:
    figure = head_matrix(
        ROWS, steps=STEPS, kinds=KINDS, measured="cost", values=values, theme=LIGHT
    )
    drawn = figure.data[0]
    assert (drawn.zmin, drawn.zmax) == near(ends, dtype=np.float32, operations=1)
    colours = LIGHT.difference if values == "signed" else LIGHT.weights
    assert [colour for _, colour in drawn.colorscale] == list(colours)
    if values == "signed":  # the middle is 0, and a third of the way out is at a ninth of the range
        assert [at for at, _ in drawn.colorscale][3:5] == near([0.5, 0.5 + 1 / 18])


def test_a_signed_matrix_of_zeros_can_be_drawn() -> None:
    figure = head_matrix(
        replace(ROWS, cells=ROWS.cells * 0),
        steps=STEPS,
        kinds=KINDS,
        measured="cost",
        values="signed",
        theme=LIGHT,
    )
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-1, 1)


def test_each_cell_has_a_click_target() -> None:
    figure = head_matrix(
        ROWS, steps=STEPS, kinds=KINDS, measured="cost", values="share", theme=LIGHT
    )
    marks = figure.data[-1]
    assert len(marks.x) == 12
    at = marks.customdata.index("cross,0,1,10000")
    assert (marks.x[at], marks.y[at]) == (2, 5)
    assert marks.text[at] == "C 1.2, step 10,000<br>on &lt;/s&gt; 3 2"
    assert marks.marker.opacity == marks.unselected.marker.opacity == 0


def test_a_selected_cell_is_framed_if_it_is_drawn() -> None:
    def shapes(head: tuple[Kind, int, int], step: int) -> list[tuple[float, ...]]:
        figure = head_matrix(
            ROWS,
            steps=STEPS,
            kinds=KINDS,
            measured="cost",
            values="share",
            theme=LIGHT,
            selected=(head, step),
        )
        return [(shape.x0, shape.x1, shape.y0, shape.y1) for shape in figure.layout.shapes]

    assert shapes(("cross", 0, 0), 20) == [(0.5, 1.5, 3.5, 4.5)]
    assert shapes(("decoder_self", 0, 0), 20) == shapes(("cross", 0, 0), 7) == []


def test_many_checkpoints_fit_and_only_some_are_labelled() -> None:
    steps = [100 * i for i in range(90)]
    rows = HeadRows(ROWS.heads, ROWS.names, np.zeros((4, 90), np.float32), [[""] * 90] * 4)
    figure = head_matrix(
        rows, steps=steps, kinds=KINDS, measured="cost", values="share", theme=LIGHT
    )
    assert figure.layout.width <= 700
    assert figure.layout.xaxis.tickangle == -90
    assert 10 <= len(figure.layout.xaxis.tickvals) <= 60


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
        head_matrix(rows, steps=STEPS, kinds=KINDS, measured="cost", values="share", theme=LIGHT)


def test_measures_are_lines_over_the_checkpoints() -> None:
    lines = {"on </s>": [0.1, NAN, 0.3], "entropy": [0.9, 0.8, 0.7]}
    figure = measure_lines(lines, steps=STEPS, theme=LIGHT, marked=1)
    assert [line.name for line in figure.data] == ["on &lt;/s&gt;", "entropy"]
    np.testing.assert_array_equal(figure.data[0].y, np.float32([0.1, NAN, 0.3]))
    assert [line.line.color for line in figure.data] == list(LIGHT.series[:2])
    assert figure.layout.shapes[0].x0 == 1
    assert figure.layout.xaxis.ticktext == ("0", "20", "10,000")
    with pytest.raises(ValueError, match=r"^entropy: expected 3 values, got 1$"):
        measure_lines({"entropy": [0.1]}, steps=STEPS, theme=LIGHT, marked=None)
    with pytest.raises(ValueError, match=r"^expected at most 6 lines, got 7$"):
        measure_lines(dict.fromkeys("abcdefg", [0.0] * 3), steps=STEPS, theme=LIGHT, marked=None)
