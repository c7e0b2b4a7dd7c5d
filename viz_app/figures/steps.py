"""One query at all keys: what the division, the mask and the softmax make of each product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from viz_app.figures.matrix import label_room, masked_cells, token_axis
from viz_app.figures.theme import Theme, difference_scale, new_figure, weight_scale

_ROW, _SMALLEST_WITH_TEXT, _LARGEST_CELL = 28, 36, 56.0
"""Pixels."""


def score_stages(
    products: ArrayLike,
    scaled: ArrayLike,
    weights: ArrayLike,
    *,
    allowed: NDArray[np.bool_],
    columns: Sequence[str],
    names: tuple[str, str, str, str],
    theme: Theme,
    selected: int | None = None,
    width: int = 900,
) -> go.Figure:
    """Four rows of M cells: products, scaled, masked, and weights; numbers stand in wide cells.

    Trace 0 has the first three on one diverging scale, so that the division pales them, and nothing
    where the mask forbids; trace 1 the weights, on 0 to 1; the last trace the forbidden cells.

    Args:
        products, scaled, weights: (M,).
        allowed: bool (M,), False where the mask forbids.
        columns: M labels of the keys.
        names: of the four rows.
        theme: colours.
        selected: a key to frame.
        width: pixels that the figure has at least, where there are many keys.

    Raises:
        ValueError: if the arrays differ in length.
    """
    scaled = np.asarray(scaled, np.float32)
    stages = np.stack([np.asarray(products, np.float32), scaled, np.where(allowed, scaled, np.nan)])
    weights = np.asarray(weights, np.float32)
    if stages.shape[1:] != weights.shape or len(columns) != len(weights):
        raise ValueError(
            f"expected {len(weights)} cells and labels a row, got {stages.shape[1]} and "
            f"{len(columns)}"
        )
    limit = float(np.abs(stages[:2]).max()) or 1.0
    left, top = label_room(names), label_room(columns)
    cell = min(_LARGEST_CELL, max(1.0, (width - left - 12) / len(columns)))
    text = {"texttemplate": "%{z:.2f}", "textfont": {"size": 11}}
    if cell < _SMALLEST_WITH_TEXT:
        text = {}
    figure = new_figure(theme)
    for y, z, scale, least, most in (
        ([0, 1, 2], stages, difference_scale(theme), -limit, limit),
        ([3], weights[None], weight_scale(theme), 0, 1),
    ):
        figure.add_trace(
            go.Heatmap(
                z=z,
                y=y,
                zmin=least,
                zmax=most,
                colorscale=scale,
                showscale=False,
                hovertemplate="%{y}<br>key %{x}<br>%{z:.4f}<extra></extra>",
                xgap=1,
                ygap=3,
                **text,
            )
        )
    if not allowed.all():
        row = np.broadcast_to(allowed, (2, len(allowed)))
        figure.add_trace(masked_cells(row, theme).update(y=[2, 3], xgap=1, ygap=3))
    figure.update_layout(
        height=round(top + 4 * _ROW + 10),
        width=round(left + cell * len(columns) + 12) if cell == _LARGEST_CELL else None,
        margin={"l": left, "r": 12, "t": top, "b": 10},
    )
    figure.update_xaxes(
        side="top", tickangle=-90, range=[-0.5, len(columns) - 0.5], **token_axis(columns, cell)
    )
    figure.update_yaxes(range=[3.5, -0.5], **token_axis(names, _ROW))
    if selected is not None:
        figure.add_shape(
            type="rect",
            x0=selected - 0.5,
            x1=selected + 0.5,
            y0=-0.5,
            y1=3.5,
            line={"color": theme.accent, "width": 2},
        )
    return figure


def contribution_bars(
    products: ArrayLike, *, query: ArrayLike, key: ArrayLike, theme: Theme
) -> go.Figure:
    """What each of K dimensions adds to q·k: bars of q_i k_i; resting on one shows q_i and k_i."""
    products = np.asarray(products, np.float32)
    figure = new_figure(theme)
    figure.add_trace(
        go.Bar(
            x=list(range(len(products))),
            y=products,
            customdata=np.stack([query, key], axis=-1).astype(np.float32),
            marker={"color": np.where(products < 0, theme.series[1], theme.series[0]).tolist()},
            hovertemplate="dimension %{x}<br>%{customdata[0]:.3f} × %{customdata[1]:.3f} = "
            "%{y:.3f}<extra></extra>",
        )
    )
    figure.update_layout(height=200, margin={"l": 44, "r": 8, "t": 8, "b": 40}, bargap=0.15)
    figure.update_xaxes(title={"text": "dimension", "standoff": 4})
    figure.update_yaxes(zeroline=True, zerolinecolor=theme.line, showgrid=True)
    return figure
