"""Draws single heat maps: an attention map, the difference of two, and other token matrices.

Rows are queries, columns are keys; how cells and labels are drawn is in ``matrix.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.matrix import (
    COLOUR_BAR,
    LARGEST_CELL,
    colour_bar,
    label_width,
    matrix,
    token_axis,
)
from headwise.viz_app.figures.selecting import MARK, frame
from headwise.viz_app.figures.theme import Properties, Theme, difference_scale, new_figure
from headwise.viz_app.records.trace import Floats


def attention_map(
    weights: Floats,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    column_title: str,
    theme: Theme,
    allowed: NDArray[np.bool_] | None = None,
    selected: int | None = None,
    column: int | None = None,
    measured: str = "weight",
    width: int = 760,
) -> go.Figure:
    """Draw one attention map on the fixed range 0 to 1.

    Trace 0 is the map at full resolution. With a ``selected`` row, the last trace has one marker
    for each row, left of the map.

    Args:
        weights: (Q, M).
        rows: Q labels of the queries.
        columns: M labels of the keys.
        row_title: what the rows are.
        column_title: what the columns are.
        theme: colours.
        allowed: bool (Q, M), False where the mask forbids; drawn apart from zero.
        selected: the selected row, where rows can be selected.
        column: a column to frame.
        measured: what a cell is.
        width: pixels that the figure has at least; without many columns it takes fewer and says so
            in its layout.

    Raises:
        ValueError: if labels and weights do not fit.
    """
    data, layout = matrix(
        weights,
        rows=rows,
        columns=columns,
        titles=(row_title, column_title),
        measured=measured,
        hover=f"query %{{y}}<br>key %{{x}}<br>{measured} %{{z:.4f}}",
        signed=False,
        theme=theme,
        allowed=allowed,
        width=width,
    )
    shapes = []
    if selected is not None:
        n_rows, n_columns = weights.shape
        # About as wide as a triangle, whether cells have their full width or fill the page's.
        share = 12 / (12 + min(LARGEST_CELL * n_columns, 400))
        row = (layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]) / n_rows
        data.append(_row_markers(n_rows, selected, size=min(9, max(2, row - 1)), theme=theme))
        layout["xaxis"]["domain"] = [share, 1]
        layout["xaxis2"] = {"domain": [0, share], "range": [0, 1], "visible": False}
        layout["yaxis"] |= {"anchor": "free", "position": 0}
        framed = (selected - 0.5, selected + 0.5)
        shapes.append(frame((0, 1), framed, theme=theme, width=1.5, xref="x domain", yref="y"))
    if column is not None:
        framed = (column - 0.5, column + 0.5)
        shapes.append(frame(framed, (0, 1), theme=theme, width=1, xref="x", yref="y domain"))
    return new_figure(theme, data, layout | {"shapes": shapes})


def _row_markers(number: int, selected: int, *, size: float, theme: Theme) -> Properties:
    """Return a trace of triangles left of a map; that of the selected row has the accent colour."""
    return {
        "type": "scatter",
        "x": [0.5] * number,
        "y": list(range(number)),
        "xaxis": "x2",
        "mode": "markers",
        "meta": MARK,
        "marker": {
            "symbol": "triangle-right",
            "size": size,
            "color": [theme.accent if i == selected else theme.line for i in range(number)],
        },
        "hovertemplate": "choose this row<extra></extra>",
    }


def difference_map(
    difference: Floats,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    row_title: str,
    column_title: str,
    theme: Theme,
    allowed: NDArray[np.bool_] | None = None,
    width: int = 760,
) -> go.Figure:
    """Draw the difference of two attention maps, (Q, M), on the fixed range -1 to 1.

    Raises:
        ValueError: if labels and cells do not fit.
    """
    return new_figure(
        theme,
        *matrix(
            difference,
            rows=rows,
            columns=columns,
            titles=(row_title, column_title),
            measured="difference",
            hover="query %{y}<br>key %{x}<br>difference %{z:+.4f}",
            signed=True,
            theme=theme,
            allowed=allowed,
            width=width,
        ),
    )


def head_rows(
    weights: Floats,
    *,
    heads: Sequence[str],
    columns: Sequence[str],
    column_title: str,
    theme: Theme,
    width: int = 480,
) -> go.Figure:
    """Draw one row of every head's map: weights (heads, M) on the fixed range 0 to 1.

    Raises:
        ValueError: if labels and weights do not fit.
    """
    return new_figure(
        theme,
        *matrix(
            weights,
            rows=heads,
            columns=columns,
            titles=("layer.head", column_title),
            measured="weight",
            hover="head %{y}<br>key %{x}<br>weight %{z:.4f}",
            signed=False,
            theme=theme,
            allowed=None,
            width=width,
        ),
    )


def similarity_map(
    similarity: Floats, *, labels: Sequence[str], theme: Theme, width: int = 640
) -> go.Figure:
    """Draw cosine similarities of tokens, (n, n), on the fixed range -1 to 1.

    Raises:
        ValueError: if labels and cells do not fit.
    """
    return new_figure(
        theme,
        *matrix(
            similarity,
            rows=labels,
            columns=labels,
            titles=("", ""),
            measured="cosine",
            hover="%{y}<br>%{x}<br>cosine %{z:.3f}",
            signed=True,
            theme=theme,
            allowed=None,
            width=width,
        ),
    )


def vector_map(
    vectors: NDArray[np.floating], *, labels: Sequence[str], limit: float, theme: Theme
) -> go.Figure:
    """Draw vectors (n, D) as rows, on the range -limit to limit; columns are dimensions.

    Raises:
        ValueError: if labels and rows do not fit.
    """
    if len(labels) != len(vectors):
        raise ValueError(f"expected {len(vectors)} labels, got {len(labels)}")
    row = min(22.0, max(4.0, 420 / len(labels)))
    left = label_width(labels)
    return new_figure(
        theme,
        [
            {
                "type": "heatmap",
                "z": vectors.astype(np.float32),
                "zmin": -limit,
                "zmax": limit,
                "colorscale": difference_scale(theme),
                "colorbar": colour_bar(theme, "value"),
                "hovertemplate": "%{y}<br>dimension %{x}<br>%{z:.3f}<extra></extra>",
            }
        ],
        {
            "height": round(46 + row * len(labels)),
            "margin": {"l": left, "r": COLOUR_BAR + 12, "t": 6, "b": 40},
            "xaxis": {"title": {"text": "dimension", "standoff": 4}},
            "yaxis": {"range": [len(labels) - 0.5, -0.5], **token_axis(labels, row)},
        },
    )
