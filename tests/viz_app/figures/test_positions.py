from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.figures.positions import (
    bias_curves,
    distance_curve,
    encoding_curves,
    wave_legend,
    waves,
)
from headwise.viz_app.figures.theme import LIGHT, Theme

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CURVES, ENCODED[:, :2], [0, 1, 2]), r"^expected 3 columns, got 3 and 2$"),
        ((CURVES, ENCODED[:, :3], [0, 1]), r"^expected 2 columns, got 3 and 3$"),
        ((ENCODED, ENCODED, [*range(7)]), r"^expected at most 6 waves, got 7$"),
    ],
)
def test_waves_that_do_not_fit_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    curves, encoded, dimensions = arguments
    with pytest.raises(ValueError, match=message):
        waves(curves, encoded, dimensions=dimensions, theme=LIGHT)


def test_the_legend_says_formula_and_wavelength() -> None:
    html = wave_legend(
        [0, 1, 48], ["sin", "cos", "sin"], [1, 1, 10], [6.2832, 6.2832, 62832.4], LIGHT
    )
    rows = [re.sub("<.*?>", "", row) for row in re.findall(r"<div><i.*?</div>", html)]
    assert rows == [
        "PE(pos, 0) = sin(pos / 1.00) wavelength 6.28",
        "PE(pos, 1) = cos(pos / 1.00) wavelength 6.28",
        "PE(pos, 48) = sin(pos / 10.0) wavelength 62,832",
    ]
    assert re.findall("background:(#......)", html) == list(LIGHT.series[:3])


def test_sines_stand_above_cosines_and_a_position_has_one_colour() -> None:
    sines, cosines = ENCODED[[3, 12], 0::2], ENCODED[[3, 12], 1::2]
    figure = encoding_curves(sines, cosines, positions=[3, 12], theme=LIGHT)
    for line, values in zip(figure.data, [*sines, *cosines], strict=True):
        np.testing.assert_array_equal(line.y, values)
    assert [(line.name, line.yaxis, line.showlegend) for line in figure.data] == [
        ("pos 3", "y", True),
        ("pos 12", "y", True),
        ("pos 3", "y2", False),
        ("pos 12", "y2", False),
    ]
    assert [line.line.color for line in figure.data] == [*LIGHT.series[:2]] * 2
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]


def test_the_curve_has_a_point_for_each_distance_and_fits_its_axis() -> None:
    similarity = np.array([7, 3, -2.5, 1, 0.5])
    figure = distance_curve(similarity, theme=LIGHT)
    np.testing.assert_array_equal(figure.data[0].y, similarity)
    np.testing.assert_array_equal(figure.data[0].x, range(5))
    low, high = figure.layout.yaxis.range
    assert low < -2.5
    assert high > 7
    assert distance_curve(similarity[:2], theme=LIGHT).layout.yaxis.range[0] == 0


def test_each_head_has_a_line_of_its_bias_over_the_distances() -> None:
    distances = np.arange(7) - 3
    names = [f"1.{head}" for head in range(13)]
    figure = bias_curves(ENCODED, distances, names=names, theme=LIGHT)
    for line, values, name in zip(figure.data, ENCODED, names, strict=True):
        np.testing.assert_array_equal(line.y, values)
        np.testing.assert_array_equal(line.x, distances)
        assert line.name == name
    looks = {(line.line.color, line.line.dash) for line in figure.data}
    assert len(looks) == 13
