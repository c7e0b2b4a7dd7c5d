"""Draws the heat map of a figure as HTML, which a browser shows until Plotly can draw the figure.

Plotly's program is 4.7 MB, and a browser that opens the app for the first time needs a second to
start it. Cells, labels and titles are the figure's own and stand where Plotly will draw them. What
comes with Plotly is left out: the colour bar, frames, and what can be clicked.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import plotly.graph_objects as go
from PIL import Image, ImageColor

from headwise.viz_app.figures.theme import Scale

_ACROSS = "bottom:100%;transform:translateX(-50%)"
_UPRIGHT = (
    "bottom:calc(100% + 3px);writing-mode:vertical-rl;transform:translateX(-50%) rotate(180deg)"
)
_SLANTED = (
    "bottom:calc(100% + 3px);transform-origin:0 100%;transform:translate(.4em,0) rotate(ANGLEdeg)"
)
_DOWN = "right:calc(100% + APARTpx);transform:translateY(50%)"
"""Where a label stands above the cells, so too if it is read from below, and left of them."""
_MOST_CELLS = 40_000  # cells beyond which the picture would take longer on its way than it is seen


def early_map(figure: go.Figure) -> str:
    """Return the map of a figure as HTML as high as the figure and as wide as its place.

    Axes of the figure have ranges, and as labels ticks or aliases of numbers. The style of all
    pages has the rest, by its class ``early-map``. Empty if the figure does not begin with a heat
    map over all of both axes, or that has too many cells.
    """
    maps = [trace for trace in figure.data if trace.type == "heatmap" and trace.y is None]
    if not maps or maps[0] is not figure.data[0] or np.size(maps[0].z) > _MOST_CELLS:
        return ""
    layout = figure.layout
    margin, font = layout.margin, layout.font
    angle = layout.xaxis.tickangle or 0
    turned = {0: _ACROSS, -90: _UPRIGHT}.get(angle, _SLANTED.replace("ANGLE", f"{angle:g}"))
    columns = "".join(
        f'<i style="left:{at:.3%};{turned}">{text}</i>' for at, text in _labels(layout.xaxis)
    )
    down = _DOWN.replace("APART", f"{(layout.yaxis.ticklabelstandoff or 2) - 1}")
    images = (
        f'<img src="{cells_image(each.z, (each.zmin, each.zmax), each.colorscale)}">'
        for each in maps
    )
    rows = "".join(
        f'<i style="bottom:{at:.3%};{down}">{text}</i>' for at, text in _labels(layout.yaxis)
    )
    return (
        f'<div class="early-map" aria-hidden="true" style="height:{layout.height}px;'
        f'color:{font.color};font-size:{font.size}px">'
        f'<div style="inset:{margin.t}px {margin.r}px {margin.b}px {margin.l}px">{rows}'
        f"{''.join(images)}{columns}"
        f"{''.join(map(_title, layout.annotations))}</div></div>"
    )


def _labels(axis: Any) -> Iterator[tuple[float, str]]:
    """Yield where on its axis each label stands, from 0 to 1, and its text as HTML."""
    first, last = axis.range
    if axis.tickvals is not None:
        labels = dict(zip(axis.tickvals, axis.ticktext, strict=True))
    else:
        aliases = axis.labelalias or {}
        labels = {i: aliases[str(i)] for i in range(0, len(aliases), axis.dtick or 1)}
    for place, text in labels.items():
        yield (place - first) / (last - first), text


def cells_image(z: Any, limits: tuple[float, float], scale: Scale) -> str:
    """Return cells as the address of an image of a pixel each, in the colours of a scale."""
    stops, colours = zip(*scale, strict=True)
    channels = np.array([ImageColor.getcolor(colour, "RGBA") for colour in colours])
    shares = (np.asarray(z, dtype=np.float64) - limits[0]) / (limits[1] - limits[0])
    pixels = np.stack([np.interp(shares, stops, channel) for channel in channels.T], axis=-1)
    pixels[np.isnan(shares)] = 0
    file = io.BytesIO()
    Image.fromarray(np.rint(pixels).astype(np.uint8)).save(file, "png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def _title(annotation: Any) -> str:
    """Write the title of the rows or of the columns where ``matrix`` has it."""
    shift = annotation.yshift or 0
    place = (
        f"right:calc(100% + {-(annotation.xshift or 0)}px);bottom:100%"
        if annotation.xanchor == "right"
        else f"left:0;top:{-shift}px"
    )
    return f'<i style="{place};color:{annotation.font.color}">{annotation.text}</i>'
