from __future__ import annotations

import numpy as np
import pytest

from headwise.viz_app.figures.bars import bar_chart, contribution_bars
from headwise.viz_app.figures.theme import LIGHT, Theme

LABELS = ("le", "<b>", "$x$")
VALUES = (0.75, -0.4375, 0.6875)


@pytest.mark.parametrize("limit", [None, 2.0])
@pytest.mark.parametrize("count", [0, 3])
def test_bars_go_down_with_what_is_written_beside_them(limit: float | None, count: int) -> None:
    labels, values, written = LABELS[:count], VALUES[:count], ["<1>", "2, was 3", ""][:count]
    figure = bar_chart(labels, values, theme=LIGHT, written=written, limit=limit)
    drawn, layout = figure.data[0], figure.layout
    assert (tuple(drawn.x), tuple(drawn.y)) == (values, tuple(range(count)))
    assert layout.yaxis.range == (count - 0.5, -0.5)
    assert list(layout.yaxis.ticktext) == ["le", "&lt;b&gt;", "&#36;x&#36;"][:count]
    texts = ["&lt;1&gt;", "2, was 3", ""][:count]
    assert list(drawn.text) == texts
    assert layout.margin.r >= 7 * max(map(len, written), default=0)
    # Beside signed parts, what is written stands in a column, not at the bars' ends.
    notes = [(note.y, note.text) for note in layout.annotations]
    assert (drawn.textposition, notes) == (
        ("none", [*enumerate(texts)]) if limit else ("outside", [])
    )


@pytest.mark.parametrize(
    ("values", "limit", "written"),
    [
        ((0.91234, 0.5), None, ("0.912", "0.500")),
        ((1.5, 0.0006, 0.0004), 2.0, ("+1.500", "+0.001", "&lt;0.001")),
        ((-0.0004, 0.0), 2.0, ("&gt;-0.001", "0")),  # small, but not nothing
        ((0.0142, -0.00002), 0.02, ("+0.0142", "&gt;-0.0001")),  # a small scale has more digits
    ],
)
def test_values_are_written_with_the_digits_that_their_scale_needs(
    values: tuple[float, ...], limit: float | None, written: tuple[str, ...]
) -> None:
    figure = bar_chart(["a"] * len(values), values, theme=LIGHT, limit=limit)
    assert figure.data[0].text == written


@pytest.mark.parametrize("marked", [None, 0, 2])
def test_one_bar_may_be_marked(theme: Theme, marked: int | None) -> None:
    bars = bar_chart(LABELS, VALUES, theme=theme, marked=marked).data[0]
    accent = [place for place, colour in enumerate(bars.marker.color) if colour == theme.accent]
    assert accent == ([] if marked is None else [marked])
    signed = bar_chart(LABELS, VALUES, theme=theme, limit=1.0, marked=marked)
    frames = [(each.y0, each.y1) for each in signed.layout.shapes if each.name == "mark"]
    assert frames == ([] if marked is None else [(marked - 0.5, marked + 0.5)])
    low, high = theme.difference[1], theme.difference[-2]
    assert signed.data[0].marker.color == (high, low, high)


@pytest.mark.parametrize("limit", [None, 2.0])
def test_the_whole_row_of_a_bar_gives_its_place_when_clicked(limit: float | None) -> None:
    figure = bar_chart(LABELS, VALUES, theme=LIGHT, limit=limit, clicks=LABELS)
    whole = figure.data[-1]
    low, high = figure.layout.xaxis.range
    assert list(whole.customdata) == ["0", "1", "2"]
    assert list(whole.y) == [0, 1, 2]
    assert [(whole.base, whole.base + length) for length in whole.x] == [(low, high)] * 3
    assert whole.marker.opacity == whole.unselected.marker.opacity == 0
    assert figure.data[0].unselected.marker.opacity == 1
    assert whole.hovertext[1] == "&lt;b&gt;"


@pytest.mark.parametrize(
    "values", [(1.25, -0.25), (-5.0, 7.0, -1.0), (1.5, 0.5), (12.345, 0.5), (190.0, 0.125)]
)
def test_values_beyond_0_and_1_have_room_beside_their_bars(values: tuple[float, ...]) -> None:
    """Six signs of 7 pixels are a tenth of the 420 that a column has at least."""
    low, high = bar_chart(LABELS[: len(values)], values, theme=LIGHT).layout.xaxis.range
    assert (high - max(values)) / (high - low) >= 0.1
    assert low == 0 if min(values) > 0 else (min(values) - low) / (high - low) >= 0.1


def test_each_dimension_has_a_bar_of_its_product_with_its_factors(theme: Theme) -> None:
    query, key = np.array([2, -1.5, 0.5]), np.array([0.25, 3, 0])
    [drawn] = contribution_bars(query * key, query=query, key=key, theme=theme).data
    np.testing.assert_array_equal(drawn.y, np.float32([0.5, -4.5, 0]))
    np.testing.assert_array_equal(drawn.customdata, np.float32([[2, 0.25], [-1.5, 3], [0.5, 0]]))
    assert "%{customdata[0]:.3r} × %{customdata[1]:.3r} = %{y:.3r}" in drawn.hovertemplate
    adds, takes = theme.series[:2]
    assert list(drawn.marker.color) == [adds, takes, adds]
