"""Draws many heads in one picture: their maps, a cell each, or a cell for each checkpoint.

Layers go from the top, heads from the left; kinds stand side by side. Weights of maps are quantised
to 250 steps in one byte a cell; two more values stand for masked cells and for the gap between
maps. ``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image, ImageColor

from headwise.model.interface import Head, Kind
from headwise.viz_app.figures import matrix
from headwise.viz_app.figures.checkpoint_lines import StepColumns
from headwise.viz_app.figures.theme import (
    Properties,
    Scale,
    Theme,
    by_root,
    difference_scale,
    escape_plotly,
    new_figure,
    note,
    other_theme,
    text_on_weight,
    weight_scale,
)
from headwise.viz_app.records.measures import MeasureRange
from headwise.viz_app.records.trace import Floats

STEPS = 250  # a cell of weight w has the value round(w · STEPS)
MASKED, GAP = 253, 255
_LARGEST_CELL, _ROW, _WIDTH = 44, 30, 580  # pixels of a cell of a cost, of a row, of the figure
_NUMBER, _SMALLEST_WITH_TEXT = 27, 34  # pixels of a number, and of a cell that has one
_CHECKPOINT_ROW = 17  # pixels of a row of checkpoints


# A map of each head


def tile(maps: Floats, allowed: NDArray[np.bool_] | None = None) -> NDArray[np.uint8]:
    """Quantise and lay out weights from 0 to 1: (L, H, Q, M) → (L (Q + 1) - 1, H (M + 1) - 1)."""
    layers, heads, queries, keys = maps.shape
    cells = np.full((layers, heads, queries + 1, keys + 1), GAP, dtype=np.uint8)
    cells[..., :queries, :keys] = np.rint(np.clip(maps, 0, 1) * STEPS)
    if allowed is not None:
        cells[..., :queries, :keys][..., ~allowed] = MASKED
    rows = cells.transpose(0, 2, 1, 3)  # (L, Q + 1, H, M + 1)
    laid_out: NDArray[np.uint8] = rows.reshape(layers * (queries + 1), heads * (keys + 1))[:-1, :-1]
    return laid_out


def _with_masked(scale: Scale, theme: Theme) -> Scale:
    """Return a scale of cells up to STEPS, then single colours for masked cells and for gaps."""
    weights = tuple((at * STEPS / 255, colour) for at, colour in scale)
    masked, gap = (251.5 / 255, 254 / 255)
    grey = ((masked, weights[-1][1]), (masked, theme.masked), (gap, theme.masked))
    return (*weights, *grey, (gap, theme.background), (1.0, theme.background))


def head_image(weights: Floats, *, theme: Theme, allowed: NDArray[np.bool_] | None = None) -> str:
    """Return the map of one head, (Q, M), as ``mosaic`` has it: the address of an image."""
    cells = tile(weights[np.newaxis, np.newaxis], allowed)
    return _cells_image(cells, _with_masked(weight_scale(theme), theme))


def _cells_image(cells: NDArray[np.uint8], scale: Scale) -> str:
    """Return cells as the address of an image of a pixel each, in the colours of a scale."""
    stops, colours = zip(*scale, strict=True)
    channels = np.array([ImageColor.getcolor(colour, "RGBA") for colour in colours])
    shares = cells / 255
    pixels = np.stack([np.interp(shares, stops, channel) for channel in channels.T], axis=-1)
    file = io.BytesIO()
    Image.fromarray(np.rint(pixels).astype(np.uint8)).save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


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

    Trace 2 is the colour bar of a saved picture. Maps are weights, (L, H, Q, M), pooled by the
    caller where they are long, or differences from -1 to 1 if ``signed``; ``allowed`` is False
    where the mask forbids, (Q, M). Only the table of the picture has the labels of rows and
    columns. The ``selected`` layer and head, from 0, are framed; ``width`` is in pixels.
    """
    layers, heads, queries, keys = maps.shape
    cells = tile(((maps + 1) / 2).astype(np.float32) if signed else maps, allowed)
    scale = difference_scale(theme) if signed else weight_scale(theme)
    across = [head * (keys + 1) + (keys - 1) / 2 for head in range(heads)]
    down = [layer * (queries + 1) + (queries - 1) / 2 for layer in range(layers)]
    targets = [
        matrix.Target(x, y, f"{layer},{head}", f"layer {layer + 1} · head {head + 1}")
        for layer, y in enumerate(down)
        for head, x in enumerate(across)
    ]
    high = min(1.6, max(0.5, queries / keys))  # of a map, as a multiple of its width
    tall = (width - 68) / heads * high
    shapes = []
    if selected is not None:
        layer, head = selected
        x, y = head * (keys + 1) - 0.5, layer * (queries + 1) - 0.5
        shapes.append(matrix.frame((x, x + keys), (y, y + queries), theme=theme))
    # What its tables are named by. (`meta` of the layout is the width alone on a page.)
    tiles = {"rows": list(rows), "columns": list(columns), "signed": signed}
    named: Properties = {"showscale": False, "meta": {"tiles": tiles}}
    bar = matrix.printed_bar(
        "difference" if signed else by_root("weight"),
        limits=(-1 if signed else 0, 1),
        scale=scale,
        ticks=matrix.bar_ticks(signed, tall * layers),
        theme=theme,
    )
    return new_figure(
        theme,
        [
            matrix.heat_map(cells, (0, 255), _with_masked(scale, theme), **named),
            matrix.click_targets(targets),
            bar,
        ],
        {
            "height": round(34 + tall * layers),
            "margin": {"l": 62, "r": 6, "t": 26, "b": 8},
            "hoverdistance": -1,
            "meta": {
                "width": width,
                "fit": {"columns": heads, "rows": layers * high, "least": 18, "most": 120},
            },
            **_head_axes(cells.shape, across, [f"head {n + 1}" for n in range(heads)], down),
            "shapes": shapes,
        },
    )


def _head_axes(
    shape: Sequence[int], across: Sequence[float], heads: Sequence[str], down: Sequence[float]
) -> Properties:
    """Return axes of cells with labels of heads above and of layers beside them."""
    ends = {"range": [-0.5, shape[1] - 0.5], "tickvals": across, "ticktext": heads}
    layers = [f"layer {layer + 1}" for layer in range(len(down))]
    beside = {"range": [shape[0] - 0.5, -0.5], "tickvals": down, "ticktext": layers}
    return {"xaxis": {"side": "top", **ends}, "yaxis": beside}


# A cell for each head


def cost_map(
    costs: Mapping[Kind, Floats],
    *,
    theme: Theme,
    names: Mapping[Kind, str],
    selected: Head | None = None,
) -> go.Figure:
    """Draw what it costs to switch each head off, on a diverging scale, symmetric about 0.

    Trace 0 has the cells, with an empty column between two kinds; trace 1 has an invisible marker
    for each head, whose customdata are kind, layer and head from 0. Costs are (L, H), in nats;
    kinds may differ in layers and heads. A ``selected`` head is framed.
    """
    limit = max((float(np.abs(cells).max()) for cells in costs.values()), default=0) or 1.0
    limits, scale = (-limit, limit), difference_scale(theme)
    data, layout = _kinds(costs, "{:+.3g} nats", limits, scale, names, selected, theme)
    bar = matrix.printed_bar("cost (nats)", limits=limits, scale=scale, theme=theme)
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
    data, layout = _kinds(distances, "distance {:#.3g}", (0, 1), scale, names, selected, theme)
    cells, markers = data
    if cells.pop("texttemplate"):
        # Plotly would write them in grey, which is lost on shades in the middle.
        values = [cells["z"][y, x] for x, y in zip(markers["x"], markers["y"], strict=True)]
        ink, other = (
            [each.muted if math.isnan(v) else text_on_weight(each, v) for v in values]
            for each in (theme, other_theme(theme))
        )
        places = {"x": markers["x"], "y": markers["y"], "mode": "text", "hoverinfo": "skip"}
        text = ["–" if math.isnan(value) else f"{value:.2f}" for value in values]
        written = {"text": text, "textfont": {"size": 11, "color": ink}, "meta": {"other": other}}
        data.append({"type": "scatter", **places, **written})
    ticks, name = (0, 0.25, 1), by_root("distance")
    bar = matrix.printed_bar(name, limits=(0, 1), scale=scale, ticks=ticks, theme=theme)
    return new_figure(theme, [*data, bar], layout)


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
    layers = max(len(of_kind) for of_kind in values.values())
    empty = np.full((layers, 1), np.nan)
    columns, targets, width = [], [], 0
    ticks: dict[int, str] = {}
    middles: dict[Kind, float] = {}
    for kind, of_kind in values.items():
        count, heads = np.shape(of_kind)
        missing = np.full((layers - count, heads), np.nan)
        columns += [np.concatenate([of_kind, missing]), empty]
        for layer, head in np.ndindex(count, heads):
            value = of_kind[layer, head]
            words = "no value" if math.isnan(value) else written.format(value)
            text = f"layer {layer + 1} · head {head + 1}: {words}"
            targets.append(matrix.Target(width + head, layer, f"{kind},{layer},{head}", text))
        ticks |= {width + head: str(head + 1) for head in range(heads)}
        middles[kind] = width + (heads - 1) / 2
        width += heads + 1
    cells = np.concatenate(columns[:-1], axis=1).astype(np.float32)
    name = ",".join(map(str, selected or ()))
    cell_map, markers, frames = matrix.selectable_cells(
        cells, targets, limits=limits, scale=scale, selected=name, theme=theme
    )
    pixels = min(_LARGEST_CELL, _WIDTH / cells.shape[1])
    with_text = pixels >= _SMALLEST_WITH_TEXT
    numbers: Properties = {
        "texttemplate": "%{z:.2f}" if with_text else None,
        "textfont": {"size": 11},
    }
    above = {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": 20}
    layout = {
        "height": round(52 + _ROW * layers),
        "width": round(70 + pixels * cells.shape[1]),
        "meta": {"readable": 70 + _NUMBER * cells.shape[1]} if with_text else None,
        "margin": {"l": 62, "r": 8, "t": 44, "b": 8},
        "hoverdistance": -1,
        **_head_axes(cells.shape, [*ticks], [*ticks.values()], list(range(layers))),
        "annotations": [
            note(escape_plotly(names[kind]), theme, x=x, **above) for kind, x in middles.items()
        ],
        "shapes": frames,
    }
    return [cell_map | {"showscale": False} | numbers, markers], layout


# A cell for each head and checkpoint


@dataclass(frozen=True)
class HeadRows:
    """The rows of the matrix are listed from the top, one for each head, kind by kind."""

    heads: Sequence[Head]
    names: Sequence[str]
    cells: Floats  # values (heads, checkpoints), NaN where there is none
    words: Sequence[Sequence[str]]  # what is shown when the mouse rests on each cell


def head_matrix(
    rows: HeadRows,
    *,
    steps: Sequence[int],
    kinds: Mapping[Kind, str],
    measured: str,
    values: MeasureRange,
    theme: Theme,
    selected: tuple[Head, int] | None = None,
) -> go.Figure:
    """Draw a measure of each head at each checkpoint, on the range of the measure.

    Checkpoints are evenly spaced, the first on the left. Trace 0 has the cells, with a row above
    each kind left empty for its name; trace 1 greys those that have no value; the last one has an
    invisible marker for each cell, whose customdata are kind, layer, head from 0, and step. The
    ``selected`` head and step are framed.
    """
    places: list[int] = []
    tops: dict[Kind, int] = {}  # the row above the first head of each kind
    for place, (kind, *_) in enumerate(rows.heads):
        tops.setdefault(kind, place + len(tops))
        places.append(place + len(tops))
    cells = np.full((places[-1] + 1, len(steps)), np.nan, np.float32)
    cells[places] = rows.cells
    there = np.ones(cells.shape, np.bool_)
    there[places] = np.isfinite(rows.cells)
    finite = rows.cells[there[places]]
    limit = 1.0 if values == "share" else float(np.abs(finite).max(initial=0.0)) or 1.0
    signed = values == "signed"
    scale = weight_scale(theme)
    if signed:  # more colours for small values, as the weights' scale has
        ends = [(2 * at - 1, colour) for at, colour in difference_scale(theme)]
        scale = tuple(((1 + math.copysign(at * at, at)) / 2, colour) for at, colour in ends)
    shares = (-1, -0.25, 0, 0.25, 1) if signed else (0, 0.1, 0.25, 0.5, 1)
    ticks = [share * limit for share in shares]
    bar = matrix.colour_bar(theme, by_root(measured), ticks)
    if values != "share":
        sign = "+" * signed
        bar["ticktext"] = [f"{tick:{sign}.2g}" if tick else "0" for tick in ticks]
    targets = [
        matrix.Target(
            column,
            place,
            ",".join(map(str, (*head, step))),
            f"{escape_plotly(name)}, step {step:,}<br>{escape_plotly(words[column])}",
        )
        for head, name, words, place in zip(rows.heads, rows.names, rows.words, places, strict=True)
        for column, step in enumerate(steps)
    ]
    cell_map, markers, frames = matrix.selectable_cells(
        cells,
        targets,
        limits=(-limit if signed else 0, limit),
        scale=scale,
        selected=",".join(map(str, (*selected[0], selected[1]))) if selected else "",
        theme=theme,
    )
    gaps = {"xgap": 1, "ygap": 1}
    cell_map |= {"colorbar": bar, **gaps}
    label = {"bgcolor": theme.background, "bordercolor": theme.line, "font": {"color": theme.text}}
    columns = StepColumns.of(steps)
    beside = {"xref": "x domain", "x": 0, "xanchor": "left", "xshift": -4}
    return new_figure(
        theme,
        [cell_map, matrix.masked_cells(there, theme) | gaps, markers | {"hoverlabel": label}],
        {
            **columns.layout(top=columns.labels, bottom=8, height=_CHECKPOINT_ROW * len(cells)),
            "hoverdistance": -1,
            "hoverlabel": {"align": "left"},
            "xaxis": {"side": "top", **columns.axis},
            "yaxis": {
                "range": [len(cells) - 0.5, -0.5],
                "tickvals": places,
                "ticktext": [f"{layer + 1}.{head + 1}" for _, layer, head in rows.heads],
                "ticklabelstandoff": 4,
            },
            "annotations": [
                note(escape_plotly(kinds[kind]), theme, y=top, **beside)
                for kind, top in tops.items()
            ],
            "shapes": frames,
        },
    )
