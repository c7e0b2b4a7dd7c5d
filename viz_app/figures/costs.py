"""A number a head: layers from the top, heads from the left, kind by kind.

``L`` layers, ``H`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from viz_app.figures.theme import (
    Scale,
    Theme,
    difference_scale,
    literal,
    new_figure,
    text_on_weight,
    weight_scale,
)
from viz_app.records import Floats, Kind

_LARGEST_CELL, _ROW, _WIDTH = 44, 30, 580
_SMALLEST_WITH_TEXT = 34
"""Pixels."""


def cost_map(
    costs: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: tuple[Kind, int, int] | None = None,
) -> go.Figure:
    """What switching each head off costs, on a diverging scale, symmetric about 0.

    Args:
        costs: kind → (L, H), in nats.
        theme: colours.
        names: kind → its name for people.
        selected: kind, layer and head to frame, from 0.

    Raises:
        ValueError: if the kinds differ in their layers and heads, or there are none.
    """
    limit = max((float(np.abs(cells).max()) for cells in costs.values()), default=0) or 1.0
    return _head_cells(
        costs,
        limits=(-limit, limit),
        scale=difference_scale(theme),
        written="{:+.3f} nats",
        theme=theme,
        names=names,
        selected=selected,
    )


def distance_map(
    distances: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: tuple[Kind, int, int] | None = None,
) -> go.Figure:
    """How far apart two maps of each head are, on the fixed range 0 to 1; else as ``cost_map``.

    Values that fit are written into the cells as trace 2.

    Raises:
        ValueError: as ``cost_map``.
    """
    figure = _head_cells(
        distances,
        limits=(0, 1),
        scale=weight_scale(theme),
        written="distance {:.3f}",
        theme=theme,
        names=names,
        selected=selected,
    )
    cells, markers = figure.data
    if cells.texttemplate is not None:
        # Plotly would write them in grey, which is lost on shades in the middle.
        values = [cells.z[y, x] for x, y in zip(markers.x, markers.y, strict=True)]
        cells.texttemplate = None
        figure.add_trace(
            go.Scatter(
                x=markers.x,
                y=markers.y,
                mode="text",
                text=[f"{value:.2f}" for value in values],
                textfont={"size": 11, "color": [text_on_weight(theme, v) for v in values]},
                hoverinfo="skip",
            )
        )
    return figure


def _head_cells(
    values: Mapping[Kind, Floats],
    *,
    limits: tuple[float, float],
    scale: Scale,
    written: str,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: tuple[Kind, int, int] | None,
) -> go.Figure:
    """A cell a head, its value written into it if it fits.

    Trace 0 has the cells, with a column between two kinds left empty; trace 1 one invisible marker
    a head, whose customdata are kind, layer and head from 0.
    """
    shapes = {np.shape(cells) for cells in values.values()}
    if len(shapes) != 1:
        raise ValueError(f"expected kinds of one shape (layers, heads), got {sorted(shapes)}")
    [(layers, heads)] = shapes
    gap = np.full((layers, 1), np.nan, dtype=np.float32)
    cells = np.hstack([part for kind in values.values() for part in (kind, gap)])[:, :-1]
    pixels = min(_LARGEST_CELL, _WIDTH / cells.shape[1])
    places = {kind: at * (heads + 1) for at, kind in enumerate(values)}
    points = [(k, i, h) for k in values for i in range(layers) for h in range(heads)]
    figure = new_figure(theme)
    figure.add_trace(
        go.Heatmap(
            z=cells.astype(np.float32),
            zmin=limits[0],
            zmax=limits[1],
            colorscale=scale,
            showscale=False,
            hoverinfo="skip",
            texttemplate="%{z:.2f}" if pixels >= _SMALLEST_WITH_TEXT else None,
            textfont={"size": 11},
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[places[kind] + head for kind, _, head in points],
            y=[layer for _, layer, _ in points],
            customdata=[f"{kind},{layer},{head}" for kind, layer, head in points],
            text=[
                f"layer {layer + 1} · head {head + 1}: {written.format(values[kind][layer, head])}"
                for kind, layer, head in points
            ],
            mode="markers",
            marker={"symbol": "square", "size": 12, "opacity": 0},
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
            hovertemplate="%{text}<extra></extra>",
        )
    )
    figure.update_layout(
        height=round(52 + _ROW * layers),
        width=round(70 + pixels * cells.shape[1]),
        margin={"l": 62, "r": 8, "t": 44, "b": 8},
        hoverdistance=-1,
    )
    figure.update_xaxes(
        side="top",
        range=[-0.5, cells.shape[1] - 0.5],
        tickvals=[places[kind] + head for kind in values for head in range(heads)],
        ticktext=[str(head + 1) for _ in values for head in range(heads)],
    )
    figure.update_yaxes(
        range=[layers - 0.5, -0.5],
        tickvals=list(range(layers)),
        ticktext=[f"layer {layer + 1}" for layer in range(layers)],
    )
    for kind, start in places.items():
        figure.add_annotation(
            text=literal(names[kind]),
            x=start + (heads - 1) / 2,
            y=1,
            yref="paper",
            yanchor="bottom",
            yshift=20,
            showarrow=False,
            font={"color": theme.muted, "size": 12},
        )
    if selected is not None:
        kind, layer, head = selected
        x = places[kind] + head
        figure.add_shape(
            type="rect",
            x0=x - 0.5,
            x1=x + 0.5,
            y0=layer - 0.5,
            y1=layer + 0.5,
            line={"color": theme.accent, "width": 2.5},
        )
    return figure
