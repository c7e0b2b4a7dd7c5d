"""Lines: measures by checkpoint, and what is drawn of positional encodings."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest

from headwise.viz_app.figures.checkpoint_lines import (
    StageChart,
    measure_lines,
    named_lines,
    spark_line,
    stage_charts,
)
from headwise.viz_app.figures.heads import HeadRows, head_matrix
from headwise.viz_app.figures.lines import (
    bias_curves,
    distance_curve,
    encoding_curves,
    wave_legend,
    waves,
)
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
    given = {"names": ["a ~ b", "<b> ~ $x$", "c ~ d"], "title": "", "theme": LIGHT, "marked": 1}
    figure = named_lines(cosines, steps=[0, 1000], **given)
    for line, trace in enumerate(figure.data):
        np.testing.assert_array_equal(trace.y, cosines[:, line])
        assert (list(trace.x), list(trace.customdata)) == ([0, 1], ["0", "1000"])
    assert list(figure.layout.xaxis.ticktext) == ["0", "1,000"]
    notes = figure.layout.annotations
    names = [note.text.partition("</span> ")[2] for note in notes]
    assert names == ["a ~ b", "&lt;b&gt; ~ &#36;x&#36;", "c ~ d"]
    inner = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    heights = [note.y * inner for note in notes]
    assert heights[1] - heights[0] == near(17, size=inner)
    assert heights[2] > heights[1] + 17
    assert figure.layout.shapes[0].x0 == 1
    crowded = np.array([[0] * 3, [1, 0.999, 0.998]], np.float32)
    top = [
        note.y * inner for note in named_lines(crowded, steps=[0, 1], **given).layout.annotations
    ]
    assert max(top) <= inner
    assert [top[0] - top[1], top[1] - top[2]] == near([17, 17], size=inner)


# Measures of whole checkpoints

LIKELY = StageChart("<likely>", [-9.0, NAN, -3.0], ["$a$", "b", "c"], reference=-2.5)
CHRF = StageChart("chrF", [1.0, 40.0, 70.0], ["d", "e", "f"])


def test_charts_stand_below_each_other_with_names_references_and_checkpoint(theme: Theme) -> None:
    figure = stage_charts([CHRF, LIKELY], steps=STEPS, theme=theme, marked=2)
    names = [(line.name, line.yaxis) for line in figure.data]
    assert names == [("chrF", "y"), ("&lt;likely&gt;", "y2")]
    for line, chart in zip(figure.data, (CHRF, LIKELY), strict=True):
        assert (list(line.x), line.customdata) == ([0, 1, 2], ("0", "20", "10000"))
        np.testing.assert_array_equal(line.y, np.array(chart.values, np.float32))
    assert figure.data[1].text[0] == "step 0<br>&#36;a&#36;"
    upper, lower = figure.layout.yaxis, figure.layout.yaxis2
    assert lower.domain[0] == near(0, size=1)
    assert lower.domain[1] < upper.domain[0] < upper.domain[1] == 1
    assert figure.layout.xaxis.anchor == "y2"
    assert lower.range[0] < -9 < -2.5 < lower.range[1]
    names = {note.text: note.y for note in figure.layout.annotations}
    assert names == {"chrF": 1, "&lt;likely&gt;": lower.domain[1], "references": -2.5}
    dotted, chosen = figure.layout.shapes
    assert (dotted.yref, dotted.y0, dotted.y1) == ("y2", -2.5, -2.5)
    assert (chosen.x0, chosen.x1, chosen.yref, chosen.y0, chosen.y1) == (2, 2, "paper", 0, 1)


def test_columns_are_those_of_the_matrix() -> None:
    steps = [1_000 * n for n in range(40)]
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


# Positions

ENCODED = np.random.default_rng(0).uniform(-1, 1, (13, 7)).astype(np.float32)
CURVES = np.random.default_rng(1).uniform(-1, 1, (25, 3)).astype(np.float32)


def test_waves_are_curves_with_a_dot_at_each_position(theme: Theme) -> None:
    figure = waves(CURVES, ENCODED[:, :3], dimensions=[0, 4, 6], theme=theme)
    lines, dots = figure.data[:3], figure.data[3:]
    for at, (line, dot, dimension) in enumerate(zip(lines, dots, (0, 4, 6), strict=True)):
        np.testing.assert_array_equal(line.y, CURVES[:, at])
        np.testing.assert_array_equal(line.x, np.arange(25) / 2)
        np.testing.assert_array_equal(dot.y, ENCODED[:, at])
        np.testing.assert_array_equal(dot.x, np.arange(13))
        assert line.line.color == dot.marker.color == theme.series[at]
        assert f"dimension {dimension}<" in dot.hovertemplate


def test_the_legend_says_formula_and_wavelength() -> None:
    waves, lengths = ["sin", "cos", "sin"], [6.2832, 6.2832, 62832.4]
    html = wave_legend([0, 1, 48], waves, [1, 1, 10], lengths, LIGHT)
    rows = [re.sub("<.*?>", "", row) for row in re.findall(r"<div><i.*?</div>", html)]
    assert rows == [
        "PE(pos, 0) = sin(pos / 1.00) wavelength 6.28",
        "PE(pos, 1) = cos(pos / 1.00) wavelength 6.28",
        "PE(pos, 48) = sin(pos / 10.0) wavelength 62,832",
    ]
    assert re.findall("background:(#......)", html) == list(LIGHT.series[:3])


def test_lines_of_positions_and_distances_have_their_values_names_and_looks() -> None:
    sines, cosines, distances = ENCODED[[3, 12], 0::2], ENCODED[[3, 12], 1::2], np.arange(7) - 3
    encodings = encoding_curves(sines, cosines, positions=[3, 12], theme=LIGHT)
    heads = bias_curves(ENCODED, distances, names=[*map(str, range(13))], theme=LIGHT)
    for figure, values in ((encodings, [*sines, *cosines]), (heads, ENCODED)):
        for line, expected in zip(figure.data, values, strict=True):
            np.testing.assert_array_equal(line.y, expected)
    named = [(line.name, line.yaxis, line.showlegend) for line in encodings.data]
    assert named[1:3] == [("pos 12", "y", True), ("pos 3", "y2", False)]
    assert [line.line.color for line in encodings.data] == [*LIGHT.series[:2]] * 2
    assert encodings.layout.yaxis.domain[0] > encodings.layout.yaxis2.domain[1]
    assert (heads.data[12].name, list(heads.data[12].x)) == ("12", list(distances))
    assert len({(line.line.color, line.line.dash) for line in heads.data}) == 13


def test_the_curve_has_a_point_for_each_distance_and_fits_its_axis() -> None:
    similarity = np.array([7, 3, -2.5, 1, 0.5])
    figure = distance_curve(similarity, theme=LIGHT)
    np.testing.assert_array_equal(figure.data[0].y, similarity)
    low, high = figure.layout.yaxis.range
    assert low < -2.5 < 7 < high
    assert distance_curve(similarity[:2], theme=LIGHT).layout.yaxis.range[0] == 0


def test_a_spark_line_goes_from_the_least_value_to_the_largest_and_marks_one() -> None:
    address = spark_line([NAN, 0.0, 0.5, -0.5], marked=2, theme=LIGHT)
    svg = base64.b64decode(address.partition(",")[2]).decode()
    points = [list(map(float, each)) for each in re.findall(r"([\d.]+),([\d.]+)", svg)]
    across, down = np.diff(points, axis=0).T
    assert across == pytest.approx([across[0]] * 2, abs=0.2)
    assert down[1] == pytest.approx(-2 * down[0], abs=0.2)
    assert down[0] < 0
    x, y = points[1]
    assert f'cx="{x}" cy="{y}"' in svg
    assert spark_line([NAN, 0.5], marked=1, theme=LIGHT) == ""
