"""Draws what parts add: to a word, as a waterfall or by head and token, and to a score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headwise.viz_app.figures import matrix
from headwise.viz_app.figures.bars import signed_colours
from headwise.viz_app.figures.theme import Theme, difference_scale, escape_plotly, new_figure, note

_ROW, _COLUMN = 22, 40  # pixels of a row of cells, and of a column at most


def waterfall(labels: Sequence[str], values: Sequence[float], *, theme: Theme) -> go.Figure:
    """Draw parts one after another, each from where the sum before it ends, and the sum."""
    ends = np.cumsum([0.0, *values])
    heights = [*values, float(ends[-1])]
    bases = [*ends[:-1], 0.0]
    names = [*labels, "Difference"]
    colours = [*signed_colours(values, theme), theme.accent]
    tops = [max(base, base + height) for base, height in zip(bases, heights, strict=True)]
    span = float(np.ptp([0.0, *ends])) or 1.0
    zero = {"type": "line", "x0": 0, "x1": 1, "xref": "x domain", "y0": 0, "y1": 0}
    return new_figure(
        theme,
        [
            {
                "type": "bar",
                "x": list(range(len(names))),
                "y": np.asarray(heights, dtype=np.float32),
                "base": np.asarray(bases, dtype=np.float32),
                "marker": {"color": colours},
                "hovertext": [
                    f"{escape_plotly(name)}: {height:+.3g}"
                    for name, height in zip(names, heights, strict=True)
                ],
                "hovertemplate": "%{hovertext}<extra></extra>",
            },
            {
                "type": "scatter",
                "x": list(range(len(names))),
                "y": np.asarray(tops, dtype=np.float32),
                "mode": "text",
                "text": [f"{height:+.2f}" for height in heights],
                "textposition": "top center",
                "textfont": {"color": theme.muted, "size": 11},
                "hoverinfo": "skip",
                "cliponaxis": False,
            },
        ],
        {
            "height": 330,
            "meta": {"width": 120 + _COLUMN * len(names), "readable": 80 + 36 * len(names)},
            "margin": {"l": 40, "r": 8, "t": 24, "b": 96},
            "bargap": 0.25,
            "shapes": [zero | {"line": {"color": theme.line, "width": 1}}],
            "xaxis": {
                "tickvals": list(range(len(names))),
                "ticktext": [escape_plotly(name[:24]) for name in names],
                "tickangle": -55,
                "range": [-0.6, len(names) - 0.4],
            },
            "yaxis": {
                "range": [min(0.0, ends.min()) - 0.06 * span, max(0.0, ends.max()) + 0.12 * span]
            },
        },
    )


def heads_map(
    cells: NDArray[np.float64],
    *,
    columns: Sequence[str],
    column_title: str,
    limit: float,
    theme: Theme,
    column: int | None = None,
    cell: tuple[int, int] | None = None,
) -> go.Figure:
    """Draw heads by the token that they read, (L, H, M), with sums at both margins.

    The sums stand after an empty row and column; rows are called layer.head. A click on a cell
    gives "row,column", on the sum of a row "row," and on that of a column ",column". ``limit`` is
    the magnitude at both ends of the scale: sums beyond it have the colour of the end. A token is
    marked by its ``column``, a ``cell`` by row and column. ValueError if labels and cells do not
    fit.
    """
    layers, heads, keys = cells.shape
    if keys != len(columns):
        raise ValueError(f"expected {len(columns)} columns, got {keys}")
    cells = cells.reshape(-1, keys)
    rows = [f"{layer + 1}.{head + 1}" for layer, head in np.ndindex(layers, heads)]
    names, tokens = [*rows, "", "sum"], [*columns, "", "sum"]
    drawn = np.full((len(names), len(tokens)), np.nan)
    drawn[:-2, :-2], drawn[-1, :-2] = cells, cells.sum(0)
    drawn[:-2, -1], drawn[-1, -1] = cells.sum(1), cells.sum()
    left, top = matrix.label_width([*names, "layer.head"]), matrix.label_width(tokens) + 22
    width = min(float(_COLUMN), max(14.0, 700 / len(tokens)))

    def value(y: int, x: int) -> str:
        of_row, of_column = y < len(rows), x < len(columns)
        return f"{y if of_row else ''},{x if of_column else ''}"

    heat_map, markers, shapes = matrix.selectable_cells(
        drawn.astype(np.float32),
        [
            matrix.Target(
                x,
                y,
                value(y, x),
                f"{escape_plotly(names[y])} · {escape_plotly(tokens[x])}: {drawn[y, x]:+.3g}",
            )
            for y, x in np.ndindex(*drawn.shape)
            if not np.isnan(drawn[y, x])
        ],
        limits=(-limit, limit),
        scale=difference_scale(theme),
        selected="" if cell is None else value(*cell),
        theme=theme,
    )
    heat_map["colorbar"] = matrix.colour_bar(theme, "logits")
    corner = {"xref": "x domain", "yref": "paper", "x": 0, "y": 1}
    corner |= {"xanchor": "left", "yanchor": "top"}
    if column is not None:
        ends = (-0.5, len(names) - 0.5)
        shapes.append(matrix.frame((column - 0.5, column + 0.5), ends, theme=theme, width=1.5))
    return new_figure(
        theme,
        [heat_map, markers],
        {
            "height": round(top + _ROW * len(names) + 10),
            "width": round(left + width * len(tokens) + matrix.COLOUR_BAR),
            "meta": {"readable": left + matrix.COLOUR_BAR + matrix.labels_width(tokens, width)},
            "margin": {"l": left, "r": matrix.COLOUR_BAR, "t": top, "b": 10},
            "hoverdistance": -1,
            "shapes": shapes,
            "xaxis": matrix.key_axis(tokens, width),
            "yaxis": matrix.row_axis(names, _ROW),
            "annotations": [note(escape_plotly(column_title), theme, **corner, yshift=top)],
        },
    )


def score_map(
    cells: NDArray[np.float64],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    titles: tuple[str, str],
    limit: float,
    theme: Theme,
) -> go.Figure:
    """Draw what parts of a query, (rows), make with parts of a key, (columns), in the unit of
    scores.

    Trace 0 has the cells, with their numbers where there is room; a click on one, by the last
    trace, gives "row,column", counted from 0. ``limit`` is the magnitude at both ends of the scale.
    ValueError if labels and cells do not fit.
    """
    [heat_map], layout = matrix.labelled(
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
    heat_map |= {"z": cells.astype(np.float32), "zmin": -limit, "zmax": limit}
    heat_map["colorbar"] = matrix.colour_bar(theme, "score")
    if layout["width"] is not None:  # cells are LARGEST_CELL wide
        heat_map |= {
            "texttemplate": "%{z:.2f}",
            "textfont": {"size": round(matrix.LARGEST_CELL / 4)},
        }
        layout["meta"]["readable"] = layout["width"]
    targets = [
        matrix.Target(
            x,
            y,
            f"{y},{x}",
            f"{escape_plotly(rows[y])} × {escape_plotly(columns[x])}: {cells[y, x]:+.3g}",
        )
        for y, x in np.ndindex(*cells.shape)
    ]
    layout |= {"hoverdistance": -1}
    return new_figure(theme, [heat_map, matrix.click_targets(targets)], layout)
