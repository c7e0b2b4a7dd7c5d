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


@pytest.mark.parametrize(
    ("figure", "lengths", "written"),
    [
        (
            token_bars(LABELS, PROBABILITIES, theme=LIGHT),
            PROBABILITIES,
            ["0.750", "0.200", "3e-05"],
        ),
        (cosine_bars(LABELS[:1], (0.91234,), theme=LIGHT), (0.91234,), ["0.912"]),
        (
            cosine_bars(LABELS[:2], (0.91234, 0.5), theme=LIGHT, counts=(1_234, 5)),
            (0.91234, 0.5),
            ["0.912 · 1,234×", "0.500 · 5×"],
        ),
        (weight_bars(LABELS[:1], (0.5,), theme=LIGHT), (0.5,), ["0.50"]),
        (
            changed_bars(LABELS[:2], (0.5, 0.25), (1.0, 0.0), theme=LIGHT),
            (1, 0),
            ["1.000, was 0.500", "0.000, was 0.250"],
        ),
        (
            share_bars(LABELS, (0.75, -0.4375, 0.6875), theme=LIGHT),
            (0.75, -0.4375, 0.6875),
            ["+0.750", "-0.438", "+0.688"],
        ),
        (hidden_unit_bars((211, 7), (12.345, 0.125), theme=LIGHT), (12.345, 0.125), None),
        (hidden_unit_bars((), (), theme=LIGHT), (), None),
    ],
    ids=["tokens", "cosines", "counts", "weights", "changed", "shares", "units", "none"],
)
def test_bars_go_down_with_their_values_written_behind_them(
    figure: go.Figure, lengths: tuple[float, ...], written: list[str] | None
) -> None:
    bars = figure.data[0]
    np.testing.assert_array_equal(bars.x, np.float32(lengths))
    assert list(bars.y) == list(range(len(lengths)))
    assert figure.layout.yaxis.range == (len(lengths) - 0.5, -0.5)
    low, high = figure.layout.xaxis.range
    assert low <= min(0, *lengths, 0)
    assert high >= max(1, *lengths, 1)
    if written is not None:
        assert list(bars.text) == written
        assert figure.layout.margin.r >= 7 * max(map(len, written))
        labels = ["le", "&lt;b&gt;", "&#36;x&#36;"][: len(lengths)]
        assert list(figure.layout.yaxis.ticktext) == labels


def test_hidden_units_are_named_by_their_numbers() -> None:
    figure = hidden_unit_bars((211, 7, 503), (12.345, 11.0, 0.125), theme=LIGHT)
    assert list(figure.layout.yaxis.ticktext) == ["unit 211", "unit 7", "unit 503"]
    assert list(figure.data[0].text) == ["12.35", "11.00", "0.12"]


@pytest.mark.parametrize("marked", [None, 0, 2])
def test_one_bar_may_have_the_accent_colour(marked: int | None) -> None:
    for figure in (
        token_bars(LABELS, PROBABILITIES, theme=LIGHT, actual=marked),
        share_bars(LABELS, PROBABILITIES, theme=LIGHT, marked=marked),
    ):
        colours = figure.data[0].marker.color
        accent = [place for place, colour in enumerate(colours) if colour == LIGHT.accent]
        assert accent == ([] if marked is None else [marked])


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


@pytest.mark.parametrize(
    "values", [(1.25, -0.25), (-5.0, 7.0, -1.0), (1.5, 0.5), (12.345, 0.5), (190.0, 0.125)]
)
def test_values_beyond_0_and_1_have_room_beside_their_bars(values: tuple[float, ...]) -> None:
    """Six signs of 7 pixels are a tenth of the 420 that a column has at least."""
    low, high = share_bars(LABELS[: len(values)], values, theme=LIGHT).layout.xaxis.range
    assert (high - max(values)) / (high - low) >= 0.1
    assert low == 0 if min(values) > 0 else (min(values) - low) / (high - low) >= 0.1
