"""Draws single heat maps: attention, the difference of two maps, and other matrices of tokens.

Rows are queries, columns are keys; how cells and labels are drawn is in ``matrix.py``. All raise
ValueError if labels and cells do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from headwise.viz_app.figures import matrix
from headwise.viz_app.figures.theme import (
    ALLOWED,
    Properties,
    Theme,
    by_root,
    difference_scale,
    escape_lines,
    escape_plotly,
    new_figure,
    weight_colour,
    weight_scale,
)
from headwise.viz_app.records.trace import Floats

_MARK = 12  # pixels of the mark left of a row, with what separates it from the label
_SMALLEST_CROSSED = 7.0  # pixels of the smallest cell of a mask in which a cross can be recognised
_LARGEST_OF_MASK, _RIGHT_OF_MASK, _LEAST_WIDTH = 30.0, 12, 200
"""Pixels of a mask's largest cell, right of its cells, and of the whole figure at least."""
_STAGES_WIDTH, _STAGE, _WITH_NUMBER, _LARGEST_STAGE = 900, 28, 36, 56.0
"""Pixels of all, of a row of scores, of the narrowest cell with a number, and of the widest."""


def attention_map(
    weights: Floats,
    *,
    selected: int | None = None,
    column: int | None = None,
    measured: str = "weight",
    query: str = "query",
    **axes: Unpack[matrix.MapAxes],
) -> go.Figure:
    """Draw one attention map on the fixed range 0 to 1.

    Trace 0 is the map at full resolution, (Q, M). With a ``selected`` row, each row has a mark left
    of the map; a ``column`` is framed. The mouse reads what is ``measured``, of which ``query`` and
    key.
    """
    theme, shapes = axes["theme"], []
    hover = f"{query} %{{y}}<br>key %{{x}}<br>{escape_plotly(measured)} %{{z:.3r}}"
    data, layout = matrix.labelled(weights, measured=measured, hover=hover, **axes)
    if selected is not None:
        more = max(0, matrix.label_width(axes["rows"]) + _MARK - layout["margin"]["l"])
        layout["margin"]["l"] += more
        layout["meta"]["readable"] += more
        if layout["width"] is not None:
            layout["width"] += more
        layout["yaxis"]["ticklabelstandoff"] += _MARK
        shapes += [
            row_marks(marked, len(weights), colour)
            for marked, colour in ((range(len(weights)), theme.line), ([selected], theme.accent))
        ]
        framed = (selected - 0.5, selected + 0.5)
        shapes.append(
            matrix.frame((0, 1), framed, theme=theme, width=1.5, xref="x domain", yref="y")
        )
    if column is not None:
        framed = (column - 0.5, column + 0.5)
        shapes.append(matrix.frame(framed, (0, 1), theme=theme, width=1, xref="x", yref="y domain"))
    return new_figure(theme, data, layout | {"shapes": shapes})


def row_marks(rows: Sequence[int], count: int, colour: str) -> Properties:
    """Return a shape: a triangle left of some of ``count`` rows."""
    half = min(0.35, max(0.08, count / 100))  # of a row: some pixels, however high rows are drawn
    path = " ".join(f"M-{_MARK},{row - half} L-3,{row} L-{_MARK},{row + half} Z" for row in rows)
    place = {"xref": "x domain", "xsizemode": "pixel", "xanchor": 0, "yref": "y"}
    filled = {"fillcolor": colour, "line": {"width": 0}}
    return {"type": "path", "name": matrix.MARK, "path": path, **place, **filled}


def difference_map(difference: Floats, **axes: Unpack[matrix.MapAxes]) -> go.Figure:
    """Draw the difference of two attention maps, (Q, M), on the fixed range -1 to 1."""
    hover = "query %{y}<br>key %{x}<br>difference %{z:+.3r}"
    drawn = matrix.labelled(difference, measured="difference", hover=hover, signed=True, **axes)
    return new_figure(axes["theme"], *drawn)


def share_map(
    shares: Floats,
    *,
    names: NDArray[np.str_],
    hover: NDArray[np.str_],
    selected: str = "",
    **axes: Unpack[matrix.MapAxes],
) -> go.Figure:
    """Draw restored shares, (rows, columns), on the fixed range -1 to 1; NaN is drawn apart.

    A share is 0 where a patch changes nothing, 1 where it brings B's answer back; one beyond the
    range has the colour of its end. The last trace has an invisible marker for each share, whose
    customdata is its name; the ``selected`` one is framed. ``hover`` is read there, in lines.
    """
    theme, there = axes["theme"], np.isfinite(shares)
    axes["allowed"] = there
    cells = np.where(there, shares, 0)
    data, layout = matrix.labelled(cells, measured="restored share", hover="", signed=True, **axes)
    data[0] |= {"xgap": 1, "ygap": 1}
    targets = [
        matrix.Target(x, y, str(names[y, x]), escape_lines(str(hover[y, x]).split("\n")))
        for y, x in np.argwhere(there).tolist()
    ]
    frames = [
        matrix.frame((x - 0.5, x + 0.5), (y - 0.5, y + 0.5), theme=theme)
        for x, y, name, _ in targets
        if name == selected
    ]
    layout |= {"hoverdistance": -1, "shapes": frames}
    return new_figure(theme, [*data, matrix.click_targets(targets)], layout)


def ratio_map(
    ratios: Floats, dimensions: NDArray[np.int64], **axes: Unpack[matrix.MapAxes]
) -> go.Figure:
    """Draw the largest numbers of a stream over the median of their layer, (L + 1, n).

    The scale goes from 0 to the largest ratio. Where the mouse rests, the dimension is said.
    """
    limit = float(np.nanmax(ratios, initial=1.0))
    hover = "%{y}<br>%{x}<br>largest |x|: %{z:.1f} times the median, in dimension %{customdata}"
    [cells], layout = matrix.labelled(ratios, measured="ratio", hover=hover, **axes)
    bar = matrix.colour_bar(axes["theme"], by_root("ratio"), [0, int(limit / 4), int(limit)])
    cells |= {"zmax": limit, "customdata": dimensions + 1, "colorbar": bar}
    return new_figure(axes["theme"], [cells], layout)


def similarity_map(
    similarity: Floats, *, labels: Sequence[str], theme: Theme, width: int = 640
) -> go.Figure:
    """Draw cosine similarities of tokens, (n, n), on the fixed range -1 to 1."""
    axes = matrix.MapAxes(
        rows=labels, columns=labels, row_title="", column_title="", theme=theme, width=width
    )
    hover = "%{y}<br>%{x}<br>cosine %{z:.3r}"
    drawn = matrix.labelled(similarity, measured="cosine", hover=hover, signed=True, **axes)
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
    axes = matrix.MapAxes(
        rows=rows,
        columns=columns,
        row_title=titles[0],
        column_title=titles[1],
        theme=theme,
        allowed=allowed,
        width=width,
    )
    hover = "query %{y}<br>key %{x}<br>%{z} (1: may attend, 0: masked)"
    data, layout = matrix.labelled(allowed.astype(np.float32), measured="", hover=hover, **axes)
    margin = layout["margin"]
    cell = min(_LARGEST_OF_MASK, (width - margin["l"] - _RIGHT_OF_MASK) / len(columns))
    crossed = cell >= _SMALLEST_CROSSED
    scale = ((0, weight_colour(theme, ALLOWED)), (1, weight_colour(theme, ALLOWED)))
    gap = int(crossed)
    data[0] |= {"colorscale": scale, "showscale": False, "xgap": gap, "ygap": gap}
    margin["r"] = max(_RIGHT_OF_MASK, _LEAST_WIDTH - margin["l"] - cell * len(columns))
    layout["width"] = round(margin["l"] + cell * len(columns) + margin["r"])
    layout["height"] = round(margin["t"] + cell * len(rows) + margin["b"])
    layout["xaxis"] |= matrix.token_axis(columns, cell)
    layout["yaxis"] |= matrix.token_axis(rows, cell)
    if crossed and not allowed.all():
        y, x = np.nonzero(~allowed)
        cross = {"symbol": "x-thin", "size": min(8, cell * 0.5)}
        cross |= {"line": {"color": theme.muted, "width": 1}}
        places = {"x": x, "y": y, "mode": "markers", "marker": cross, "hoverinfo": "skip"}
        data.append({"type": "scatter", **places})
    return new_figure(theme, data, layout)


def vector_map(
    vectors: NDArray[np.floating],
    *,
    labels: Sequence[str],
    limit: float,
    theme: Theme,
    apart: tuple[int, float] | None = None,
    room: float = 420,
) -> go.Figure:
    """Draw vectors (n, D) as rows, on the range -limit to limit; columns are dimensions.

    ``apart`` is a row that has a limit of its own, drawn over it by trace 1, and that limit. Rows
    take about as many pixels as there is ``room``.
    """
    scale, hover = difference_scale(theme), "%{y}<br>dimension %{x}<br>%{z:.3r}"
    z, bar = vectors.astype(np.float32), matrix.colour_bar(theme, "value")
    data = [matrix.heat_map(z, (-limit, limit), scale, hover=hover, colorbar=bar)]
    if apart is not None:
        row, own = apart
        alone = {"y": [row], "showscale": False}
        data.append(matrix.heat_map(z[[row]], (-own, own), scale, hover=hover, **alone))
    pixels = matrix.row_pixels(len(labels), room=room, most=22)
    layout = {
        "height": round(46 + pixels * len(labels)),
        "margin": {"l": matrix.label_width(labels), "r": matrix.COLOUR_BAR, "t": 6, "b": 40},
        "xaxis": {
            "title": {"text": "dimension", "standoff": 4},
            # Where only the options of a chart change, Plotly does not find it again by itself.
            "range": [-0.5, vectors.shape[1] - 0.5],
        },
        "yaxis": matrix.row_axis(labels, pixels),
    }
    return new_figure(theme, data, layout)


def encoding_map(encoded: Floats, *, used: int, theme: Theme, limit: float = 1.0) -> go.Figure:
    """Draw positional encodings as ``vector_map``, with a line after the first ``used`` of them."""
    positions = [str(position) for position in range(len(encoded))]
    figure = vector_map(encoded, labels=positions, limit=limit, theme=theme)
    cells, layout = figure.data[0], figure.layout
    cells.hovertemplate = f"pos {cells.hovertemplate}"
    layout.margin.l = 52
    # Rows may be lower than a label: only some have one.
    layout.height = round(46 + min(22.0, max(4.0, 200 / len(positions))) * len(positions))
    # Fewer labels than fit: of numbers, steps of 5 or 10 are read at a glance.
    every = 5 if len(positions) < 80 else 10
    layout.yaxis.update(title={"text": "pos", "standoff": 4}, dtick=every)
    if used < len(encoded):
        place = {"xref": "x domain", "yref": "y", "x0": 0, "x1": 1}
        height = {"y0": used - 0.5, "y1": used - 0.5}
        line = {"color": theme.accent, "width": 1.5}
        layout.shapes = [{"type": "line", **place, **height, "line": line}]
    return figure


def score_stages(
    scores: Sequence[ArrayLike],
    weights: ArrayLike,
    *,
    allowed: NDArray[np.bool_],
    columns: Sequence[str],
    names: Sequence[str],
    theme: Theme,
    selected: int | None = None,
) -> go.Figure:
    """Draw how q·k becomes a weight for one query: rows of M scores, masked, and the weights.

    Scores are given at each stage, from products to those that are masked, (M,); ``names`` are
    those of all rows. Trace 0 has all but the weights on one diverging scale, so that a division
    makes them paler; trace 1 has the weights, on 0 to 1; the last trace covers the keys that are
    not ``allowed``. Wide cells have numbers; in fewer pixels than ``readable``, in ``meta``, these
    or the labels would touch. A ``selected`` key is framed.
    """
    made = [np.asarray(stage, np.float32) for stage in scores]
    stages = np.stack([*made, np.where(allowed, made[-1], np.nan)])
    rows, weights = len(stages), np.asarray(weights, np.float32)
    limit = float(np.abs(stages[:-1]).max()) or 1.0
    left, top = matrix.label_width(names), matrix.label_width(columns)
    cell = min(_LARGEST_STAGE, max(1.0, (_STAGES_WIDTH - left - 12) / len(columns)))
    given: Properties = {
        "hover": "%{y}<br>key %{x}<br>%{z:.3r}",
        "xgap": 1,
        "ygap": 3,
        "showscale": False,
    }
    readable = left + matrix.labels_width(columns, cell) + 12
    if cell >= _WITH_NUMBER:
        given |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 11}}
        readable = left + _WITH_NUMBER * len(columns) + 12
    data: list[Properties] = [
        matrix.heat_map(
            stages, (-limit, limit), difference_scale(theme), y=list(range(rows)), **given
        ),
        matrix.heat_map(weights[None], (0, 1), weight_scale(theme), y=[rows], **given),
    ]
    if not allowed.all():
        both = np.broadcast_to(allowed, (2, len(allowed)))
        data.append(
            matrix.masked_cells(both, theme) | {"y": [rows - 1, rows], "xgap": 1, "ygap": 3}
        )
    frames = []
    if selected is not None:
        framed = (selected - 0.5, selected + 0.5)
        frames.append(matrix.frame(framed, (-0.5, rows + 0.5), theme=theme, width=2))
    layout = {
        "height": round(top + (rows + 1) * _STAGE + 10),
        "width": round(left + cell * len(columns) + 12) if cell == _LARGEST_STAGE else None,
        "margin": {"l": left, "r": 12, "t": top, "b": 10},
        "meta": {"readable": readable},
        "xaxis": matrix.key_axis(columns, cell),
        "yaxis": {**matrix.row_axis(names, _STAGE), "range": [rows + 0.5, -0.5]},
        "shapes": frames,
    }
    return new_figure(theme, data, layout)
