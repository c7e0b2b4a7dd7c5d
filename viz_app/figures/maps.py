"""Single heat maps: an attention map, the difference of two, and other matrices of tokens.

Rows are queries, from the top; columns are keys, their labels on top. Axes are numeric, 0 to n - 1,
and every label is an alias of its number: ticks thin out on long sentences, hover keeps them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from viz_app.figures.theme import Theme, difference_scale, literal, new_figure, weight_scale
from viz_app.records import Floats

_LABEL_PIXELS = 12
_LONGEST_LABEL = 22
_LARGEST_CELL = 40.0


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def _aliases(labels: Sequence[str]) -> dict[str, str]:
    return {str(i): literal(_short(label)) for i, label in enumerate(labels)}


def _label_room(labels: Sequence[str]) -> int:
    return 12 + round(6.4 * max((min(len(label), _LONGEST_LABEL) for label in labels), default=0))


def _token_axis(labels: Sequence[str], pixels: float) -> dict[str, object]:
    return {
        "labelalias": _aliases(labels),
        "tick0": 0,
        "dtick": max(1, math.ceil(_LABEL_PIXELS / pixels)),
        "tickformat": "d",
        "ticklabelstandoff": 2,
    }


def _colour_bar(theme: Theme, ticks: Sequence[float] | None = None) -> dict[str, object]:
    return {
        "thickness": 10,
        "outlinewidth": 0,
        "tickfont": {"color": theme.muted, "size": 11},
        "tickvals": ticks,
        "len": 1,
        "lenmode": "fraction",
        "x": 1.0,
        "xpad": 8,
    }


def _matrix(
    cells: Floats,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    hover: str,
    signed: bool,
    theme: Theme,
    allowed: NDArray[np.bool_] | None,
    width: int,
) -> go.Figure:
    """Labelled cells on the range 0 to 1, or -1 to 1 where ``signed``; masked ones drawn over."""
    if cells.shape != (len(rows), len(columns)):
        raise ValueError(
            f"expected {(len(rows), len(columns))} cells for the labels, got {cells.shape}"
        )
    left, top, right = _label_room([*rows, titles[0]]), _label_room(columns) + 20, 52
    cell = min(_LARGEST_CELL, max(1.0, (width - left - right) / len(columns)))
    row = min(30.0, max(cell, 4.0, min(17.0, 640 / len(rows))))
    figure = new_figure(theme)
    figure.add_trace(
        go.Heatmap(
            z=cells.astype(np.float32),
            zmin=-1 if signed else 0,
            zmax=1,
            colorscale=difference_scale(theme) if signed else weight_scale(theme),
            colorbar=_colour_bar(
                theme, [-1, -0.5, 0, 0.5, 1] if signed else [0, 0.1, 0.25, 0.5, 1]
            ),
            hovertemplate=hover + "<extra></extra>",
        )
    )
    if allowed is not None and not allowed.all():
        figure.add_trace(_masked_cells(allowed, theme))
    figure.update_layout(
        height=round(top + row * len(rows) + 12),
        # Many columns take what width there is; few stay square.
        width=round(left + cell * len(columns) + right) if cell == _LARGEST_CELL else None,
        margin={"l": left, "r": right, "t": top, "b": 12},
    )
    figure.update_xaxes(
        side="top", tickangle=-90, range=[-0.5, len(columns) - 0.5], **_token_axis(columns, cell)
    )
    figure.update_yaxes(range=[len(rows) - 0.5, -0.5], **_token_axis(rows, row))
    for text, anchor, shift in ((titles[0], "right", -6), (titles[1], "left", 0)):
        figure.add_annotation(
            text=text,
            xref="x domain",
            yref="paper",
            x=0,
            y=1,
            xanchor=anchor,
            yanchor="bottom",
            xshift=shift,
            yshift=top - 20,
            showarrow=False,
            font={"color": theme.muted, "size": 12},
        )
    return figure


def _masked_cells(allowed: NDArray[np.bool_], theme: Theme) -> go.Heatmap:
    clear, masked = "rgba(0,0,0,0)", theme.masked
    return go.Heatmap(
        z=(~allowed).astype(np.uint8),
        zmin=0,
        zmax=1,
        colorscale=((0, clear), (0.5, clear), (0.5, masked), (1, masked)),
        showscale=False,
        hoverinfo="skip",
    )


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
    width: int = 760,
) -> go.Figure:
    """One attention map on the fixed range 0 to 1.

    Trace 0 is the map at full resolution. With a ``selected`` row, the last trace has one marker a
    row, left of the map, by which another can be chosen.

    Args:
        weights: (Q, M).
        rows: Q labels of the queries.
        columns: M labels of the keys.
        row_title: what the rows are.
        column_title: what the columns are.
        theme: colours.
        allowed: bool (Q, M), False where the mask forbids; drawn apart from zero.
        selected: the row that is chosen, where rows can be.
        width: pixels that the figure has at least; without many columns it takes fewer and says so
            in its layout.

    Raises:
        ValueError: if labels and weights do not fit.
    """
    figure = _matrix(
        weights,
        rows=rows,
        columns=columns,
        titles=(row_title, column_title),
        hover="query %{y}<br>key %{x}<br>weight %{z:.4f}",
        signed=False,
        theme=theme,
        allowed=allowed,
        width=width,
    )
    if selected is not None:
        _add_row_markers(figure, weights.shape, theme, selected)
    return figure


def _add_row_markers(
    figure: go.Figure, shape: tuple[int, ...], theme: Theme, selected: int
) -> None:
    """Small triangles left of the map; the chosen row's stands out and its row is framed."""
    n_rows, n_columns = shape
    row = (figure.layout.height - figure.layout.margin.t - figure.layout.margin.b) / n_rows
    figure.add_trace(
        go.Scatter(
            x=[0.5] * n_rows,
            y=list(range(n_rows)),
            xaxis="x2",
            mode="markers",
            marker={
                "symbol": "triangle-right",
                "size": min(9, max(2, row - 1)),
                "color": [theme.accent if i == selected else theme.line for i in range(n_rows)],
            },
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
            hovertemplate="choose this row<extra></extra>",
        )
    )
    # About as wide as a triangle, whether the map is as wide as its cells or stretched.
    share = 12 / (12 + min(_LARGEST_CELL * n_columns, 400))
    figure.update_layout(
        xaxis={"domain": [share, 1]},
        xaxis2={"domain": [0, share], "range": [0, 1], "visible": False, "fixedrange": True},
        yaxis={"anchor": "free", "position": 0},
    )
    figure.add_shape(
        type="rect",
        xref="x domain",
        x0=0,
        x1=1,
        yref="y",
        y0=selected - 0.5,
        y1=selected + 0.5,
        line={"color": theme.accent, "width": 1.5},
    )


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
    """A signed difference of two maps, (Q, M), on the fixed range -1 to 1; else as those.

    Raises:
        ValueError: if labels and cells do not fit.
    """
    return _matrix(
        difference,
        rows=rows,
        columns=columns,
        titles=(row_title, column_title),
        hover="query %{y}<br>key %{x}<br>difference %{z:+.4f}",
        signed=True,
        theme=theme,
        allowed=allowed,
        width=width,
    )


def similarity_map(
    similarity: Floats, *, labels: Sequence[str], theme: Theme, width: int = 640
) -> go.Figure:
    """Cosine similarities of tokens, (n, n), on the fixed range -1 to 1.

    Raises:
        ValueError: if labels and cells do not fit.
    """
    return _matrix(
        similarity,
        rows=labels,
        columns=labels,
        titles=("", ""),
        hover="%{y}<br>%{x}<br>cosine %{z:.3f}",
        signed=True,
        theme=theme,
        allowed=None,
        width=width,
    )


def vector_map(vectors: Floats, *, labels: Sequence[str], limit: float, theme: Theme) -> go.Figure:
    """Vectors as rows, (n, D), on the symmetric range -limit to limit; columns are dimensions.

    Raises:
        ValueError: if labels and rows do not fit.
    """
    if len(labels) != len(vectors):
        raise ValueError(f"expected {len(vectors)} labels, got {len(labels)}")
    row = min(22.0, max(4.0, 420 / len(labels)))
    left = _label_room(labels)
    figure = new_figure(theme)
    figure.add_trace(
        go.Heatmap(
            z=vectors.astype(np.float32),
            zmin=-limit,
            zmax=limit,
            colorscale=difference_scale(theme),
            colorbar=_colour_bar(theme),
            hovertemplate="%{y}<br>dimension %{x}<br>%{z:.3f}<extra></extra>",
        )
    )
    figure.update_layout(
        height=round(46 + row * len(labels)),
        margin={"l": left, "r": 64, "t": 6, "b": 40},
    )
    figure.update_xaxes(title={"text": "dimension", "standoff": 4})
    figure.update_yaxes(range=[len(labels) - 0.5, -0.5], **_token_axis(labels, row))
    return figure
