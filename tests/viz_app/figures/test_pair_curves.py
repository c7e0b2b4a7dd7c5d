"""The charts of accuracies on pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from headwise.viz_app.figures.pair_curves import accuracy_charts
from headwise.viz_app.figures.theme import LIGHT, Theme
from headwise.viz_app.records.pairs import Accuracy, AccuracyCurve
from tests.floats import near

VALUES = [Accuracy(0.5, 0.3, 0.7, 12), Accuracy(0.75, 0.5, 0.875, 12)]
CURVES = [AccuracyCurve(name, [0, 200], VALUES) for name in ("", "a, <b>", "c")]


def test_each_curve_has_a_chart_with_intervals_and_chance(theme: Theme) -> None:
    figure = accuracy_charts(CURVES, step=200, theme=theme)
    drawn, chances = figure.data[1::2], figure.data[::2]
    assert [trace.yaxis for trace in drawn] == ["y", "y2", "y3"]
    first, second, _ = drawn
    np.testing.assert_array_equal(first.x, [0, 200])
    np.testing.assert_array_equal(first.y, np.float32([0.5, 0.75]))
    assert list(first.error_y.array) == near([0.2, 0.125])
    assert list(first.error_y.arrayminus) == near([0.2, 0.25])
    assert first.customdata == ("0,", "200,")
    assert second.customdata == ("0,a, <b>", "200,a, <b>")
    assert "right in 75.0% of 12<br>95% interval 50.0% to 87.5%" in first.text[1]
    for chance, axis in zip(chances, ("y", "y2", "y3"), strict=True):
        assert (list(chance.y), chance.yaxis, chance.customdata) == ([0.5, 0.5], axis, None)
        assert chance.x == figure.layout.xaxis.range
    marked = [shape.x0 for shape in figure.layout.shapes if shape.name == "mark"]
    assert marked == [200] * 3
    titles = [note.text for note in figure.layout.annotations]
    assert titles[0] == "all pairs: 12 pairs"
    assert "<b>" not in titles[1]
    assert titles[-1] == "chance"


def test_steps_may_be_logarithmic_and_rows_as_many_as_there_are_curves() -> None:
    many = [AccuracyCurve(f"p{n}", [0, 200], VALUES) for n in range(25)]
    figure = accuracy_charts(many, step=0, theme=LIGHT, log_steps=True)
    assert figure.layout.xaxis25.type == "log"
    assert np.log10(figure.data[0].x) == near(np.array(figure.layout.xaxis.range))
    downs = [figure.layout[f"yaxis{n}"].domain for n in ("", *range(3, 26, 2))]
    assert all(upper[0] > lower[1] > lower[0] >= 0 for upper, lower in pairwise(downs))
    with pytest.raises(ValueError, match="at least one curve"):
        accuracy_charts([], step=0, theme=LIGHT)
