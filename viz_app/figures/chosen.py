"""Takes the frames around what is chosen out of a figure, as HTML that lies over it.

Plotly draws a figure anew, in a new place of Streamlit's, for any change of it. Where only what is
chosen changes, a figure without its frames stays the same and is not drawn again.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import plotly.graph_objects as go

from headwise.viz_app.figures.matrix import MARK


def take_frames(figure: go.Figure) -> str:
    """Take the frames out of a figure; return them as HTML, for a place as large as the figure.

    The style of all pages has the rest, by the class ``chosen``. What stays are frames on an axis
    without a range, and marks of other forms, but for the mark of a framed row. Empty where
    nothing is taken.
    """
    layout, kept, frames, colours = figure.layout, [], [], set()
    for shape in layout.shapes or ():
        ends = _ends(shape, layout) if shape.name == MARK and shape.type == "rect" else None
        if ends is None:
            kept.append(shape)
            continue
        place = {name: shape[name] for name in ("x0", "x1", "y0", "y1", "xref")}
        frames.append(_frame(shape, ends, layout.margin, json.dumps(place)))
        colours.add(shape.line.color)
    if not frames:
        return ""
    left = [s for s in kept if s.type != "path" or s.name != MARK or s.fillcolor not in colours]
    layout.shapes = left or None
    marked = " rows" * (len(left) < len(kept))
    return f'<div class="chosen{marked}" aria-hidden="true">{"".join(frames)}</div>'


def _ends(shape: Any, layout: Any) -> tuple[float, float, float, float] | None:
    """Return where a frame begins and ends, across and from the top, as shares of all cells."""
    across, up = (_along(shape, layout, letter) for letter in "xy")
    if across is None or up is None:
        return None
    return (*across, 1 - up[1], 1 - up[0])


def _along(shape: Any, layout: Any, letter: str) -> tuple[float, float] | None:
    name, _, of = (shape[f"{letter}ref"] or letter).partition(" ")
    axis = layout[f"{letter}axis{name[1:]}"] if name != "paper" else None
    ends = (shape[f"{letter}0"], shape[f"{letter}1"])
    if axis is None or (not of and (axis.range is None or axis.type == "log")):
        return None
    if not of:
        first, last = axis.range
        ends = tuple((end - first) / (last - first) for end in ends)
    low, high = axis.domain or (0, 1)
    start, stop = sorted(low + end * (high - low) for end in ends)
    return start, stop


def _frame(shape: Any, ends: tuple[float, ...], margin: Any, place: str) -> str:
    left, right, top, bottom = ends
    beside, over = margin.l + margin.r, margin.t + margin.b
    return (
        f'<i data-frame="{escape(place)}" style="'
        f"left:calc({margin.l}px + {left:.6g} * (100% - {beside}px));"
        f"width:calc({right - left:.6g} * (100% - {beside}px));"
        f"top:calc({margin.t}px + {top:.6g} * (100% - {over}px));"
        f"height:calc({bottom - top:.6g} * (100% - {over}px));"
        f"outline:{shape.line.width}px solid;outline-offset:{-shape.line.width / 2}px;"
        f'color:{shape.line.color}"></i>'
    )
