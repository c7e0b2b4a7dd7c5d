from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.steps import contribution_bars, score_stages
from headwise.viz_app.figures.theme import LIGHT, Theme, difference_scale, weight_scale

M = 7
NAMES = ("q · k", "÷ √3 = 1.73", "masked", "softmax: weight")
COLUMNS = ("<s>", "El", "·s", "<b>", "&lt;", "$x$", "%{z}")
ESCAPED = ("&lt;s&gt;", "El", "·s", "&lt;b&gt;", "&amp;lt;", "&#36;x&#36;", "%&#123;z}")
PRODUCTS = np.array([1.5, -3, 0.25, 2, -0.5, 11, -13], np.float64)
SCALED = PRODUCTS / 3**0.5
ALLOWED = np.arange(M) < 5
WEIGHTS = np.array([0.25, 0.03125, 0.125, 0.5, 0.09375, 0, 0], np.float64)


def draw(
    products: np.ndarray = PRODUCTS,
    scaled: np.ndarray = SCALED,
    weights: np.ndarray = WEIGHTS,
    **changes: Any,
) -> go.Figure:
    named = {"allowed": ALLOWED, "columns": COLUMNS, "names": NAMES, "theme": LIGHT}
    return score_stages([products, scaled], weights, **(named | changes))


def draw_keys(keys: int, **changes: Any) -> go.Figure:
    """Of so many keys, none of them masked."""
    scores = np.arange(keys) - 2.0
    named = {"allowed": np.ones(keys, bool), "columns": [f"token{i}" for i in range(keys)]}
    return draw(2 * scores, scores, np.full(keys, 1 / keys), **(named | changes))


def test_products_scaled_and_masked_scores_and_weights_are_the_four_rows(theme: Theme) -> None:
    figure = draw(theme=theme)
    stages, weights, masked = figure.data
    expected = np.float32([PRODUCTS, SCALED, [*SCALED[:5], np.nan, np.nan]])
    np.testing.assert_array_equal(stages.z, expected)
    np.testing.assert_array_equal(weights.z, np.float32([WEIGHTS]))
    np.testing.assert_array_equal(masked.z, [~ALLOWED, ~ALLOWED])
    assert {each.z.dtype for each in (stages, weights)} == {np.dtype(np.float32)}
    assert [list(trace.y) for trace in figure.data] == [[0, 1, 2], [3], [2, 3]]
    assert (stages.zmin, stages.zmax) == (-13, 13)
    assert stages.colorscale == difference_scale(theme)
    assert (weights.zmin, weights.zmax) == (0, 1)
    assert weights.colorscale == weight_scale(theme)
    assert masked.colorscale[-1] == (1, theme.masked)
    assert (masked.colorscale[0][1], masked.hoverinfo) == ("rgba(0,0,0,0)", "skip")
    # With other gaps, grey cells would stand aside.
    assert {(trace.xgap, trace.ygap) for trace in figure.data} == {(1, 3)}
    nothing = draw(np.zeros(M), np.zeros(M)).data[0]
    assert (nothing.zmin, nothing.zmax) == (-1, 1)


@pytest.mark.parametrize("selected", [0, 4, M - 1])
def test_the_selected_key_is_framed_in_every_row(selected: int) -> None:
    [frame] = draw(selected=selected).layout.shapes
    assert (frame.x0, frame.x1) == (selected - 0.5, selected + 0.5)
    assert (frame.y0, frame.y1) == (-0.5, 3.5)


def test_stages_go_down_and_keys_stand_on_top() -> None:
    layout = draw().layout
    assert layout.yaxis.range == (3.5, -0.5)
    assert (layout.xaxis.range, layout.xaxis.side) == ((-0.5, M - 0.5), "top")
    assert layout.yaxis.labelalias == {str(i): name for i, name in enumerate(NAMES)}
    assert tuple(layout.xaxis.labelalias.values()) == ESCAPED


def cell(figure: go.Figure, keys: int, width: int = 900) -> float:
    """Pixels across a cell, where the figure is as wide as is asked for or as it says."""
    layout = figure.layout
    return ((layout.width or width) - layout.margin.l - layout.margin.r) / keys


def test_few_keys_take_no_more_than_they_need_and_many_fill_the_width() -> None:
    figure, wide = draw(), draw(columns=[*COLUMNS[:-1], "x" * 30])
    assert cell(figure, M) == pytest.approx(56, abs=0.1)
    assert figure.layout.width == wide.layout.width < 900
    assert wide.layout.margin.t > figure.layout.margin.t
    rows = [f.layout.height - f.layout.margin.t - f.layout.margin.b for f in (figure, wide)]
    assert rows == [4 * 28, 4 * 28]
    for keys in (17, 97):
        assert draw_keys(keys).layout.width is None
        assert draw_keys(keys, width=97 * 56 + 300).layout.width is not None


@pytest.mark.parametrize("keys", [2, 10, 17, 18, 30, 60])
def test_only_wide_cells_have_numbers_and_readable_says_how_much_room_they_need(keys: int) -> None:
    figure = draw_keys(keys)
    with_numbers = keys < 20
    assert (cell(figure, keys) >= 36) == with_numbers
    template = "%{z:.2f}" if with_numbers else None
    assert [each.texttemplate for each in figure.data] == [template] * 2
    readable = figure.layout.meta["readable"]
    assert keys * 36 <= readable if with_numbers else keys * 12 <= readable < keys * 36


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": COLUMNS[:5]}, "^expected 7 cells and labels a row, got 7 and 5$"),
        ({"weights": WEIGHTS[:3]}, "^expected 3 cells and labels a row, got 7 and 7$"),
        ({"products": PRODUCTS[:5]}, "shape"),
        ({"allowed": ALLOWED[:5]}, "shape"),
    ],
)
def test_arrays_that_do_not_fit_their_labels_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw(**changes)


# Contributions

QUERY, KEY = np.array([2, -1.5, 0.5]), np.array([0.25, 3, 0])


def test_each_bar_is_the_product_of_one_dimension_with_its_factors(theme: Theme) -> None:
    [drawn] = contribution_bars(QUERY * KEY, query=QUERY, key=KEY, theme=theme).data
    np.testing.assert_array_equal(drawn.y, np.float32([0.5, -4.5, 0]))
    assert (drawn.y.dtype, list(drawn.x)) == (np.float32, [0, 1, 2])
    np.testing.assert_array_equal(drawn.customdata, np.float32([[2, 0.25], [-1.5, 3], [0.5, 0]]))
    factors = "%{customdata[0]:.3f} × %{customdata[1]:.3f} = %{y:.3f}"
    assert factors in drawn.hovertemplate
    adds, takes = theme.series[:2]
    assert list(drawn.marker.color) == [adds, takes, adds]


@pytest.mark.parametrize(("query", "key"), [(QUERY[:2], KEY), (QUERY, KEY[:2])])
def test_factors_of_different_length_are_refused(query: np.ndarray, key: np.ndarray) -> None:
    with pytest.raises(ValueError, match="same shape"):
        contribution_bars(QUERY * KEY, query=query, key=key, theme=LIGHT)
