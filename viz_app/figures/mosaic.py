"""Draws all heads in one picture: the maps of one kind, or a cell each by cost or distance.

Layers go from the top, heads from the left; kinds stand side by side. Weights of maps are quantised
to 250 steps in one byte a cell; two more values stand for masked cells and for the gap between
maps. ``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind
from headwise.viz_app.figures.matrix import bar_ticks, printed_bar
from headwise.viz_app.figures.selecting import Target, click_targets, frame, selectable_cells
from headwise.viz_app.figures.theme import (
    Properties,
    Scale,
    Theme,
    by_root,
    difference_scale,
    escape_plotly,
    new_figure,
    other_theme,
    text_on_weight,
    weight_scale,
)
from headwise.viz_app.records.trace import Floats

STEPS = 250
"""A cell of weight w has the value round(w · STEPS)."""
MASKED, GAP = 253, 255
_LARGEST_CELL, _ROW, _WIDTH = 44, 30, 580
"""Pixels of the widest cell of a cost, of a row of them, and of their figure at most."""
_NUMBER, _SMALLEST_WITH_TEXT = 27, 34
"""Pixels that a number in a cell needs where a narrow window makes cells narrower, and of the
narrowest cell that has one."""


def tile(maps: Floats, allowed: NDArray[np.bool_] | None = None) -> NDArray[np.uint8]:
    """Quantise and lay out weights from 0 to 1: (L, H, Q, M) → (L (Q + 1) - 1, H (M + 1) - 1)."""
    layers, heads, queries, keys = maps.shape
    cells = np.full((layers, heads, queries + 1, keys + 1), GAP, dtype=np.uint8)
    quantised = np.rint(np.clip(maps, 0, 1) * STEPS).astype(np.uint8)
    if allowed is not None:
        quantised[..., ~allowed] = MASKED
    cells[..., :queries, :keys] = quantised
    laid_out: NDArray[np.uint8] = cells.transpose(0, 2, 1, 3).reshape(
        layers * (queries + 1), heads * (keys + 1)
    )[:-1, :-1]
    return laid_out


def _with_masked(scale: Scale, theme: Theme) -> Scale:
    """Return a scale of cells up to STEPS, then single colours for masked cells and for gaps."""
    weights = tuple((at * STEPS / 255, colour) for at, colour in scale)
    masked, gap = (251.5 / 255, 254 / 255)
    return (
        *weights,
        (masked, weights[-1][1]),
        (masked, theme.masked),
        (gap, theme.masked),
        (gap, theme.background),
        (1.0, theme.background),
    )


def mosaic(
    maps: Floats,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    theme: Theme,
    allowed: NDArray[np.bool_] | None = None,
    selected: tuple[int, int] | None = None,
    signed: bool = False,
    width: int = 420,
) -> go.Figure:
    """Draw all heads at once: trace 0 is the map, trace 1 has an invisible marker for each head.

    Trace 2 is the colour bar of a saved picture.

    Args:
        maps: weights (L, H, Q, M), pooled by the caller where they are long.
        rows, columns: Q and M labels, which only the table of the picture has.
        allowed: bool (Q, M), False where the mask forbids.
        selected: layer and head to frame, from 0.
        signed: whether maps are differences from -1 to 1; 0 is then in the middle of the scale.
        width: pixels that the figure will have.
    """
    layers, heads, queries, keys = maps.shape
    cells = tile(((maps + 1) / 2).astype(np.float32) if signed else maps, allowed)
    scale = difference_scale(theme) if signed else weight_scale(theme)
    across = [head * (keys + 1) + (keys - 1) / 2 for head in range(heads)]
    down = [layer * (queries + 1) + (queries - 1) / 2 for layer in range(layers)]
    targets = [
        Target(x, y, f"{layer},{head}", f"layer {layer + 1} · head {head + 1}")
        for layer, y in enumerate(down)
        for head, x in enumerate(across)
    ]
    panel = (width - 70) / heads
    tall = panel * min(1.6, max(0.5, queries / keys))
    shapes = []
    if selected is not None:
        layer, head = selected
        x, y = head * (keys + 1) - 0.5, layer * (queries + 1) - 0.5
        shapes.append(frame((x, x + keys), (y, y + queries), theme=theme))
    return new_figure(
        theme,
        [
            {
                "type": "heatmap",
                "z": cells,
                "zmin": 0,
                "zmax": 255,
                "colorscale": _with_masked(scale, theme),
                "showscale": False,
                "hoverinfo": "skip",
                # What its tables are named by. (That of the layout is the width alone on a page.)
                "meta": {"tiles": {"rows": list(rows), "columns": list(columns), "signed": signed}},
            },
            click_targets(targets),
            printed_bar(
                "difference" if signed else by_root("weight"),
                limits=(-1 if signed else 0, 1),
                scale=scale,
                ticks=bar_ticks(signed, tall * layers),
                theme=theme,
            ),
        ],
        {
            "height": round(34 + tall * layers),
            "margin": {"l": 62, "r": 6, "t": 26, "b": 8},
            "hoverdistance": -1,
            "meta": {"width": width},
            "xaxis": {
                "side": "top",
                "range": [-0.5, cells.shape[1] - 0.5],
                "tickvals": across,
                "ticktext": [f"head {head + 1}" for head in range(heads)],
            },
            "yaxis": {
                "range": [cells.shape[0] - 0.5, -0.5],
                "tickvals": down,
                "ticktext": [f"layer {layer + 1}" for layer in range(layers)],
            },
            "shapes": shapes,
        },
    )


def cost_map(
    costs: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: Head | None = None,
) -> go.Figure:
    """Draw what it costs to switch each head off, on a diverging scale, symmetric about 0.

    Trace 0 has the cells, with an empty column between two kinds; trace 1 has an invisible marker
    for each head, whose customdata are kind, layer and head from 0.

    Costs are (L, H), in nats; kinds may differ in layers and heads. A ``selected`` head is framed.

    Raises:
        ValueError: if there are no kinds.
    """
    limit = max((float(np.abs(cells).max()) for cells in costs.values()), default=0) or 1.0
    limits, scale = (-limit, limit), difference_scale(theme)
    data, layout = _kinds(costs, "{:+.3f} nats", limits, scale, names, selected, theme)
    bar = printed_bar("cost (nats)", limits=limits, scale=scale, theme=theme)
    return new_figure(theme, [*data, bar], layout)


def distance_map(
    distances: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: Head | None = None,
) -> go.Figure:
    """Draw how far apart two maps of each head are, as ``cost_map``, on the fixed range 0 to 1.

    NaN is no value. Where values fit into the cells, trace 2 has them, and in its ``meta`` their
    colours in a picture of the other theme.
    """
    scale = weight_scale(theme)
    data, layout = _kinds(distances, "distance {:.3f}", (0, 1), scale, names, selected, theme)
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
                "meta": {"other": [_text_colour(other_theme(theme), v) for v in values]},
                "hoverinfo": "skip",
            }
        )
    bar = printed_bar(
        by_root("distance"), limits=(0, 1), scale=scale, ticks=(0, 0.25, 1), theme=theme
    )
    return new_figure(theme, [*data, bar], layout)


def _text_colour(theme: Theme, value: float) -> str:
    """Return the colour of a value in its cell; a cell without a value is not filled."""
    return theme.muted if math.isnan(value) else text_on_weight(theme, value)


def kind_name(name: str, theme: Theme) -> Properties:
    """Return an annotation that names a kind, without its place."""
    font = {"color": theme.muted, "size": 12}
    return {"text": escape_plotly(name), "showarrow": False, "font": font}


def _kinds(
    values: Mapping[Kind, Floats],
    written: str,
    limits: tuple[float, float],
    scale: Scale,
    names: Mapping[Kind, str],
    selected: Head | None,
    theme: Theme,
) -> tuple[list[Properties], Properties]:
    """Return traces and layout of a cell for each head, with its value where that fits."""
    if not values:
        raise ValueError("expected at least one kind of attention, got none")
    shapes = {kind: np.shape(of_kind) for kind, of_kind in values.items()}
    layers = max(shape[0] for shape in shapes.values())
    places, width = {}, 0  # the first column of each kind
    for kind, (_, heads) in shapes.items():
        places[kind] = width
        width += heads + 1
    cells = np.full((layers, width - 1), np.nan, dtype=np.float32)
    targets = []
    for kind, of_kind in values.items():
        cells[: shapes[kind][0], places[kind] : places[kind] + shapes[kind][1]] = of_kind
        for layer, head in np.ndindex(*shapes[kind]):
            value = of_kind[layer, head]
            words = "no value" if math.isnan(value) else written.format(value)
            text = f"layer {layer + 1} · head {head + 1}: {words}"
            targets.append(Target(places[kind] + head, layer, f"{kind},{layer},{head}", text))
    heat_map, markers, frames = selectable_cells(
        cells,
        targets,
        limits=limits,
        scale=scale,
        selected=",".join(map(str, selected or ())),
        theme=theme,
    )
    pixels = min(_LARGEST_CELL, _WIDTH / cells.shape[1])
    with_text = pixels >= _SMALLEST_WITH_TEXT
    heat_map |= {
        "showscale": False,
        "texttemplate": "%{z:.2f}" if with_text else None,
        "textfont": {"size": 11},
    }
    middles = {kind: start + (shapes[kind][1] - 1) / 2 for kind, start in places.items()}
    above = {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 20}
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
            kind_name(names[kind], theme) | {"x": x} | above for kind, x in middles.items()
        ],
        "shapes": frames,
    }
    return [heat_map, markers], layout
