from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.matrix import (
    COLOUR_BAR,
    LARGEST_CELL,
    label_width,
    matrix,
    token_axis,
)
from headwise.viz_app.figures.theme import LIGHT, new_figure

LETTER = 6
"""Pixels of a letter of a title, at least."""
WIDE = "consumed (key), no special tokens, rows sum to 1 again"


def draw(n_rows: int, n_columns: int, **changes: Any) -> go.Figure:
    cells = np.random.default_rng(3).random((n_rows, n_columns), dtype=np.float32)
    named: dict[str, Any] = {
        "rows": [f"r{i}" for i in range(n_rows)],
        "columns": [f"c{i}" for i in range(n_columns)],
        "titles": ("query", "key"),
        "measured": "weight",
        "hover": "%{z}",
        "signed": False,
        "theme": LIGHT,
        "allowed": None,
        "width": 760,
    }
    return new_figure(LIGHT, *matrix(cells, **(named | changes)))


# Room for titles


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 11])
@pytest.mark.parametrize("title", ["key", "source (key)", WIDE])
def test_a_title_wider_than_its_few_columns_is_not_cut(title: str, columns: int) -> None:
    layout = draw(5, columns, titles=("query", title)).layout
    assert layout.width <= 760
    assert layout.width - layout.margin.l >= LETTER * len(title)
    cells = layout.width - layout.margin.l - layout.margin.r
    assert cells == pytest.approx(LARGEST_CELL * columns, abs=1)
    assert layout.margin.r >= COLOUR_BAR  # the colour bar and its ticks


def test_a_title_narrower_than_its_columns_adds_no_margin() -> None:
    assert draw(5, 7, titles=("", "k" * 40)).layout.margin.r == COLOUR_BAR
    assert draw(5, 7, titles=("", "k" * 64)).layout.margin.r == 64 * LETTER - 280


def test_titles_stand_where_the_labels_begin() -> None:
    figure = draw(5, 3, titles=("query <b>", "key"), columns=("a", "b", "c" * 30))
    places = [(a.x, a.y, a.xanchor, a.yanchor, a.yshift) for a in figure.layout.annotations]
    above = label_width(["c" * 30]) + 20
    assert places == [(0, 1, "right", "bottom", None), (0, 1, "left", "top", above)]
    assert figure.layout.margin.t == above


# Labels


def test_label_width_stops_growing_where_labels_are_cut() -> None:
    rooms = [label_width(["a", "b" * n]) for n in (5, 21, 22, 23, 100)]
    assert rooms == sorted(rooms)
    assert rooms[0] < rooms[1] < rooms[2] == rooms[3] == rooms[4]
    assert label_width([]) == 12


@pytest.mark.parametrize("letter", ["x", "ñ", "ש", "😀"])
def test_labels_are_cut_by_letters_on_both_axes(letter: str) -> None:
    labels = (letter * 22, letter * 23)
    layout = draw(2, 2, rows=labels, columns=labels).layout
    for axis in (layout.xaxis, layout.yaxis):
        assert axis.labelalias == {"0": letter * 22, "1": letter * 21 + "…"}


@pytest.mark.parametrize(
    ("pixels", "every"), [(40, 1), (12, 1), (11.9, 2), (6, 2), (5.9, 3), (4, 3), (1, 12)]
)
def test_fewer_labels_are_drawn_where_they_would_touch(pixels: float, every: int) -> None:
    axis = token_axis(["a", "b"], pixels)
    assert (axis["tick0"], axis["dtick"]) == (0, every)


@pytest.mark.parametrize(
    ("rows", "columns", "down", "across"),
    [(7, 11, 1, 1), (200, 11, 1, 1), (7, 200, 1, 4), (200, 200, 3, 4)],
)
def test_each_axis_drops_labels_independently(
    rows: int, columns: int, down: int, across: int
) -> None:
    layout = draw(rows, columns).layout
    assert (layout.yaxis.dtick, layout.xaxis.dtick) == (down, across)
    assert (len(layout.yaxis.labelalias), len(layout.xaxis.labelalias)) == (rows, columns)


@pytest.mark.parametrize("columns", [3, 60, 200])
def test_labels_do_not_touch_in_the_pixels_that_the_figure_asks_for(columns: int) -> None:
    layout = draw(5, columns).layout
    axis = layout.meta["readable"] - layout.margin.l - layout.margin.r
    assert axis / columns * layout.xaxis.dtick >= 11.5
    assert layout.meta["readable"] <= (layout.width or 760) + 12


# Size and colour bar


def test_row_heights_shrink_to_4_pixels_at_the_least() -> None:
    def row(n: int, columns: int) -> float:
        layout = draw(n, columns).layout
        return (layout.height - layout.margin.t - layout.margin.b) / n

    assert row(5, 3) == 30
    assert row(30, 97) == 17
    assert row(499, 97) == pytest.approx(6.7, abs=0.1)
    assert row(499, 499) == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize(
    ("signed", "ticks"), [(False, (0, 0.1, 0.25, 0.5, 1)), (True, (-1, -0.5, 0, 0.5, 1))]
)
def test_the_colour_bar_names_both_ends_of_the_range(
    signed: bool, ticks: tuple[float, ...]
) -> None:
    heat_map = draw(5, 3, signed=signed).data[0]
    assert heat_map.colorbar.title.text == "weight"
    assert heat_map.colorbar.tickvals == ticks
    assert (heat_map.zmin, heat_map.zmax) == (ticks[0], ticks[-1])


def test_a_title_is_written_in_lines_where_the_map_is_narrow() -> None:
    title = "source (key), no special tokens, rows sum to 1 again"
    wide, narrow = (draw(5, 7, titles=("query", title), width=width) for width in (900, 290))
    assert wide.layout.annotations[1].text == title
    lines = narrow.layout.annotations[1].text.split("<br>")
    assert " ".join(lines) == title
    assert len(lines) > 1
    assert max(map(len, lines)) * 6 <= 290 - narrow.layout.margin.l
    more = 14 * (len(lines) - 1)
    assert narrow.layout.margin.t == wide.layout.margin.t + more


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one cell"):
        draw(0, 3)
