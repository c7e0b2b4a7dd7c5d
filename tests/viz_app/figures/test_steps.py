from __future__ import annotations

import string
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.steps import contribution_bars, score_stages
from headwise.viz_app.figures.theme import LIGHT, Theme, difference_scale, weight_scale

K, M = 3, 7
NAMES = ("q · k", "÷ √3 = 1.73", "masked", "softmax: weight")
COLUMNS = ("<s>", "El", "·s", "<b>", "&lt;", "$x$", "%{z}")
ESCAPED = ("&lt;s&gt;", "El", "·s", "&lt;b&gt;", "&amp;lt;", "&#36;x&#36;", "%&#123;z}")
PRODUCTS = np.array([1.5, -3, 0.25, 2, -0.5, 11, -13], np.float64)
SCALED = PRODUCTS / 3**0.5
ALLOWED = np.arange(M) < 5
WEIGHTS = np.array([0.25, 0.03125, 0.125, 0.5, 0.09375, 0, 0], np.float64)


def draw(**changes: Any) -> go.Figure:
    arrays = [
        changes.pop(name, array)
        for name, array in (("products", PRODUCTS), ("scaled", SCALED), ("weights", WEIGHTS))
    ]
    named = {"allowed": ALLOWED, "columns": COLUMNS, "names": NAMES, "theme": LIGHT}
    return score_stages(arrays[:2], arrays[2], **(named | changes))


def draw_keys(count: int, **changes: Any) -> go.Figure:
    """Of so many keys, none of them masked."""
    scores = np.arange(count) - 2.0
    named: dict[str, Any] = {
        "products": 2 * scores,
        "scaled": scores,
        "weights": np.full(count, 1 / count),
        "allowed": np.ones(count, dtype=bool),
        "columns": [f"token{i}" for i in range(count)],
    }
    return draw(**(named | changes))


# Stages: what is drawn


def test_products_scaled_and_masked_scores_and_weights_are_the_four_rows() -> None:
    stages, weights, _ = draw().data
    gap = [np.nan] * 2
    expected = np.float32([PRODUCTS, SCALED, [*SCALED[:5], *gap]])
    np.testing.assert_array_equal(stages.z, expected)
    np.testing.assert_array_equal(weights.z, np.float32([WEIGHTS]))
    assert {each.z.dtype for each in (stages, weights)} == {np.dtype(np.float32)}
    assert (list(stages.y), list(weights.y)) == ([0, 1, 2], [3])


def test_products_and_scaled_scores_share_one_scale(theme: Theme) -> None:
    stages, weights, _ = draw(theme=theme).data
    assert (stages.zmin, stages.zmax) == (-13, 13)
    assert stages.colorscale == difference_scale(theme)
    assert (weights.zmin, weights.zmax) == (0, 1)
    assert weights.colorscale == weight_scale(theme)


def test_scores_of_zero_can_be_drawn() -> None:
    nothing = np.zeros(M)
    stages = draw(products=nothing, scaled=nothing).data[0]
    assert (stages.zmin, stages.zmax) == (-1, 1)


def test_masked_keys_are_grey_in_the_masked_and_the_weight_row() -> None:
    masked = draw().data[-1]
    assert len(draw().data) == 3
    np.testing.assert_array_equal(masked.z, [~ALLOWED, ~ALLOWED])
    assert list(masked.y) == [2, 3]
    assert masked.colorscale[-1] == (1, LIGHT.masked)
    assert masked.colorscale[0][1] == "rgba(0,0,0,0)"
    assert masked.hoverinfo == "skip"


def test_all_rows_share_one_grid() -> None:
    """The cells of the three traces have the same gaps, or the grey ones would stand aside."""
    assert {(trace.xgap, trace.ygap) for trace in draw().data} == {(1, 3)}


@pytest.mark.parametrize("selected", [0, 4, M - 1])
def test_the_selected_key_is_framed_in_every_row(selected: int) -> None:
    [frame] = draw(selected=selected).layout.shapes
    assert (frame.x0, frame.x1) == (selected - 0.5, selected + 0.5)
    assert (frame.y0, frame.y1) == (-0.5, 3.5)
    assert frame.line.color == LIGHT.accent


# Stages: axes and size


def test_stages_go_down_and_keys_stand_on_top() -> None:
    layout = draw().layout
    assert layout.yaxis.range == (3.5, -0.5)
    assert layout.xaxis.range == (-0.5, M - 0.5)
    assert layout.xaxis.side == "top"
    assert layout.yaxis.labelalias == {str(i): name for i, name in enumerate(NAMES)}
    assert tuple(layout.xaxis.labelalias.values()) == ESCAPED


def cell(figure: go.Figure, keys: int, width: int = 900) -> float:
    """Pixels across a cell, where the figure is as wide as is asked for or as it says."""
    layout = figure.layout
    return ((layout.width or width) - layout.margin.l - layout.margin.r) / keys


def test_few_keys_take_no_more_than_they_need() -> None:
    figure = draw()
    assert cell(figure, M) == pytest.approx(56, abs=0.1)
    assert figure.layout.width < 900
    wide = draw(columns=[*COLUMNS[:-1], "x" * 30])
    assert wide.layout.margin.t > figure.layout.margin.t
    assert wide.layout.width == figure.layout.width
    rows = [f.layout.height - f.layout.margin.t - f.layout.margin.b for f in (figure, wide)]
    assert rows == [4 * 28, 4 * 28]


@pytest.mark.parametrize("keys", [17, 97])
def test_many_keys_fill_the_width(keys: int) -> None:
    assert draw_keys(keys).layout.width is None
    assert draw_keys(keys, width=97 * 56 + 300).layout.width is not None


def test_only_wide_cells_have_numbers() -> None:
    for keys in (2, 10, 17, 30, 60):
        figure = draw_keys(keys)
        template = "%{z:.2f}" if cell(figure, keys) >= 36 else None
        assert [each.texttemplate for each in figure.data] == [template] * 2
    assert cell(draw_keys(10), 10) >= 36 > cell(draw_keys(60), 60)
    assert draw().data[-1].texttemplate is None


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


def bars(theme: Theme = LIGHT) -> go.Figure:
    return contribution_bars(QUERY * KEY, query=QUERY, key=KEY, theme=theme)


def test_each_bar_is_the_product_of_one_dimension() -> None:
    [drawn] = bars().data
    np.testing.assert_array_equal(drawn.y, np.float32([0.5, -4.5, 0]))
    assert drawn.y.dtype == np.float32
    assert list(drawn.x) == [0, 1, 2]
    assert drawn.orientation is None


def test_hover_shows_both_factors_of_a_dimension() -> None:
    [drawn] = bars().data
    np.testing.assert_array_equal(drawn.customdata, np.float32([[2, 0.25], [-1.5, 3], [0.5, 0]]))
    places = [name for _, name, _, _ in string.Formatter().parse(drawn.hovertemplate) if name]
    assert places == ["x", "customdata[0]", "customdata[1]", "y"]
    factors, result = drawn.hovertemplate.split(" = ")
    assert "×" in factors
    assert result == "%{y:.3f}<extra></extra>"


def test_negative_bars_have_another_colour(theme: Theme) -> None:
    adds, takes = theme.series[:2]
    assert list(bars(theme).data[0].marker.color) == [adds, takes, adds]


@pytest.mark.parametrize(("query", "key"), [(QUERY[:2], KEY), (QUERY, KEY[:2])])
def test_factors_of_different_length_are_refused(query: np.ndarray, key: np.ndarray) -> None:
    with pytest.raises(ValueError, match="same shape"):
        contribution_bars(QUERY * KEY, query=query, key=key, theme=LIGHT)


def test_a_figure_says_in_how_many_pixels_numbers_and_labels_can_be_read() -> None:
    def readable(keys: int) -> float:
        figure = score_stages(
            [np.zeros(keys)],
            np.full(keys, 1 / keys),
            allowed=np.ones(keys, bool),
            columns=["k"] * keys,
            names=("q · k", "masked", "weight"),
            theme=LIGHT,
        )
        found: float = figure.layout.meta["readable"]
        return found

    assert readable(18) >= 18 * 36
    assert 60 * 12 <= readable(60) < 60 * 36  # too many for numbers
