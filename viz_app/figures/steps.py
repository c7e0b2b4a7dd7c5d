"""Draws how q·k becomes a weight for one query: the product, scaled, masked, softmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from headwise.viz_app.figures.matrix import (
    key_axis,
    label_width,
    labels_width,
    masked_cells,
    token_axis,
)
from headwise.viz_app.figures.selecting import frame
from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    difference_scale,
    new_figure,
    weight_scale,
)

_ROW, _SMALLEST_WITH_TEXT, _LARGEST_CELL = 28, 36, 56.0
"""Pixels of a row, of the narrowest cell with a number, and of the widest cell."""


def score_stages(
    scores: Sequence[ArrayLike],
    weights: ArrayLike,
    *,
    allowed: NDArray[np.bool_],
    columns: Sequence[str],
    names: Sequence[str],
    theme: Theme,
    selected: int | None = None,
    width: int = 900,
) -> go.Figure:
    """Draw rows of M cells: the scores as they are made, masked, and the weights.

    Trace 0 has all but the weights on one diverging scale, so that a division makes them paler;
    trace 1 has the weights, on 0 to 1; the last trace covers the masked cells. Wide cells have
    numbers; in fewer pixels than ``readable``, in ``meta``, these or the labels would touch.

    Args:
        scores: each stage of the scores, from products to those that are masked, (M,).
        weights: (M,).
        allowed: bool (M,), False where the mask forbids.
        columns: M labels of the keys.
        names: names of the rows: of the scores, of the masked ones and of the weights.
        selected: a key to frame.
        width: pixels that the figure has at least, where there are many keys.

    Raises:
        ValueError: if the arrays differ in length.
    """
    made = [np.asarray(stage, np.float32) for stage in scores]
    stages = np.stack([*made, np.where(allowed, made[-1], np.nan)])
    rows = len(stages)
    weights = np.asarray(weights, np.float32)
    if stages.shape[1:] != weights.shape or len(columns) != len(weights):
        raise ValueError(
            f"expected {len(weights)} cells and labels a row, got {stages.shape[1]} and "
            f"{len(columns)}"
        )
    limit = float(np.abs(stages[:-1]).max()) or 1.0
    left, top = label_width(names), label_width(columns)
    cell = min(_LARGEST_CELL, max(1.0, (width - left - 12) / len(columns)))
    text = {"texttemplate": "%{z:.2f}", "textfont": {"size": 11}}
    readable = left + _SMALLEST_WITH_TEXT * len(columns) + 12
    if cell < _SMALLEST_WITH_TEXT:
        text, readable = {}, left + labels_width(columns, cell) + 12
    data: list[Properties] = [
        {
            "type": "heatmap",
            "z": z,
            "y": y,
            "zmin": least,
            "zmax": most,
            "colorscale": scale,
            "showscale": False,
            "hovertemplate": "%{y}<br>key %{x}<br>%{z:.4f}<extra></extra>",
            "xgap": 1,
            "ygap": 3,
            **text,
        }
        for y, z, scale, least, most in (
            (list(range(rows)), stages, difference_scale(theme), -limit, limit),
            ([rows], weights[None], weight_scale(theme), 0, 1),
        )
    ]
    if not allowed.all():
        row = np.broadcast_to(allowed, (2, len(allowed)))
        data.append(masked_cells(row, theme) | {"y": [rows - 1, rows], "xgap": 1, "ygap": 3})
    frames = []
    if selected is not None:
        framed = (selected - 0.5, selected + 0.5)
        frames.append(frame(framed, (-0.5, rows + 0.5), theme=theme, width=2))
    return new_figure(
        theme,
        data,
        {
            "height": round(top + (rows + 1) * _ROW + 10),
            "width": round(left + cell * len(columns) + 12) if cell == _LARGEST_CELL else None,
            "margin": {"l": left, "r": 12, "t": top, "b": 10},
            "meta": {"readable": readable},
            "xaxis": key_axis(columns, cell),
            "yaxis": {"range": [rows + 0.5, -0.5], **token_axis(names, _ROW)},
            "shapes": frames,
        },
    )


def contribution_bars(
    products: ArrayLike, *, query: ArrayLike, key: ArrayLike, theme: Theme
) -> go.Figure:
    """Draw what each of K dimensions adds to q·k: bars q_i k_i, with q_i and k_i on hover."""
    products = np.asarray(products, np.float32)
    bars = {
        "type": "bar",
        "x": list(range(len(products))),
        "y": products,
        "customdata": np.stack([query, key], axis=-1).astype(np.float32),
        "marker": {"color": np.where(products < 0, theme.series[1], theme.series[0]).tolist()},
        "hovertemplate": "dimension %{x}<br>%{customdata[0]:.3f} × %{customdata[1]:.3f} = "
        "%{y:.3f}<extra></extra>",
    }
    return new_figure(
        theme,
        [bars],
        {
            "height": 200,
            "margin": {"l": 44, "r": 8, "t": 8, "b": 40},
            "bargap": 0.15,
            "xaxis": {"title": {"text": "dimension", "standoff": 4}},
            "yaxis": {"zeroline": True, "zerolinecolor": theme.line, "showgrid": True},
        },
    )
