"""Takes the frames around chosen bars out of a figure, as HTML that lies over it.

Plotly draws a figure anew, in a new place of Streamlit's, for any change of it. Where only what is
chosen changes, a figure without its frames stays the same and is not drawn again.
"""

from __future__ import annotations

import plotly.graph_objects as go

from headwise.viz_app.figures.matrix import MARK


def take_frames(figure: go.Figure) -> str:
    """Take the frames around rows out of a figure; return them as HTML, for a place of its size.

    The style of all pages has the rest, by the class ``chosen``. Empty where nothing is framed.
    """
    layout, kept, frames = figure.layout, [], ""
    for shape in layout.shapes or ():
        if shape.name != MARK or shape.type != "rect":
            kept.append(shape)
            continue
        low, high = layout.yaxis.range
        top, bottom = sorted((high - end) / (high - low) for end in (shape.y0, shape.y1))
        margin, line = layout.margin, shape.line
        down = f"(100% - {margin.t + margin.b}px)"
        frames += (
            f'<i style="left:{margin.l}px;right:{margin.r}px;'
            f"top:calc({margin.t}px + {top:.6g} * {down});height:calc({bottom - top:.6g} * {down});"
            f'outline:{line.width}px solid {line.color};outline-offset:{-line.width / 2}px"></i>'
        )
    layout.shapes = kept or None
    return frames and f'<div class="chosen" aria-hidden="true">{frames}</div>'
