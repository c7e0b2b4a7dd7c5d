"""How a cell of a heat map is selected: an invisible marker to click, and a frame that shows it.

Plotly's heat maps report no selection to Streamlit, but the markers of a scatter trace do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwise.viz_app.figures.theme import Properties, Theme

MARK = "mark"
"""Name of shapes, and ``meta`` of traces, that a saved picture leaves out: what is selected."""


def click_targets(
    x: Sequence[float], y: Sequence[float], *, values: Sequence[str], texts: Sequence[str]
) -> Properties:
    """Return a trace of invisible markers with values that clicks give and texts for the mouse.

    Args:
        x, y: where the markers are.
        values: given back by a click, as ``customdata``.
        texts: shown when the mouse rests there, as Plotly's markup.
    """
    invisible = {"marker": {"opacity": 0}}
    return {
        "type": "scatter",
        "x": x,
        "y": y,
        "customdata": values,
        "text": texts,
        "mode": "markers",
        "marker": {"symbol": "square", "size": 12, "opacity": 0},
        "selected": invisible,
        "unselected": invisible,
        "hovertemplate": "%{text}<extra></extra>",
    }


def frame(
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    theme: Theme,
    width: float = 2.5,
    **place: Any,
) -> Properties:
    """Return a shape: a frame around what is selected.

    Args:
        x, y: where the frame begins and ends.
        theme: colours.
        width: of its line, in pixels.
        place: further properties of a Plotly shape, such as the axes that it refers to.
    """
    return {
        "type": "rect",
        "name": MARK,
        "x0": x[0],
        "x1": x[1],
        "y0": y[0],
        "y1": y[1],
        "line": {"color": theme.accent, "width": width},
        **place,
    }


def vertical_line(x: float, *, theme: Theme, dash: str = "solid", **place: Any) -> Properties:
    """Return a shape: a line from the bottom to the top of a chart, at what is selected.

    Args:
        x: where it is.
        theme: colours.
        dash: how it is dashed, as Plotly names it.
        place: further properties of a Plotly shape, such as the axes that it refers to.
    """
    return {
        "type": "line",
        "name": MARK,
        "x0": x,
        "x1": x,
        "xref": "x",
        "y0": 0,
        "y1": 1,
        "yref": "y domain",
        "line": {"color": theme.accent, "width": 1.5, "dash": dash},
        **place,
    }
