"""Draws single heat maps: an attention map, the difference of two, and other token matrices.

Rows are queries, columns are keys; how cells and labels are drawn is in ``matrix.py``. All raise
ValueError if labels and cells do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures.matrix import (
    COLOUR_BAR,
    LARGEST_CELL,
    MapAxes,
    colour_bar,
    label_width,
    matrix,
    row_pixels,
    token_axis,
)
from headwise.viz_app.figures.selecting import MARK, Target, click_targets, frame
from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    by_root,
    difference_scale,
    escape_lines,
    escape_plotly,
    new_figure,
    weight_colour,
)
from headwise.viz_app.figures.tokens import ALLOWED
from headwise.viz_app.records.trace import Floats

_SMALLEST_CROSSED = 7.0
"""Pixels of the smallest cell of a mask in which a cross can be recognised."""
_LARGEST_OF_MASK, _RIGHT_OF_MASK, _LEAST_WIDTH = 30.0, 12, 200
"""Pixels of a mask's largest cell, right of its cells, and of the whole figure at least."""


def attention_map(
    weights: Floats,
    *,
    selected: int | None = None,
    column: int | None = None,
    measured: str = "weight",
    **axes: Unpack[MapAxes],
) -> go.Figure:
    """Draw one attention map on the fixed range 0 to 1.

    Trace 0 is the map at full resolution, (Q, M). With a ``selected`` row, the last trace has one
    marker for each row, left of the map; a ``column`` is framed.
    """
    theme = axes["theme"]
    hover = f"query %{{y}}<br>key %{{x}}<br>{escape_plotly(measured)} %{{z:.4f}}"
    data, layout = matrix(weights, measured=measured, hover=hover, **axes)
    shapes = []
    if selected is not None:
        n_rows, n_columns = weights.shape
        # About as wide as a triangle, whether cells have their full width or fill the page's.
        share = 12 / (12 + min(LARGEST_CELL * n_columns, 400))
        row = (layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]) / n_rows
        data.append(_row_markers(n_rows, selected, size=min(9, max(2, row - 1)), theme=theme))
        layout["xaxis"]["domain"] = [share, 1]
        layout["xaxis2"] = {"domain": [0, share], "range": [0, 1], "visible": False}
        layout["yaxis"] |= {"anchor": "free", "position": 0}
        framed = (selected - 0.5, selected + 0.5)
        shapes.append(frame((0, 1), framed, theme=theme, width=1.5, xref="x domain", yref="y"))
    if column is not None:
        framed = (column - 0.5, column + 0.5)
        shapes.append(frame(framed, (0, 1), theme=theme, width=1, xref="x", yref="y domain"))
    return new_figure(theme, data, layout | {"shapes": shapes})


def _row_markers(number: int, selected: int, *, size: float, theme: Theme) -> Properties:
    """Return a trace of triangles left of a map; that of the selected row has the accent colour."""
    return {
        "type": "scatter",
        "x": [0.5] * number,
        "y": list(range(number)),
        "xaxis": "x2",
        "mode": "markers",
        "meta": MARK,
        "marker": {
            "symbol": "triangle-right",
            "size": size,
            "color": [theme.accent if i == selected else theme.line for i in range(number)],
        },
        "hovertemplate": "choose this row<extra></extra>",
    }


def difference_map(difference: Floats, **axes: Unpack[MapAxes]) -> go.Figure:
    """Draw the difference of two attention maps, (Q, M), on the fixed range -1 to 1."""
    hover = "query %{y}<br>key %{x}<br>difference %{z:+.4f}"
    drawn = matrix(difference, measured="difference", hover=hover, signed=True, **axes)
    return new_figure(axes["theme"], *drawn)


def share_map(
    shares: Floats,
    *,
    names: NDArray[np.str_],
    hover: NDArray[np.str_],
    selected: str = "",
    **axes: Unpack[MapAxes],
) -> go.Figure:
    """Draw restored shares, (rows, columns), on the fixed range -1 to 1; NaN is drawn apart.

    A share beyond the range has the colour of its end. The last trace has an invisible marker for
    each share, whose customdata is its name.

    Args:
        shares: 0 where a patch changes nothing, 1 where it brings B's answer back.
        names: of the cells.
        hover: what is shown of each cell when the mouse rests on it, in lines.
        selected: the name of the cell to frame.
        axes: of the map; cells that are not ``allowed`` are those without a share.
    """
    theme, there = axes["theme"], np.isfinite(shares)
    axes["allowed"] = there
    cells = np.where(there, shares, 0)
    [heat_map, *masked], layout = matrix(
        cells, measured="restored share", hover="", signed=True, **axes
    )
    heat_map |= {"hovertemplate": None, "hoverinfo": "skip", "xgap": 1, "ygap": 1}
    targets = [
        Target(x, y, str(names[y, x]), escape_lines(str(hover[y, x]).split("\n")))
        for y, x in np.argwhere(there).tolist()
    ]
    frames = [
        frame((x - 0.5, x + 0.5), (y - 0.5, y + 0.5), theme=theme)
        for x, y, name, _ in targets
        if name == selected
    ]
    layout |= {"hoverdistance": -1, "shapes": frames}
    return new_figure(theme, [heat_map, *masked, click_targets(targets)], layout)


def ratio_map(ratios: Floats, dimensions: NDArray[np.int64], **axes: Unpack[MapAxes]) -> go.Figure:
    """Draw the largest numbers of a stream over the median of their layer, (L + 1, n).

    The scale goes from 0 to the largest ratio. Where the mouse rests, the dimension is said.
    """
    limit = float(np.nanmax(ratios, initial=1.0))
    hover = "%{y}<br>%{x}<br>largest |x|: %{z:.1f} times the median, in dimension %{customdata}"
    [heat_map], layout = matrix(ratios / limit, measured="times", hover=hover, **axes)
    name = by_root("ratio")
    heat_map |= {"z": ratios.astype(np.float32), "zmax": limit, "customdata": dimensions + 1}
    heat_map["colorbar"] = colour_bar(axes["theme"], name, [0, int(limit / 4), int(limit)])
    return new_figure(axes["theme"], [heat_map], layout)


def head_rows(
    weights: Floats,
    *,
    heads: Sequence[str],
    columns: Sequence[str],
    column_title: str,
    theme: Theme,
    width: int = 480,
) -> go.Figure:
    """Draw one row of every head's map: weights (heads, M) on the fixed range 0 to 1."""
    drawn = matrix(
        weights,
        measured="weight",
        hover="head %{y}<br>key %{x}<br>weight %{z:.4f}",
        rows=heads,
        columns=columns,
        row_title="layer.head",
        column_title=column_title,
        theme=theme,
        width=width,
    )
    return new_figure(theme, *drawn)


def similarity_map(
    similarity: Floats, *, labels: Sequence[str], theme: Theme, width: int = 640
) -> go.Figure:
    """Draw cosine similarities of tokens, (n, n), on the fixed range -1 to 1."""
    drawn = matrix(
        similarity,
        measured="cosine",
        hover="%{y}<br>%{x}<br>cosine %{z:.3f}",
        signed=True,
        rows=labels,
        columns=labels,
        row_title="",
        column_title="",
        theme=theme,
        width=width,
    )
    return new_figure(theme, *drawn)


def mask_map(
    allowed: NDArray[np.bool_],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    theme: Theme,
    width: int = 640,
) -> go.Figure:
    """Draw a mask, bool (Q, M): allowed cells in one colour, masked ones grey, crossed if large.

    Cells are square. Trace 0 is the mask, 1 = may attend; the last trace has the crosses.
    """
    data, layout = matrix(
        allowed.astype(np.float32),
        measured="",
        hover="query %{y}<br>key %{x}<br>%{z} (1: may attend, 0: masked)",
        rows=rows,
        columns=columns,
        row_title=titles[0],
        column_title=titles[1],
        theme=theme,
        allowed=allowed,
        width=width,
    )
    colour = weight_colour(theme, ALLOWED)
    margin = layout["margin"]
    cell = min(_LARGEST_OF_MASK, (width - margin["l"] - _RIGHT_OF_MASK) / len(columns))
    crossed = cell >= _SMALLEST_CROSSED
    data[0] |= {
        "colorscale": ((0, colour), (1, colour)),
        "showscale": False,
        "xgap": int(crossed),
        "ygap": int(crossed),
    }
    margin["r"] = max(_RIGHT_OF_MASK, _LEAST_WIDTH - margin["l"] - cell * len(columns))
    layout["width"] = round(margin["l"] + cell * len(columns) + margin["r"])
    layout["height"] = round(margin["t"] + cell * len(rows) + margin["b"])
    layout["xaxis"] |= token_axis(columns, cell)
    layout["yaxis"] |= token_axis(rows, cell)
    if crossed and not allowed.all():
        y, x = np.nonzero(~allowed)
        cross = {"symbol": "x-thin", "size": min(8, cell * 0.5)}
        cross |= {"line": {"color": theme.muted, "width": 1}}
        data.append(
            {
                "type": "scatter",
                "x": x,
                "y": y,
                "mode": "markers",
                "marker": cross,
                "hoverinfo": "skip",
            }
        )
    return new_figure(theme, data, layout)


def vector_map(
    vectors: NDArray[np.floating],
    *,
    labels: Sequence[str],
    limit: float,
    theme: Theme,
    apart: tuple[int, float] | None = None,
) -> go.Figure:
    """Draw vectors (n, D) as rows, on the range -limit to limit; columns are dimensions.

    ``apart`` is a row that has a limit of its own, drawn over it by trace 1, and that limit.

    Raises:
        ValueError: if there are not as many labels as vectors.
    """
    if len(labels) != len(vectors):
        raise ValueError(f"expected {len(vectors)} labels, got {len(labels)}")
    [cells], layout = _vectors(vectors, labels, limit=limit, theme=theme)
    data = [cells]
    if apart is not None:
        row, own_limit = apart
        own = {"z": vectors[[row]].astype(np.float32), "y": [row], "showscale": False}
        data.append(cells | own | {"zmin": -own_limit, "zmax": own_limit})
        data[-1].pop("colorbar")
    return new_figure(theme, data, layout)


def encoding_map(encoded: Floats, *, used: int, theme: Theme, limit: float = 1.0) -> go.Figure:
    """Draw positional encodings as ``vector_map``, with a line after the first ``used`` of them."""
    positions = [str(position) for position in range(len(encoded))]
    [cells], layout = _vectors(encoded, positions, limit=limit, theme=theme)
    cells["hovertemplate"] = f"pos {cells['hovertemplate']}"
    layout["margin"]["l"] = 52
    # Fewer labels than fit: of numbers, steps of 5 or 10 are read at a glance.
    every = 5 if len(positions) < 80 else 10
    layout["yaxis"] |= {"title": {"text": "pos", "standoff": 4}, "dtick": every}
    end = {
        "type": "line",
        "xref": "x domain",
        "yref": "y",
        "x0": 0,
        "x1": 1,
        "y0": used - 0.5,
        "y1": used - 0.5,
        "line": {"color": theme.accent, "width": 1.5},
    }
    return new_figure(theme, [cells], layout | {"shapes": [end] * (used < len(encoded))})


def _vectors(
    vectors: NDArray[np.floating], labels: Sequence[str], *, limit: float, theme: Theme
) -> tuple[list[Properties], Properties]:
    row = row_pixels(len(labels), room=420, most=22)
    cells = {
        "type": "heatmap",
        "z": vectors.astype(np.float32),
        "zmin": -limit,
        "zmax": limit,
        "colorscale": difference_scale(theme),
        "colorbar": colour_bar(theme, "value"),
        "hovertemplate": "%{y}<br>dimension %{x}<br>%{z:.3f}<extra></extra>",
    }
    layout = {
        "height": round(46 + row * len(labels)),
        "margin": {"l": label_width(labels), "r": COLOUR_BAR, "t": 6, "b": 40},
        "xaxis": {
            "title": {"text": "dimension", "standoff": 4},
            # Where only the options of a chart change, Plotly does not find it again by itself.
            "range": [-0.5, vectors.shape[1] - 0.5],
        },
        "yaxis": {"range": [len(labels) - 0.5, -0.5], **token_axis(labels, row)},
    }
    return [cells], layout
