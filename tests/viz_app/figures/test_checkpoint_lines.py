from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.figures.checkpoint_lines import (
    StageChart,
    measure_lines,
    named_lines,
    stage_charts,
)
from headwise.viz_app.figures.head_matrix import HeadRows, head_matrix
from headwise.viz_app.figures.theme import LIGHT, Theme
from tests.floats import near

NAN = float("nan")
STEPS = [0, 20, 10_000]

# Measures of a head, cosines


def test_measures_are_lines_over_the_checkpoints() -> None:
    lines = {"on </s>": [0.1, NAN, 0.3], "entropy": [0.9, 0.8, 0.7]}
    figure = measure_lines(lines, steps=STEPS, theme=LIGHT, marked=1)
    assert [line.name for line in figure.data] == ["on &lt;/s&gt;", "entropy"]
    np.testing.assert_array_equal(figure.data[0].y, np.float32([0.1, NAN, 0.3]))
    assert [line.line.color for line in figure.data] == list(LIGHT.series[:2])
    assert figure.layout.shapes[0].x0 == 1
    assert figure.layout.xaxis.ticktext == ("0", "20", "10,000")


def test_named_lines_have_their_names_at_their_ends_without_overlap() -> None:
    cosines = np.array([[0, 0.1, -0.2], [0.5, 0.51, 0.9]], np.float32)
    names = ["a ~ b", "<b> ~ $x$", "c ~ d"]
    figure = named_lines(
        cosines, steps=[0, 1000], names=names, title="cosine", theme=LIGHT, marked=1
    )
    for line, trace in enumerate(figure.data):
        np.testing.assert_array_equal(trace.y, cosines[:, line])
        assert list(trace.x) == [0, 1]
        assert list(trace.customdata) == ["0", "1000"]
    assert list(figure.layout.xaxis.ticktext) == ["0", "1,000"]
    notes = figure.layout.annotations
    assert [note.text.partition("</span> ")[2] for note in notes] == [
        "a ~ b",
        "&lt;b&gt; ~ &#36;x&#36;",
        "c ~ d",
    ]
    inner = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    heights = [note.y * inner for note in notes]
    assert heights[1] - heights[0] == near(17, size=inner)
    assert heights[2] > heights[1] + 17
    assert figure.layout.shapes[0].x0 == 1
    crowded = np.array([[0] * 3, [1, 0.999, 0.998]], np.float32)
    figure = named_lines(crowded, steps=[0, 1], names=names, title="", theme=LIGHT, marked=0)
    top = [note.y * inner for note in figure.layout.annotations]
    assert max(top) <= inner
    assert [top[0] - top[1], top[1] - top[2]] == near([17, 17], size=inner)
    empty = np.zeros((2, 0), np.float32)
    assert not named_lines(empty, steps=[0, 1], names=[], title="", theme=LIGHT, marked=0).data


# Measures of whole checkpoints

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


def test_charts_stand_below_each_other_with_names_references_and_the_chosen_checkpoint() -> None:
    layout = stage_charts([CHRF, LIKELY], steps=STEPS, theme=LIGHT, marked=2).layout
    upper, lower = layout.yaxis, layout.yaxis2
    assert lower.domain[0] == near(0, size=1)
    assert lower.domain[1] < upper.domain[0] < upper.domain[1] == 1
    assert layout.xaxis.anchor == "y2"
    assert lower.range[0] < -9
    assert lower.range[1] > -2.5
    names = {note.text: note.y for note in layout.annotations}
    assert names == {"chrF": 1, "&lt;likely&gt;": lower.domain[1], "references": -2.5}
    dotted, chosen = layout.shapes
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


def test_more_charts_than_colours_begin_with_the_first_again() -> None:
    figure = stage_charts([CHRF] * 7, steps=STEPS, theme=LIGHT, marked=0)
    assert [line.line.color for line in figure.data] == [*LIGHT.series, LIGHT.series[0]]


@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_chart_whose_values_are_all_the_same_has_a_range(value: float) -> None:
    figure = stage_charts([replace(CHRF, values=[value] * 3)], steps=STEPS, theme=LIGHT, marked=0)
    assert figure.layout.yaxis.range[0] < value < figure.layout.yaxis.range[1]


@pytest.mark.parametrize(
    ("draw", "given", "message"),
    [
        (stage_charts, [], r"^expected at least 1 chart, got none$"),
        (
            stage_charts,
            [replace(CHRF, values=[1.0])],
            r"^chrF: expected 3 values and words, got 1 and 3$",
        ),
        (
            stage_charts,
            [replace(CHRF, words=["a"])],
            r"^chrF: expected 3 values and words, got 3 and 1$",
        ),
        (
            stage_charts,
            [replace(CHRF, values=[NAN] * 3)],
            r"^chrF: expected a value to draw, got none$",
        ),
        (measure_lines, {"entropy": [0.1]}, r"^entropy: expected 3 values, got 1$"),
        (
            measure_lines,
            dict.fromkeys("abcdefg", [0.0] * 3),
            r"^expected at most 6 lines, got 7$",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    draw: Callable[..., Any], given: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw(given, steps=STEPS, theme=LIGHT, marked=None)
