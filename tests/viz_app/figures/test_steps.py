from __future__ import annotations

import string
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from viz_app.figures.steps import contribution_bars, score_stages
from viz_app.figures.theme import DARK, LIGHT, Theme, difference_scale, weight_scale

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
    return score_stages(*arrays, **(named | changes))


def draw_keys(count: int, **changes: Any) -> go.Figure:
    """Of so many keys, none of them masked."""
    scores = np.arange(count) - 2.0
    named: dict[str, Any] = {
        "products": 2 * scores,
        "scaled": scores,
        "weights": np.full(count, 1 / count),
        "allowed": np.ones(count, dtype=bool),
        "columns": [f"piece{i}" for i in range(count)],
    }
    return draw(**(named | changes))


# Stages: what is drawn


def test_products_scaled_and_masked_are_the_first_three_rows() -> None:
    stages = draw().data[0]
    gap = [np.nan] * 2
    expected = np.float32([PRODUCTS, SCALED, [*SCALED[:5], *gap]])
    np.testing.assert_array_equal(stages.z, expected)
    assert stages.z.dtype == np.float32
    assert list(stages.y) == [0, 1, 2]


def test_weights_are_the_fourth_row() -> None:
    weights = draw().data[1]
    np.testing.assert_array_equal(weights.z, np.float32([WEIGHTS]))
    assert weights.z.dtype == np.float32
    assert list(weights.y) == [3]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_the_division_pales_on_the_common_scale_of_scores(theme: Theme) -> None:
    stages, weights, _ = draw(theme=theme).data
    assert (stages.zmin, stages.zmax) == (-13, 13)
    assert stages.colorscale == difference_scale(theme)
    assert (weights.zmin, weights.zmax) == (0, 1)
    assert weights.colorscale == weight_scale(theme)


def test_the_largest_of_what_is_scaled_counts_too() -> None:
    assert draw(scaled=2 * PRODUCTS).data[0].zmax == 26


def test_scores_of_nothing_are_drawn() -> None:
    nothing = np.zeros(M)
    stages = draw(products=nothing, scaled=nothing).data[0]
    assert (stages.zmin, stages.zmax) == (-1, 1)


def test_what_the_mask_forbids_is_grey_in_the_rows_after_it() -> None:
    masked = draw().data[-1]
    assert len(draw().data) == 3
    np.testing.assert_array_equal(masked.z, [~ALLOWED, ~ALLOWED])
    assert list(masked.y) == [2, 3]
    assert masked.colorscale[-1] == (1, LIGHT.masked)
    assert masked.colorscale[0][1] == "rgba(0,0,0,0)"
    assert masked.hoverinfo == "skip"


def test_without_a_mask_nothing_is_grey() -> None:
    figure = draw(allowed=np.ones(M, dtype=bool))
    assert len(figure.data) == 2
    np.testing.assert_array_equal(figure.data[0].z[2], np.float32(SCALED))


def test_all_rows_lie_on_one_grid() -> None:
    """The cells of the three traces have the same gaps, or the grey ones would stand aside."""
    assert {(trace.xgap, trace.ygap) for trace in draw().data} == {(1, 3)}


@pytest.mark.parametrize("selected", [0, 4, M - 1])
def test_the_chosen_key_is_framed_in_every_row(selected: int) -> None:
    [frame] = draw(selected=selected).layout.shapes
    assert (frame.x0, frame.x1) == (selected - 0.5, selected + 0.5)
    assert (frame.y0, frame.y1) == (-0.5, 3.5)
    assert frame.line.color == LIGHT.accent


def test_without_a_chosen_key_nothing_is_framed() -> None:
    assert not draw().layout.shapes


# Stages: axes and size


def test_stages_run_down_and_keys_stand_on_top() -> None:
    layout = draw().layout
    assert layout.yaxis.range == (3.5, -0.5)
    assert layout.xaxis.range == (-0.5, M - 0.5)
    assert layout.xaxis.side == "top"
    assert layout.yaxis.labelalias == {str(i): name for i, name in enumerate(NAMES)}


def test_markup_in_labels_is_text() -> None:
    layout = draw(names=("<b>", "$a$", "c", "d")).layout
    assert tuple(layout.xaxis.labelalias.values()) == ESCAPED
    assert tuple(layout.yaxis.labelalias.values()) == ("&lt;b&gt;", "&#36;a&#36;", "c", "d")


def test_the_mouse_says_stage_key_and_number() -> None:
    template = "%{y}<br>key %{x}<br>%{z:.4f}<extra></extra>"
    assert [trace.hovertemplate for trace in draw().data[:2]] == [template] * 2


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
def test_many_keys_share_the_width_that_there_is(keys: int) -> None:
    assert draw_keys(keys).layout.width is None
    assert draw_keys(keys, width=97 * 56 + 300).layout.width is not None


def test_labels_of_many_keys_thin_out() -> None:
    layout = draw_keys(97).layout
    assert layout.xaxis.dtick * cell(draw_keys(97), 97) >= 12 > cell(draw_keys(97), 97)
    assert len(layout.xaxis.labelalias) == 97
    assert (draw().layout.xaxis.dtick, layout.yaxis.dtick) == (1, 1)


def test_names_of_stages_have_room_on_the_left() -> None:
    long = draw(names=("q · k", "÷", "masked", "w" * 22)).layout.margin.l
    assert long > draw().layout.margin.l > 6 * len(NAMES[3])


def test_numbers_stand_only_in_cells_that_are_wide_enough() -> None:
    fits = [keys for keys in range(2, 60) if draw_keys(keys).data[0].texttemplate]
    assert fits == list(range(2, fits[-1] + 1))
    assert cell(draw_keys(fits[-1]), fits[-1]) >= 36 > cell(draw_keys(fits[-1] + 1), fits[-1] + 1)
    for keys, template in ((fits[-1], "%{z:.2f}"), (fits[-1] + 1, None)):
        stages, weights = draw_keys(keys).data
        assert stages.texttemplate == weights.texttemplate == template
    assert draw().data[-1].texttemplate is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": COLUMNS[:5]}, "^expected 7 cells and labels a row, got 7 and 5$"),
        ({"weights": WEIGHTS[:3]}, "^expected 3 cells and labels a row, got 7 and 7$"),
        (
            {"products": PRODUCTS[:5], "scaled": SCALED[:5], "allowed": ALLOWED[:5]},
            "^expected 7 cells and labels a row, got 5 and 7$",
        ),
        ({"products": PRODUCTS[:5]}, "shape"),
        ({"allowed": ALLOWED[:5]}, "shape"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(**changes)


# Contributions


QUERY, KEY = np.array([2, -1.5, 0.5]), np.array([0.25, 3, 0])


def bars(theme: Theme = LIGHT) -> go.Figure:
    return contribution_bars(QUERY * KEY, query=QUERY, key=KEY, theme=theme)


def test_a_bar_is_what_a_dimension_adds() -> None:
    [drawn] = bars().data
    np.testing.assert_array_equal(drawn.y, np.float32([0.5, -4.5, 0]))
    assert drawn.y.dtype == np.float32
    assert list(drawn.x) == [0, 1, 2]
    assert drawn.orientation is None


def test_the_mouse_says_both_factors_of_a_dimension() -> None:
    [drawn] = bars().data
    np.testing.assert_array_equal(drawn.customdata, np.float32([[2, 0.25], [-1.5, 3], [0.5, 0]]))
    places = [name for _, name, _, _ in string.Formatter().parse(drawn.hovertemplate) if name]
    assert places == ["x", "customdata[0]", "customdata[1]", "y"]
    factors, result = drawn.hovertemplate.split(" = ")
    assert "×" in factors
    assert result == "%{y:.3f}<extra></extra>"


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_what_takes_away_has_another_colour(theme: Theme) -> None:
    adds, takes = theme.series[:2]
    assert list(bars(theme).data[0].marker.color) == [adds, takes, adds]


def test_dimensions_are_named_and_zero_has_a_line() -> None:
    layout = bars().layout
    assert layout.xaxis.title.text == "dimension"
    assert layout.yaxis.zeroline
    assert layout.height <= 240


@pytest.mark.parametrize(("query", "key"), [(QUERY[:2], KEY), (QUERY, KEY[:2])])
def test_factors_of_different_length_are_refused(query: np.ndarray, key: np.ndarray) -> None:
    with pytest.raises(ValueError, match="same shape"):
        contribution_bars(QUERY * KEY, query=query, key=key, theme=LIGHT)
