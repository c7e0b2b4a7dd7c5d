"""How a cell of a heat map is selected: an invisible marker to click, and a frame that shows it.

Plotly's heat maps report no selection to Streamlit, but the markers of a scatter trace do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headwise.viz_app.figures.theme import Properties, Scale, Theme
from headwise.viz_app.records.trace import Floats

MARK = "mark"
"""Name of shapes, and ``meta`` of traces, that a saved picture leaves out: what is selected."""


class Target(NamedTuple):
    """A place that can be clicked, with what a click gives and what is shown to the mouse."""

    x: float
    y: float
    value: str
    text: str
    """Plotly's markup."""


def click_targets(targets: Sequence[Target]) -> Properties:
    """Return a trace of invisible markers; their values are its ``customdata``."""
    invisible = {"marker": {"opacity": 0}}
    return {
        "type": "scatter",
        "x": [target.x for target in targets],
        "y": [target.y for target in targets],
        "customdata": [target.value for target in targets],
        "text": [target.text for target in targets],
        "mode": "markers",
        "marker": {"symbol": "square", "size": 12, "opacity": 0},
        "selected": invisible,
        "unselected": invisible,
        "hovertemplate": "%{text}<extra></extra>",
    }


def selectable_cells(
    values: Floats,
    targets: Sequence[Target],
    *,
    limits: tuple[float, float],
    scale: Scale,
    selected: str,
    theme: Theme,
) -> tuple[Properties, Properties, list[Properties]]:
    """Return a trace of cells, one of their click targets, and frames of the selected value."""
    heat_map = {
        "type": "heatmap",
        "z": values,
        "zmin": limits[0],
        "zmax": limits[1],
        "colorscale": scale,
        "hoverinfo": "skip",
    }
    markers = click_targets(targets)
    frames = [
        frame((x - 0.5, x + 0.5), (y - 0.5, y + 0.5), theme=theme)
        for x, y, value, _ in targets
        if value == selected
    ]
    return heat_map, markers, frames


def frame(
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    theme: Theme,
    width: float = 2.5,
    **place: Any,
) -> Properties:
    """Return a shape: a frame around what is selected, whose line has ``width`` pixels.

    ``place`` are further properties of a Plotly shape, such as the axes that it refers to.
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
    """Return a shape as ``frame``: a line from the bottom to the top of a chart."""
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
