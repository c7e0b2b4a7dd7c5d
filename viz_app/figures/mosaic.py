"""Draws all heads of one kind in one heat map: layers from the top, heads from the left.

Weights are quantised to 250 steps in one byte a cell; two more values stand for masked cells and
for the gap between maps. ``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.matrix import bar_ticks, printed_bar
from headwise.viz_app.figures.selecting import click_targets, frame
from headwise.viz_app.figures.theme import Scale, Theme, difference_scale, new_figure, weight_scale
from headwise.viz_app.records.trace import Floats

STEPS = 250
"""A cell of weight w has the value round(w · STEPS)."""
MASKED, GAP = 253, 255


def tile(maps: Floats, allowed: NDArray[np.bool_] | None = None) -> NDArray[np.uint8]:
    """Quantise and lay out maps: (L, H, Q, M) → (L (Q + 1) - 1, H (M + 1) - 1).

    Args:
        maps: weights from 0 to 1.
        allowed: bool (Q, M), False where the mask forbids.
    """
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
        theme: colours.
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
    every = [(layer, head) for layer in range(layers) for head in range(heads)]
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
            },
            click_targets(
                [across[head] for _, head in every],
                [down[layer] for layer, _ in every],
                values=[f"{layer},{head}" for layer, head in every],
                texts=[f"layer {layer + 1} · head {head + 1}" for layer, head in every],
            ),
            printed_bar(
                "difference" if signed else "weight",
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
