from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.maps import attention_map, difference_map, similarity_map, vector_map
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, difference_scale, weight_scale

AWKWARD = ("<b>", "&lt;", "$x$", "%{z}", "niña")
ESCAPED = ("&lt;b&gt;", "&amp;lt;", "&#36;x&#36;", "%&#123;z}", "niña")
COLUMNS = ("The", "·s", "</s>")
WEIGHTS = np.random.default_rng(0).random((5, 3), dtype=np.float32)
SQUARE = np.random.default_rng(1).uniform(-1, 1, (5, 5)).astype(np.float32)
AXES: dict[str, Any] = {
    "rows": AWKWARD,
    "columns": COLUMNS,
    "row_title": "predicted ← consumed",
    "column_title": "source (key)",
    "theme": LIGHT,
}


def draw_attention(**changes: Any) -> go.Figure:
    return attention_map(WEIGHTS, **(AXES | changes))


def draw_difference(**changes: Any) -> go.Figure:
    return difference_map(-WEIGHTS, **(AXES | changes))


def draw_long(n_rows: int, n_columns: int, **changes: Any) -> go.Figure:
    return attention_map(
        np.random.default_rng(2).random((n_rows, n_columns), dtype=np.float32),
        **(
            AXES
            | {
                "rows": [f"token{i}" for i in range(n_rows)],
                "columns": [f"wort{i}" for i in range(n_columns)],
            }
            | changes
        ),
    )


# Cells


@pytest.mark.parametrize(
    ("figure", "cells", "scale", "limits"),
    [
        (draw_attention(), WEIGHTS, weight_scale(LIGHT), (0, 1)),
        (draw_attention(theme=DARK), WEIGHTS, weight_scale(DARK), (0, 1)),
        (draw_difference(), -WEIGHTS, difference_scale(LIGHT), (-1, 1)),
        (
            similarity_map(SQUARE, labels=AWKWARD, theme=LIGHT),
            SQUARE,
            difference_scale(LIGHT),
            (-1, 1),
        ),
        (
            vector_map(3 * SQUARE, labels=AWKWARD, limit=2.5, theme=LIGHT),
            3 * SQUARE,
            difference_scale(LIGHT),
            (-2.5, 2.5),
        ),
    ],
    ids=["attention", "dark", "difference", "similarity", "vectors"],
)
def test_cells_and_their_fixed_range(
    figure: go.Figure, cells: np.ndarray, scale: Any, limits: tuple[float, float]
) -> None:
    heat_map = figure.data[0]
    np.testing.assert_array_equal(heat_map.z, cells)
    assert heat_map.z.dtype == np.float32
    assert (heat_map.zmin, heat_map.zmax) == limits
    assert heat_map.colorscale == scale


def test_rows_go_down_and_column_labels_stand_on_top() -> None:
    layout = draw_attention().layout
    assert layout.yaxis.range == (4.5, -0.5)
    assert layout.xaxis.range == (-0.5, 2.5)
    assert layout.xaxis.side == "top"
    texts = [annotation.text for annotation in layout.annotations]
    assert texts == ["predicted ← consumed", "source (key)"]
    assert layout.xaxis.labelalias == {"0": "The", "1": "·s", "2": "&lt;/s&gt;"}


# Labels


@pytest.mark.parametrize(
    "axis",
    [
        draw_attention().layout.yaxis,
        draw_difference().layout.yaxis,
        similarity_map(SQUARE, labels=AWKWARD, theme=LIGHT).layout.xaxis,
        similarity_map(SQUARE, labels=AWKWARD, theme=LIGHT).layout.yaxis,
        vector_map(SQUARE, labels=AWKWARD, limit=1, theme=LIGHT).layout.yaxis,
    ],
    ids=["attention", "difference", "similarity across", "similarity down", "vectors"],
)
def test_every_label_is_escaped(axis: Any) -> None:
    assert axis.labelalias == {str(i): label for i, label in enumerate(ESCAPED)}


def test_a_long_label_is_cut_before_it_is_escaped() -> None:
    labels = ("<" * 23, "&" * 22)
    aliases = similarity_map(SQUARE[:2, :2], labels=labels, theme=LIGHT).layout.xaxis.labelalias
    assert aliases == {"0": "&lt;" * 21 + "…", "1": "&amp;" * 22}


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: draw_attention(rows=AWKWARD[:4]), r"expected \(4, 3\) cells .*, got \(5, 3\)"),
        (
            lambda: vector_map(SQUARE, labels=COLUMNS, limit=1, theme=LIGHT),
            "expected 5 labels, got 3",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(draw: Callable[[], go.Figure], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


# Masked cells

ALLOWED = np.tri(5, 3, dtype=bool)


@pytest.mark.parametrize("draw", [draw_attention, draw_difference])
def test_masked_cells_lie_over_the_map_in_their_own_colour(
    draw: Callable[..., go.Figure], theme: Theme
) -> None:
    weights, masked = draw(allowed=ALLOWED, theme=theme).data
    np.testing.assert_array_equal(masked.z, ~ALLOWED)
    assert masked.colorscale[0][1] == masked.colorscale[1][1] == "rgba(0,0,0,0)"
    assert masked.colorscale[2][1] == masked.colorscale[3][1] == theme.masked
    assert theme.masked not in [colour for _, colour in weights.colorscale]
    assert (masked.zmin, masked.zmax) == (0, 1)
    assert masked.hoverinfo == "skip"


@pytest.mark.parametrize("allowed", [None, np.ones((5, 3), dtype=bool)])
@pytest.mark.parametrize("draw", [draw_attention, draw_difference])
def test_without_masked_cells_nothing_lies_over_the_map(
    draw: Callable[..., go.Figure], allowed: np.ndarray | None
) -> None:
    assert len(draw(allowed=allowed).data) == 1
    assert not draw(allowed=allowed).layout.shapes


# Choosing a row


def test_each_row_has_a_marker_to_select_it() -> None:
    figure = draw_attention(selected=3, allowed=ALLOWED)
    markers = figure.data[-1]
    assert len(figure.data) == 3
    assert list(markers.y) == [0, 1, 2, 3, 4]
    assert len(markers.x) == 5
    expected = [LIGHT.accent if row == 3 else LIGHT.line for row in range(5)]
    assert list(markers.marker.color) == expected
    (frame,) = figure.layout.shapes
    assert (frame.y0, frame.y1) == (2.5, 3.5)


def test_a_column_may_be_framed() -> None:
    (frame,) = draw_attention(column=1).layout.shapes
    assert (frame.x0, frame.x1, frame.xref) == (0.5, 1.5, "x")
    assert (frame.y0, frame.y1, frame.yref) == (0, 1, "y domain")


# Payload


def test_a_long_map_is_below_500_kilobytes() -> None:
    allowed = np.tri(200, 220, dtype=bool)
    assert len(draw_long(200, 220, selected=7, allowed=allowed).to_json()) < 500_000
