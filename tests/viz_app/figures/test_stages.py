from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwise.viz_app.figures.head_matrix import HeadRows, head_matrix
from headwise.viz_app.figures.stages import StageChart, stage_charts
from headwise.viz_app.figures.theme import LIGHT, Theme
from tests.floats import near

NAN = float("nan")
STEPS = [0, 20, 10_000]
LIKELY = StageChart("<likely>", [-9.0, NAN, -3.0], ["$a$", "b", "c"], reference=-2.5)
CHRF = StageChart("chrF", [1.0, 40.0, 70.0], ["d", "e", "f"])


def test_each_chart_has_its_values_at_the_columns(theme: Theme) -> None:
    figure = stage_charts([LIKELY, CHRF], steps=STEPS, theme=theme, marked=1)
    assert [line.name for line in figure.data] == ["&lt;likely&gt;", "chrF"]
    for line, chart in zip(figure.data, (LIKELY, CHRF), strict=True):
        assert list(line.x) == [0, 1, 2]
        np.testing.assert_array_equal(line.y, np.array(chart.values, np.float32))
        assert line.customdata == ("0", "20", "10000")
    assert figure.data[0].text[0] == "step 0<br>&#36;a&#36;"
    assert [line.yaxis for line in figure.data] == ["y", "y2"]
    assert [line.line.color for line in figure.data] == list(theme.series[:2])
    assert figure.layout.xaxis.ticktext == ("0", "20", "10,000")


def test_charts_stand_below_each_other_with_their_names_and_share_one_axis() -> None:
    figure = stage_charts([LIKELY, CHRF], steps=STEPS, theme=LIGHT, marked=None)
    upper, lower = figure.layout.yaxis, figure.layout.yaxis2
    assert lower.domain[0] == near(0, size=1)
    assert lower.domain[1] < upper.domain[0] < upper.domain[1] == 1
    assert figure.layout.xaxis.anchor == "y2"
    assert upper.range[0] < -9
    assert upper.range[1] > -2.5
    names = {note.text: note.y for note in figure.layout.annotations}
    assert names == {"&lt;likely&gt;": 1, "references": -2.5, "chrF": lower.domain[1]}


def test_lines_are_at_the_references_and_at_the_chosen_checkpoint() -> None:
    figure = stage_charts([CHRF, LIKELY], steps=STEPS, theme=LIGHT, marked=2)
    dotted, chosen = figure.layout.shapes
    assert (dotted.yref, dotted.y0, dotted.y1) == ("y2", -2.5, -2.5)
    assert (chosen.x0, chosen.x1, chosen.yref, chosen.y0, chosen.y1) == (2, 2, "paper", 0, 1)
    assert not stage_charts([CHRF], steps=STEPS, theme=LIGHT, marked=None).layout.shapes


@pytest.mark.parametrize("steps", [STEPS, [1_000 * n for n in range(40)]])
def test_columns_are_those_of_the_matrix(steps: list[int]) -> None:
    words = [""] * len(steps)
    rows = HeadRows([("cross", 0, 0)], [""], np.zeros((1, len(steps)), np.float32), [words])
    matrix = head_matrix(
        rows, steps=steps, kinds={"cross": "Cross"}, measured="", values="share", theme=LIGHT
    ).layout
    chart = StageChart("chrF", [float(step) for step in steps], words)
    below = stage_charts([chart], steps=steps, theme=LIGHT, marked=None).layout
    assert (below.width, below.meta) == (matrix.width, matrix.meta)
    assert (below.margin.l, below.margin.r) == (matrix.margin.l, matrix.margin.r)
    for name in ("range", "tickvals", "ticktext", "tickangle"):
        assert below.xaxis[name] == matrix.xaxis[name]


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_chart_whose_values_are_all_the_same_has_a_range(value: float) -> None:
    figure = stage_charts([replace(CHRF, values=[value] * 3)], steps=STEPS, theme=LIGHT, marked=0)
    assert figure.layout.yaxis.range[0] < value < figure.layout.yaxis.range[1]


@pytest.mark.parametrize(
    ("charts", "message"),
    [
        ([], r"^expected 1 to 6 charts, got 0$"),
        ([CHRF] * 7, r"^expected 1 to 6 charts, got 7$"),
        ([replace(CHRF, values=[1.0])], r"^chrF: expected 3 values and words, got 1 and 3$"),
        ([replace(CHRF, words=["a"])], r"^chrF: expected 3 values and words, got 3 and 1$"),
        ([replace(CHRF, values=[NAN] * 3)], r"^chrF: expected a value to draw, got none$"),
    ],
)
def test_charts_that_cannot_be_drawn_are_refused(charts: list[StageChart], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stage_charts(charts, steps=STEPS, theme=LIGHT, marked=None)
