"""Single heat maps, and how all of them get their cells, labels, titles and sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.maps import (
    attention_map,
    difference_map,
    encoding_map,
    mask_map,
    score_stages,
    share_map,
    similarity_map,
    vector_map,
)
from headwise.viz_app.figures.matrix import COLOUR_BAR, LARGEST_CELL, label_width
from headwise.viz_app.figures.theme import LIGHT, Theme, difference_scale, weight_scale

AWKWARD = ("<b>", "&lt;", "$x$", "%{z}", "niña")
ESCAPED = ("&lt;b&gt;", "&amp;lt;", "&#36;x&#36;", "%&#123;z}", "niña")
COLUMNS = ("The", "·s", "</s>")
WEIGHTS = np.random.default_rng(0).random((5, 3), dtype=np.float32)
SQUARE = np.random.default_rng(1).uniform(-1, 1, (5, 5)).astype(np.float32)
ALLOWED = np.tri(5, 3, dtype=bool)
TITLES: dict[str, Any] = {"row_title": "predicted ← consumed", "column_title": "source (key)"}
AXES: dict[str, Any] = {"rows": AWKWARD, "columns": COLUMNS, "theme": LIGHT, **TITLES}
TOKENS: dict[str, Any] = {"labels": AWKWARD, "theme": LIGHT}
LETTER = 6
"""Pixels of a letter of a title, at least."""
WIDE = "consumed (key), no special tokens, rows sum to 1 again"


def draw_attention(**changes: Any) -> go.Figure:
    return attention_map(WEIGHTS, **(AXES | changes))


def draw_difference(**changes: Any) -> go.Figure:
    return difference_map(-WEIGHTS, **(AXES | changes))


def draw_size(n_rows: int, n_columns: int, **changes: Any) -> go.Figure:
    labels = {"rows": [f"r{i}" for i in range(n_rows)], "row_title": "query"}
    labels |= {"columns": [f"c{i}" for i in range(n_columns)], "column_title": "key"}
    cells = np.random.default_rng(2).random((n_rows, n_columns), dtype=np.float32)
    return attention_map(cells, **({"theme": LIGHT} | labels | changes))


# Cells


DRAWN: dict[str, tuple[go.Figure, np.ndarray, float]] = {
    "attention": (draw_attention(), WEIGHTS, 0),
    "difference": (draw_difference(), -WEIGHTS, -1),
    "similarity": (similarity_map(SQUARE, **TOKENS), SQUARE, -1),
    "vectors": (vector_map(3 * SQUARE, **TOKENS, limit=2.5), 3 * SQUARE, -2.5),
    "encodings": (encoding_map(SQUARE, used=5, theme=LIGHT), SQUARE, -1),
}
"""Name → figure, its cells, and the lower end of its range."""


@pytest.mark.parametrize("name", DRAWN)
def test_cells_are_drawn_from_the_top_on_their_fixed_range(name: str) -> None:
    figure, cells, least = DRAWN[name]
    [heat_map] = figure.data
    np.testing.assert_array_equal(heat_map.z, cells)
    assert heat_map.z.dtype == np.float32
    assert (heat_map.zmin, heat_map.zmax) == (least, abs(least) or 1)
    assert heat_map.colorscale == (difference_scale if least else weight_scale)(LIGHT)
    axis = figure.layout.yaxis
    assert axis.range == (4.5, -0.5)
    labels = "01234" if name == "encodings" else ESCAPED
    assert axis.labelalias == {str(i): label for i, label in enumerate(labels)}
    assert not figure.layout.shapes


def test_encodings_have_a_line_after_the_sentence_and_small_numbers_a_range_of_their_own() -> None:
    [line] = encoding_map(SQUARE, used=3, theme=LIGHT).layout.shapes
    assert (line.y0, line.y1, line.line.color) == (2.5, 2.5, LIGHT.accent)
    many, own = vector_map(3 * SQUARE, **TOKENS, limit=2.5, apart=(1, 0.5)).data
    np.testing.assert_array_equal(many.z, 3 * SQUARE)
    np.testing.assert_array_equal(own.z, 3 * SQUARE[[1]])
    assert (own.y, own.zmin, own.zmax) == ((1,), -0.5, 0.5)


def test_unfit_labels_and_no_maps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected \(4, 3\) cells .*, got \(5, 3\)"):
        draw_attention(rows=AWKWARD[:4])
    with pytest.raises(ValueError, match="at least one cell"):
        draw_size(0, 3)


def test_a_long_map_is_below_500_kilobytes() -> None:
    allowed = np.tri(200, 220, dtype=bool)
    assert len(draw_size(200, 220, selected=7, allowed=allowed).to_json()) < 500_000


# Masked cells, a selected row, a framed column, the end of a sentence


@pytest.mark.parametrize("draw", [draw_attention, draw_difference])
def test_masked_cells_have_their_own_colour(draw: Callable[..., go.Figure], theme: Theme) -> None:
    weights, masked = draw(allowed=ALLOWED, theme=theme).data
    np.testing.assert_array_equal(masked.z, ~ALLOWED)
    assert masked.colorscale[0][1] == masked.colorscale[1][1] == "rgba(0,0,0,0)"
    assert masked.colorscale[2][1] == masked.colorscale[3][1] == theme.masked
    assert theme.masked not in [colour for _, colour in weights.colorscale]
    assert (masked.zmin, masked.zmax, masked.hoverinfo) == (0, 1, "skip")
    assert len(draw(allowed=np.ones((5, 3), dtype=bool)).data) == 1


def test_rows_have_marks_to_select_them_and_row_and_column_are_framed() -> None:
    figure = draw_attention(selected=3, column=1, allowed=ALLOWED)
    *marks, row, column = figure.layout.shapes
    middles = {
        mark.fillcolor: re.findall(r"L-3,(\d+) ", mark.path)
        for mark in marks
        if (mark.xref, mark.xanchor, mark.xsizemode) == ("x domain", 0, "pixel")
    }
    assert middles == {LIGHT.line: ["0", "1", "2", "3", "4"], LIGHT.accent: ["3"]}
    room = figure.layout.yaxis.ticklabelstandoff
    assert figure.layout.margin.l >= LETTER * max(map(len, AWKWARD)) + room
    assert room >= max(-float(x) for mark in marks for x in re.findall(r"[ML](-\d+)", mark.path))
    assert (row.y0, row.y1, row.xref) == (2.5, 3.5, "x domain")
    assert (column.x0, column.x1, column.yref) == (0.5, 1.5, "y domain")


# Titles and labels


def test_a_title_wider_than_its_few_columns_is_not_cut() -> None:
    for title, columns in (("key", 3), (WIDE, 1), (WIDE, 11)):
        layout = draw_size(5, columns, column_title=title).layout
        assert LETTER * len(title) + layout.margin.l <= layout.width <= 760
        cells = layout.width - layout.margin.l - layout.margin.r
        assert cells == pytest.approx(LARGEST_CELL * columns, abs=1)
        assert layout.margin.r == max(COLOUR_BAR, LETTER * len(title) - LARGEST_CELL * columns)


def test_long_labels_are_cut_by_letters_and_take_no_more_room() -> None:
    for letter, shown in (("x", "x"), ("ש", "ש"), ("😀", "😀"), ("<", "&lt;")):
        labels = (letter * 22, letter * 23)
        layout = similarity_map(SQUARE[:2, :2], labels=labels, theme=LIGHT).layout
        for axis in (layout.xaxis, layout.yaxis):
            assert axis.labelalias == {"0": shown * 22, "1": shown * 21 + "…"}
        rooms = [label_width(["a", letter * n]) for n in (5, 21, 22, 23, 100)]
        assert rooms[0] < rooms[1] < rooms[2] == rooms[3] == rooms[4]


def test_each_axis_drops_labels_that_would_touch_and_says_so() -> None:
    for rows, columns, width, down, across in (
        *((7, 11, 760, 1, 1), (200, 11, 760, 1, 1), (60, 6, 760, 1, 1), (6, 20, 290, 1, 1)),
        *((7, 60, 760, 1, 2), (7, 200, 760, 1, 4), (200, 200, 760, 3, 4)),
    ):
        layout = draw_size(rows, columns, width=width).layout
        assert (layout.yaxis.dtick, layout.xaxis.dtick) == (down, across)
        axis = layout.meta["readable"] - layout.margin.l - layout.margin.r
        assert axis / columns * across >= 11.5
        signs = [note.text for note in layout.annotations if "label" in note.text]
        assert bool(signs) == (across > 1)
        assert not signs or f"each {across} columns" in signs[0].replace("<br>", " ")


def test_labels_above_squares_stand_level_where_they_fit_and_slant_elsewhere() -> None:
    for labels, angle in (
        (("I", "love", "you", ".", "</s>"), 0),
        (("The", "old", "woman", "opened", "the", "window", ".", "</s>"), -45),
        *((("token",) * 45, -60), (("token",) * 200, -90)),
    ):
        layout = draw_size(4, len(labels), columns=labels, square=True).layout
        assert layout.xaxis.tickangle == angle
        assert layout.margin.t > LETTER * 4 * math.sin(math.radians(-angle))
        assert draw_size(4, len(labels), columns=labels).layout.xaxis.tickangle == -90


# Size and colour bar


def test_rows_shrink_to_4_pixels_and_squares_say_how_to_fill_their_place() -> None:
    for rows, columns, pixels in ((5, 3, 30), (30, 97, 17), (499, 97, 6.5), (499, 499, 4)):
        layout = draw_size(rows, columns).layout
        row = (layout.height - layout.margin.t - layout.margin.b) / rows
        assert row == pytest.approx(pixels, abs=0.1)
    for rows, columns, least in ((4, 5, 14), (43, 45, 14), (4, 128, 7)):
        layout = draw_size(rows, columns, square=True).layout
        fit = {"columns": columns, "rows": rows, "least": least, "most": 110}
        assert layout.meta["fit"] == fit
        margin = layout.margin
        wide = (layout.width - margin.l - margin.r) / columns
        assert wide == pytest.approx((layout.height - margin.t - margin.b) / rows, abs=0.5)
        assert wide >= least - 0.1


def test_only_a_saved_picture_of_squares_has_a_colour_bar_unless_they_are_signed() -> None:
    cells, bar = draw_attention(square=True).data
    assert not cells.showscale
    assert (bar.meta, bar.visible, bar.marker.showscale) == ("printed", False, True)
    assert bar.marker.colorbar.title.text == "weight (√ scale)"
    [difference] = draw_difference(square=True).data
    assert difference.colorbar.title.text == "difference"


# Masks


def causal(n: int, theme: Theme = LIGHT, **options: Any) -> go.Figure:
    labels = [f"p{i}" for i in range(n)]
    named = {"rows": labels, "columns": labels, "titles": ("query", "key"), "theme": theme}
    return mask_map(np.tri(n, dtype=bool), **(named | options))


def test_masked_cells_are_grey_and_crossed_where_crosses_are_seen(theme: Theme) -> None:
    mask, forbidden, crosses = causal(5, theme).data
    np.testing.assert_array_equal(mask.z, np.tri(5))
    assert len({colour for _, colour in mask.colorscale}) == 1
    np.testing.assert_array_equal(forbidden.z, 1 - np.tri(5))
    assert forbidden.colorscale[-1][1] == theme.masked
    cells = list(zip(crosses.y, crosses.x, strict=True))
    assert cells == [(y, x) for y in range(5) for x in range(y + 1, 5)]
    assert crosses.marker.symbol == "x-thin"
    assert not mask.showscale
    assert [len(causal(n).data) for n in (40, 301)] == [3, 2]


def test_cells_of_a_mask_are_square_and_fit() -> None:
    for n in (1, 17, 301):
        layout = causal(n, width=440).layout
        across = layout.width - layout.margin.l - layout.margin.r
        assert across == pytest.approx(layout.height - layout.margin.t - layout.margin.b, abs=2)
        assert 200 <= layout.width <= 441
        assert across / n <= 31


# Shares


def test_shares_are_drawn_from_minus_1_to_1_and_what_has_none_apart() -> None:
    shares = np.array([[0.5, np.nan, -3.0], [0.0, 1.0, 2.0]], np.float32)
    names = np.array([["a", "b", "c"], ["d", "e", "f"]])
    axes = AXES | {"rows": AWKWARD[:2]}
    figure = share_map(shares, names=names, hover=np.char.add(names, "<b>"), selected="e", **axes)
    heat_map, masked, markers = figure.data
    np.testing.assert_array_equal(heat_map.z, [[0.5, 0, -3], [0, 1, 2]])
    assert (heat_map.zmin, heat_map.zmax) == (-1, 1)
    np.testing.assert_array_equal(masked.z, [[0, 1, 0], [0, 0, 0]])
    assert list(markers.customdata) == ["a", "c", "d", "e", "f"]
    assert list(zip(markers.x, markers.y, strict=True))[:2] == [(0, 0), (2, 0)]
    assert markers.text[0] == "a&lt;b&gt;"
    [frame] = figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0.5, 1.5, 0.5, 1.5)


# From scores to weights

PRODUCTS = np.array([1.5, -3, 0.25, 2, -0.5, 11, -13], np.float64)
SCALED = PRODUCTS / 3**0.5
SEEN = np.arange(7) < 5
SHARES = np.array([0.25, 0.03125, 0.125, 0.5, 0.09375, 0, 0], np.float64)
STAGES: dict[str, Any] = {"names": ("q · k", "÷ √3 = 1.73", "masked", "weight"), "theme": LIGHT}


def test_products_scaled_and_masked_scores_and_weights_are_the_four_rows(theme: Theme) -> None:
    given = STAGES | {"allowed": SEEN, "columns": list("abcdefg"), "theme": theme}
    figure = score_stages([PRODUCTS, SCALED], SHARES, selected=4, **given)
    stages, weights, masked = figure.data
    expected = np.float32([PRODUCTS, SCALED, [*SCALED[:5], np.nan, np.nan]])
    np.testing.assert_array_equal(stages.z, expected)
    np.testing.assert_array_equal(weights.z, np.float32([SHARES]))
    np.testing.assert_array_equal(masked.z, [~SEEN, ~SEEN])
    assert [list(trace.y) for trace in figure.data] == [[0, 1, 2], [3], [2, 3]]
    assert (stages.zmin, stages.zmax, weights.zmin, weights.zmax) == (-13, 13, 0, 1)
    assert (stages.colorscale, weights.colorscale) == (difference_scale(theme), weight_scale(theme))
    # With other gaps, grey cells would stand aside.
    assert {(trace.xgap, trace.ygap) for trace in figure.data} == {(1, 3)}
    [frame] = figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (3.5, 4.5, -0.5, 3.5)
    assert figure.layout.yaxis.range == (3.5, -0.5)
    nothing = score_stages([np.zeros(7)] * 2, SHARES, **given).data[0]
    assert (nothing.zmin, nothing.zmax) == (-1, 1)


@pytest.mark.parametrize("keys", [2, 17, 60])
def test_only_wide_cells_have_numbers_and_readable_says_how_much_room_they_need(keys: int) -> None:
    scores, columns = np.arange(keys) - 2.0, [f"token{i}" for i in range(keys)]
    given = STAGES | {"allowed": np.ones(keys, bool), "columns": columns}
    figure = score_stages([2 * scores, scores], np.full(keys, 1 / keys), **given)
    layout, with_numbers = figure.layout, keys < 20
    across = (layout.width or 900) - layout.margin.l - layout.margin.r
    assert (across / keys >= 36) == with_numbers
    assert layout.width is None or across / keys == pytest.approx(56, abs=0.1)
    assert (layout.width is None) == (keys > 10)
    template = "%{z:.2f}" if with_numbers else None
    assert [each.texttemplate for each in figure.data] == [template] * 2
    readable = layout.meta["readable"]
    assert keys * 36 <= readable if with_numbers else keys * 12 <= readable < keys * 36
