"""Draws the table of a score: parts of the query by parts of the key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.matrix import LARGEST_CELL, Target, click_targets, colour_bar, matrix
from headwise.viz_app.figures.theme import Theme, escape_plotly, new_figure


def score_map(
    cells: NDArray[np.float64],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    limit: float,
    theme: Theme,
) -> go.Figure:
    """Draw what parts of a query, (rows), make with parts of a key, (columns).

    Trace 0 has the cells, with their numbers where there is room; a click on one, by the last
    trace, gives "row,column", counted from 0. ValueError if labels and cells do not fit.

    Args:
        cells: (rows, columns), in the unit of scores.
        rows, columns: labels of the parts.
        titles: of the rows and of the columns.
        limit: magnitude at both ends of the scale; what is beyond has the colour of the end.
        theme: colours.
    """
    [heat_map], layout = matrix(
        (cells / limit).astype(np.float32),
        measured="score",
        hover="",
        signed=True,
        rows=rows,
        columns=columns,
        row_title=titles[0],
        column_title=titles[1],
        theme=theme,
        width=640,
    )
    heat_map |= {
        "z": cells.astype(np.float32),
        "zmin": -limit,
        "zmax": limit,
        "colorbar": colour_bar(theme, "score"),
        "hovertemplate": None,
        "hoverinfo": "skip",
    }
    if layout["width"] is not None:  # cells are LARGEST_CELL wide
        heat_map |= {"texttemplate": "%{z:.2f}", "textfont": {"size": round(LARGEST_CELL / 4)}}
        layout["meta"]["readable"] = layout["width"]
    targets = [
        Target(
            x,
            y,
            f"{y},{x}",
            f"{escape_plotly(rows[y])} × {escape_plotly(columns[x])}: {cells[y, x]:+.3g}",
        )
        for y, x in np.ndindex(*cells.shape)
    ]
    layout |= {"hoverdistance": -1}
    return new_figure(theme, [heat_map, click_targets(targets)], layout)
