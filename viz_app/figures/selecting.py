"""How a cell of a heat map is selected: an invisible marker to click, and a frame that shows it.

Plotly's heat maps report no selection to Streamlit, but the markers of a scatter trace do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from viz_app.figures.theme import Theme

MARK = "mark"
"""Name of shapes, and ``meta`` of traces, that a saved picture leaves out: what is selected."""


def click_targets(
    x: Sequence[float], y: Sequence[float], *, values: Sequence[str], texts: Sequence[str]
) -> go.Scatter:
    """Return invisible markers, each with a value that a click gives and a text for the mouse.

    Args:
        x, y: where the markers are.
        values: given back by a click, as ``customdata``.
        texts: shown when the mouse rests there, as Plotly's markup.
    """
    invisible = {"marker": {"opacity": 0}}
    return go.Scatter(
        x=x,
        y=y,
        customdata=values,
        text=texts,
        mode="markers",
        marker={"symbol": "square", "size": 12, "opacity": 0},
        selected=invisible,
        unselected=invisible,
        hovertemplate="%{text}<extra></extra>",
    )


def add_frame(
    figure: go.Figure,
    x: tuple[float, float],
    y: tuple[float, float],
    *,
    theme: Theme,
    width: float = 2.5,
    **place: Any,
) -> None:
    """Draw a frame around what is selected.

    Args:
        figure: is changed.
        x, y: where the frame begins and ends.
        theme: colours.
        width: of its line, in pixels.
        place: further properties of a Plotly shape, such as the axes that it refers to.
    """
    figure.add_shape(
        type="rect",
        name=MARK,
        x0=x[0],
        x1=x[1],
        y0=y[0],
        y1=y[1],
        line={"color": theme.accent, "width": width},
        **place,
    )
