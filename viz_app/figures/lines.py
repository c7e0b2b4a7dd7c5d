"""Lines: the trace of each, and the frame of a chart that has its lines to itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    escape_lines,
    escape_plotly,
    new_figure,
)

LEGEND_ABOVE: Properties = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
LEGEND_NAMES: Properties = {"itemclick": False, "itemdoubleclick": False}
"""A legend in which a click on a name hides no line."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def look(place: int, theme: Theme) -> Properties:
    """Return colour and dashes of a line by its place among others.

    The dashes are others when all colours are used up.
    """
    again, colour = divmod(place, len(theme.series))
    return {"colour": theme.series[colour], "dash": DASHES[again % len(DASHES)]}


def line(
    x: ArrayLike,
    y: ArrayLike,
    *,
    colour: str,
    dash: str | None = None,
    width: float | None = None,
    symbol: str | None = None,
    name: str | Sequence[str] = (),
    hover: str = "",
    texts: Sequence[str] | None = None,
    clicks: Sequence[str] | None = None,
    reach: ArrayLike | None = None,
    mode: str = "lines+markers",
    **more: Any,
) -> Properties:
    """Return a trace of a line, with gaps at NaN; marks that can be clicked are larger.

    Args:
        x, y: of each mark, (n,).
        colour, dash, width: of the line; thicker where its marks can be clicked, if not given.
        symbol: of the marks.
        name: in the legend, in one or several lines.
        hover: what is shown when the mouse rests on a mark, as Plotly's template; else nothing.
        texts: what is ``%{text}`` in it, for each mark, as Plotly's markup.
        clicks: what a click on each mark gives.
        reach: how far an interval reaches below and above each value, (2, n).
        mode: lines, markers or both.
        more: further properties of a Plotly trace.
    """
    opaque = None if clicks is None else {"marker": {"opacity": 1}}
    thick, size = (1.5, 5) if clicks is None else (2, 8)
    mark = {"color": colour, "size": size, "symbol": symbol}
    if symbol is not None and symbol.endswith("-open"):
        mark["line"] = {"width": 2}
    trace: Properties = {
        "type": "scatter",
        "x": x,
        "y": np.asarray(y, np.float32),
        "name": escape_lines([name] if isinstance(name, str) else name) or None,
        "mode": mode,
        "line": {"color": colour, "width": width or thick, "dash": dash},
        "marker": mark if "markers" in mode else None,
        "text": texts,
        "customdata": clicks,
        "selected": opaque,
        "unselected": opaque,
        **({"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}),
    }
    if reach is not None:
        below, above = np.asarray(reach, np.float32)
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "arrayminus": below,
            "array": above,
            "color": colour,
            "thickness": 1.2,
            "width": 3,
        }
    return trace | more


def line_chart(
    lines: Sequence[Properties],
    *,
    theme: Theme,
    x: Properties,
    y: Properties,
    margin: Properties,
    height: int = 280,
    legend: Properties | None = None,
    **layout: Any,
) -> go.Figure:
    """Draw lines over one axis.

    Args:
        lines: as ``line`` returns them.
        theme: colours.
        x, y: properties of the axes, whose ``title`` may be a text.
        margin: left and right, and above and below if these are not 8 and 40 pixels.
        height: in pixels.
        legend: where the lines are named, if anywhere.
        layout: further properties of Plotly's layout.
    """
    return new_figure(
        theme,
        lines,
        {
            "height": height,
            "margin": {"t": 8, "b": 40, **margin},
            "showlegend": legend is not None,
            "legend": legend,
            "xaxis": axis(**x),
            "yaxis": axis(showgrid=True, **y),
            **layout,
        },
    )


def axis(*, title: str = "", **more: Any) -> Properties:
    """Return an axis with a title, near to its labels."""
    return {"title": {"text": escape_plotly(title), "standoff": 4}, **more} if title else more
