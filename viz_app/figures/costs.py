"""Draws one cell for each head, by its cost or its distance.

Layers go from the top, heads from the left; kinds stand side by side.

``L`` layers, ``H`` heads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from headwise.model.interface import Kind
from headwise.viz_app.figures.matrix import printed_bar
from headwise.viz_app.figures.selecting import click_targets, frame
from headwise.viz_app.figures.theme import (
    LIGHT,
    Properties,
    Scale,
    Theme,
    difference_scale,
    escape_plotly,
    new_figure,
    text_on_weight,
    weight_scale,
)
from headwise.viz_app.records.trace import Floats

_LARGEST_CELL, _ROW, _WIDTH = 44, 30, 580
"""Pixels of the widest cell, of a row, and of the figure at most."""
_NUMBER = 27
"""Pixels that a number in a cell needs where a narrow window makes cells narrower."""
_SMALLEST_WITH_TEXT = 34
"""Pixels of the narrowest cell that has its value in it."""


def cost_map(
    costs: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: tuple[Kind, int, int] | None = None,
) -> go.Figure:
    """Draw what it costs to switch each head off, on a diverging scale, symmetric about 0.

    Args:
        costs: kind → (L, H), in nats.
        theme: colours.
        names: kind → its name for people.
        selected: kind, layer and head to frame, from 0.

    Raises:
        ValueError: if there are no kinds.
    """
    limit = max((float(np.abs(cells).max()) for cells in costs.values()), default=0) or 1.0
    limits, scale = (-limit, limit), difference_scale(theme)
    data, layout = _head_cells(
        costs,
        limits=limits,
        scale=scale,
        written="{:+.3f} nats",
        theme=theme,
        names=names,
        selected=selected,
    )
    bar = printed_bar("cost (nats)", limits=limits, scale=scale, theme=theme)
    return new_figure(theme, [*data, bar], layout)


def distance_map(
    distances: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: tuple[Kind, int, int] | None = None,
) -> go.Figure:
    """Draw how far apart two maps of each head are, on the fixed range 0 to 1.

    The arguments are those of ``cost_map``; NaN is no value. Where values fit into the cells, trace
    2 has them, and in its ``meta`` their colours in a saved picture.

    Raises:
        ValueError: as ``cost_map``.
    """
    scale = weight_scale(theme)
    data, layout = _head_cells(
        distances,
        limits=(0, 1),
        scale=scale,
        written="distance {:.3f}",
        theme=theme,
        names=names,
        selected=selected,
    )
    cells, markers = data
    if cells.pop("texttemplate"):
        # Plotly would write them in grey, which is lost on shades in the middle.
        values = [cells["z"][y, x] for x, y in zip(markers["x"], markers["y"], strict=True)]
        data.append(
            {
                "type": "scatter",
                "x": markers["x"],
                "y": markers["y"],
                "mode": "text",
                "text": ["–" if math.isnan(value) else f"{value:.2f}" for value in values],
                "textfont": {"size": 11, "color": [_text_colour(theme, v) for v in values]},
                "meta": {"printed": [_text_colour(LIGHT, v) for v in values]},
                "hoverinfo": "skip",
            }
        )
    bar = printed_bar("distance", limits=(0, 1), scale=scale, ticks=(0, 0.25, 1), theme=theme)
    return new_figure(theme, [*data, bar], layout)


def _text_colour(theme: Theme, value: float) -> str:
    """Return the colour of a value in its cell; a cell without a value is not filled."""
    return theme.muted if math.isnan(value) else text_on_weight(theme, value)


def _head_cells(
    values: Mapping[Kind, Floats],
    *,
    limits: tuple[float, float],
    scale: Scale,
    written: str,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: tuple[Kind, int, int] | None,
) -> tuple[list[Properties], Properties]:
    """Return traces and layout of a cell for each head, with its value where that fits.

    Kinds may differ in layers.

    Trace 0 has the cells, with an empty column between two kinds; trace 1 has an invisible marker
    for each head, whose customdata are kind, layer and head from 0.
    """
    if not values:
        raise ValueError("expected at least one kind of attention, got none")
    shapes = {kind: np.shape(of_kind) for kind, of_kind in values.items()}
    layers = max(shape[0] for shape in shapes.values())
    places, width = {}, 0  # the first column of each kind
    for kind, (_, heads) in shapes.items():
        places[kind] = width
        width += heads + 1
    cells = np.full((layers, width - 1), np.nan, dtype=np.float32)
    for kind, of_kind in values.items():
        cells[: shapes[kind][0], places[kind] : places[kind] + shapes[kind][1]] = of_kind
    pixels = min(_LARGEST_CELL, _WIDTH / cells.shape[1])
    with_text = pixels >= _SMALLEST_WITH_TEXT

    def in_words(value: float) -> str:
        return "no value" if math.isnan(value) else written.format(value)

    points = [(kind, *place) for kind, shape in shapes.items() for place in np.ndindex(*shape)]
    frames = []
    if selected is not None:
        kind, layer, head = selected
        x = places[kind] + head
        frames.append(frame((x - 0.5, x + 0.5), (layer - 0.5, layer + 0.5), theme=theme))
    data: list[Properties] = [
        {
            "type": "heatmap",
            "z": cells,
            "zmin": limits[0],
            "zmax": limits[1],
            "colorscale": scale,
            "showscale": False,
            "hoverinfo": "skip",
            "texttemplate": "%{z:.2f}" if with_text else None,
            "textfont": {"size": 11},
        },
        click_targets(
            [places[kind] + head for kind, _, head in points],
            [layer for _, layer, _ in points],
            values=[f"{kind},{layer},{head}" for kind, layer, head in points],
            texts=[
                f"layer {layer + 1} · head {head + 1}: {in_words(values[kind][layer, head])}"
                for kind, layer, head in points
            ],
        ),
    ]
    layout = {
        "height": round(52 + _ROW * layers),
        "width": round(70 + pixels * cells.shape[1]),
        "meta": {"readable": 70 + _NUMBER * cells.shape[1]} if with_text else None,
        "margin": {"l": 62, "r": 8, "t": 44, "b": 8},
        "hoverdistance": -1,
        "xaxis": {
            "side": "top",
            "range": [-0.5, cells.shape[1] - 0.5],
            "tickvals": [places[kind] + head for kind in values for head in range(shapes[kind][1])],
            "ticktext": [str(head + 1) for kind in values for head in range(shapes[kind][1])],
        },
        "yaxis": {
            "range": [layers - 0.5, -0.5],
            "tickvals": list(range(layers)),
            "ticktext": [f"layer {layer + 1}" for layer in range(layers)],
        },
        "annotations": [
            {
                "text": escape_plotly(names[kind]),
                "x": start + (shapes[kind][1] - 1) / 2,
                "y": 1,
                "yref": "paper",
                "yanchor": "bottom",
                "yshift": 20,
                "showarrow": False,
                "font": {"color": theme.muted, "size": 12},
            }
            for kind, start in places.items()
        ],
        "shapes": frames,
    }
    return data, layout
