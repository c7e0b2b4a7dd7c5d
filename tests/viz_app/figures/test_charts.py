from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.charts import (
    changed_bars,
    cosine_bars,
    hidden_unit_bars,
    share_bars,
    token_bars,
    weight_bars,
)
from headwise.viz_app.figures.theme import LIGHT

LABELS = ("le", "<b>", "$x$")
PROBABILITIES = (0.75, 0.2, 0.00003)


def test_bars_are_probabilities_with_the_likeliest_on_top() -> None:
    figure = token_bars(LABELS, PROBABILITIES, theme=LIGHT)
    bars = figure.data[0]
    np.testing.assert_array_equal(bars.x, np.float32(PROBABILITIES))
    assert list(bars.y) == [0, 1, 2]
    assert figure.layout.yaxis.range == (2.5, -0.5)
    assert figure.layout.xaxis.range == (0, 1)
    assert list(bars.text) == ["0.750", "0.200", "3e-05"]


@pytest.mark.parametrize("actual", [None, 0, 2])
def test_the_actual_token_has_the_accent_colour(actual: int | None) -> None:
    colours = token_bars(LABELS, PROBABILITIES, theme=LIGHT, actual=actual).data[0].marker.color
    assert [place for place, colour in enumerate(colours) if colour == LIGHT.accent] == (
        [] if actual is None else [actual]
    )


@pytest.mark.parametrize("draw", [token_bars, cosine_bars])
def test_the_whole_row_of_a_bar_gives_its_place_when_clicked(draw: Any) -> None:
    figure = draw(LABELS, PROBABILITIES, theme=LIGHT)
    whole = figure.data[-1]
    low, high = figure.layout.xaxis.range
    assert list(whole.customdata) == ["0", "1", "2"]
    assert list(whole.y) == [0, 1, 2]
    assert [(whole.base, whole.base + length) for length in whole.x] == [(low, high)] * 3
    assert whole.marker.opacity == whole.unselected.marker.opacity == 0
    assert figure.data[0].unselected.marker.opacity == 1
    assert "<b>" not in whole.hovertext[1]


def test_cosines_are_written_behind_their_bars() -> None:
    figure = cosine_bars(("uno", "dos"), (0.91234, 0.5), theme=LIGHT)
    np.testing.assert_array_equal(figure.data[0].x, np.float32([0.91234, 0.5]))
    assert list(figure.data[0].text) == ["0.912", "0.500"]
    assert list(figure.layout.yaxis.ticktext) == ["uno", "dos"]


def test_counts_are_written_behind_cosines() -> None:
    figure = cosine_bars(("uno", "dos"), (0.91234, 0.5), theme=LIGHT, counts=(1_234, 5))
    assert list(figure.data[0].text) == ["0.912 · 1,234×", "0.500 · 5×"]
    assert figure.layout.margin.r >= 7 * len("0.912 · 1,234×")


def test_negative_cosines_stay_in_the_chart() -> None:
    figure = cosine_bars(("uno", "dos"), (0.2, -0.4), theme=LIGHT)
    low, high = figure.layout.xaxis.range
    assert low <= -0.4
    assert high >= 0.2


# Shares of heads


HEADS = ("head 1", "head 2", "<b>", "b_O")
SHARES = (0.75, -0.4375, 0.6875, 0.0)


def test_shares_are_signed_and_written_with_their_sign() -> None:
    figure = share_bars(HEADS, SHARES, theme=LIGHT)
    [bars] = figure.data
    np.testing.assert_array_equal(bars.x, np.float32(SHARES))
    assert list(bars.y) == [0, 1, 2, 3]
    assert list(bars.text) == ["+0.750", "-0.438", "+0.688", "+0.000"]
    assert list(figure.layout.yaxis.ticktext) == ["head 1", "head 2", "&lt;b&gt;", "b_O"]


@pytest.mark.parametrize("marked", [None, 0, 2])
def test_one_head_may_be_marked(marked: int | None) -> None:
    [bars] = share_bars(HEADS, SHARES, theme=LIGHT, marked=marked).data
    accent = [place for place, colour in enumerate(bars.marker.color) if colour == LIGHT.accent]
    assert accent == ([] if marked is None else [marked])


def around_bars(figure: go.Figure) -> tuple[float, float]:
    """The parts of the axis left and right of all bars."""
    [bars] = figure.data
    low, high = figure.layout.xaxis.range
    ends = [0.0, *bars.x]
    return (min(ends) - low) / (high - low), (high - max(ends)) / (high - low)


@pytest.mark.parametrize("shares", [(1.25, -0.25), (0.5, -0.25, 0.75), (-5.0, 7.0, -1.0)])
def test_the_value_left_of_a_negative_bar_fits_into_the_chart(shares: tuple[float, ...]) -> None:
    """Six signs of 7 pixels are a tenth of the 420 that a column has at least."""
    left, _ = around_bars(share_bars(HEADS[: len(shares)], shares, theme=LIGHT))
    assert left >= 0.1


# Hidden units


UNITS, FIRED = (211, 7, 503), (12.345, 11.0, 0.125)


def test_hidden_units_are_named_by_their_numbers_the_strongest_on_top() -> None:
    figure = hidden_unit_bars(UNITS, FIRED, theme=LIGHT)
    [bars] = figure.data
    np.testing.assert_array_equal(bars.x, np.float32(FIRED))
    assert list(bars.text) == ["12.35", "11.00", "0.12"]
    assert list(figure.layout.yaxis.ticktext) == ["unit 211", "unit 7", "unit 503"]
    assert figure.layout.yaxis.range == (2.5, -0.5)
    assert set(bars.marker.color) == {LIGHT.series[0]}


@pytest.mark.parametrize("largest", [1.5, 12.345, 190.0])
def test_the_value_right_of_a_bar_beyond_1_fits_into_the_chart(largest: float) -> None:
    figure = hidden_unit_bars(UNITS, (largest, 0.5, 0.125), theme=LIGHT)
    _, right = around_bars(figure)
    assert right >= 0.1
    assert figure.layout.xaxis.range[0] == 0


def test_a_chart_without_active_units_can_be_drawn() -> None:
    figure = hidden_unit_bars((), (), theme=LIGHT)
    assert len(figure.data[0].x) == 0
    assert figure.layout.xaxis.range == (0, 1)


def test_bars_that_changed_say_what_they_were() -> None:
    bars = changed_bars(("uno", "dos"), (0.5, 0.25), (1.0, 0.0), theme=LIGHT).data[0]
    np.testing.assert_array_equal(bars.x, [1, 0])
    assert list(bars.text) == ["1.000, was 0.500", "0.000, was 0.250"]
    assert list(weight_bars(("uno",), (0.5,), theme=LIGHT).data[0].text) == ["0.50"]
