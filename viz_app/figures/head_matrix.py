"""Draws heads by checkpoints: one measure as cells, and the measures of one head as lines.

Columns are checkpoints, evenly spaced, the first on the left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from headwise.model.interface import Head, Kind
from headwise.viz_app.figures.matrix import colour_bar, masked_cells
from headwise.viz_app.figures.selecting import click_targets, frame, vertical_line
from headwise.viz_app.figures.step_axis import StepColumns, step_ticks
from headwise.viz_app.figures.theme import (
    Properties,
    Scale,
    Theme,
    difference_scale,
    escape_plotly,
    new_figure,
    weight_scale,
)
from headwise.viz_app.records.measures import MeasureRange
from headwise.viz_app.records.trace import Floats

_ROW = 17
"""Pixels of a row."""


@dataclass(frozen=True)
class HeadRows:
    """The rows of the matrix are listed from the top, one for each head, kind by kind."""

    heads: Sequence[Head]
    names: Sequence[str]
    cells: Floats
    """Values (heads, checkpoints), NaN where there is none."""
    words: Sequence[Sequence[str]]
    """What is shown when the mouse rests on each cell."""


def head_matrix(
    rows: HeadRows,
    *,
    steps: Sequence[int],
    kinds: Mapping[Kind, str],
    measured: str,
    values: MeasureRange,
    theme: Theme,
    selected: tuple[Head, int] | None = None,
    width: int = 700,
) -> go.Figure:
    """Draw a measure of each head at each checkpoint, on the range of the measure.

    Trace 0 has the cells, with a row above each kind left empty for its name; trace 1 greys those
    that have no value; the last one has an invisible marker for each cell, whose customdata are
    kind, layer, head from 0, and step.

    Args:
        rows: the heads with their values.
        steps: steps of the checkpoints.
        kinds: their names for people.
        measured: the name of the measure.
        values: whether they are from 0 to 1, of either sign, or from 0 upwards.
        theme: colours.
        selected: head and step of the cell to frame, where it is drawn.
        width: pixels that the figure has at most.

    Raises:
        ValueError: if rows, cells, words and steps do not fit, or there are none.
    """
    expected = (len(rows.heads), len(steps))
    if not rows.cells.size or rows.cells.shape != expected:
        raise ValueError(f"expected {expected} cells, at least one, got {rows.cells.shape}")
    if [len(rows.names), *map(len, rows.words)] != [expected[0], *[expected[1]] * expected[0]]:
        raise ValueError(f"expected names and words for {expected} cells")
    places, tops = _places(rows.heads)
    cells = np.full((places[-1] + 1, len(steps)), np.nan, np.float32)
    cells[places] = rows.cells
    signed = values == "signed"
    limit = 1.0 if values == "share" else _limit(rows.cells)
    empty = np.ones(cells.shape, np.bool_)
    empty[places] = np.isfinite(rows.cells)
    shares = (-1, -0.25, 0, 0.25, 1) if signed else (0, 0.1, 0.25, 0.5, 1)
    ticks = [share * limit for share in shares]
    bar = colour_bar(theme, measured, ticks)
    if values != "share":
        sign = "+" if signed else ""
        bar["ticktext"] = [f"{tick:{sign}.2g}" if tick else "0" for tick in ticks]
    frames = []
    if selected is not None and selected[0] in rows.heads and selected[1] in steps:
        x, y = steps.index(selected[1]), places[list(rows.heads).index(selected[0])]
        frames.append(frame((x - 0.5, x + 0.5), (y - 0.5, y + 0.5), theme=theme))
    names = [
        {
            "text": escape_plotly(kinds[kind]),
            "xref": "x domain",
            "x": 0,
            "y": top,
            "xanchor": "left",
            "xshift": -4,
            "showarrow": False,
            "font": {"color": theme.muted, "size": 12},
        }
        for kind, top in tops.items()
    ]
    return new_figure(
        theme,
        [
            {
                "type": "heatmap",
                "z": cells,
                "zmin": -limit if signed else 0,
                "zmax": limit,
                "colorscale": _signed_scale(theme) if signed else weight_scale(theme),
                "colorbar": bar,
                "hoverinfo": "skip",
                "ygap": 1,
                "xgap": 1,
            },
            masked_cells(empty, theme) | {"xgap": 1, "ygap": 1},
            _markers(rows, places, steps, theme),
        ],
        _layout(rows, places, steps, width) | {"annotations": names, "shapes": frames},
    )


def _places(heads: Sequence[Head]) -> tuple[list[int], dict[Kind, int]]:
    """Return the row of each head, and the row above the first head of each kind."""
    places: list[int] = []
    tops: dict[Kind, int] = {}
    at = 0
    for kind, _, _ in heads:
        if kind not in tops:
            tops[kind] = at
            at += 1
        places.append(at)
        at += 1
    return places, tops


def _limit(cells: Floats) -> float:
    finite = cells[np.isfinite(cells)]
    return float(np.abs(finite).max(initial=0.0)) or 1.0


def _signed_scale(theme: Theme) -> Scale:
    """Return a diverging scale with more colours for small values, as the weights' scale has."""
    ends = [(2 * at - 1, colour) for at, colour in difference_scale(theme)]
    return tuple(((1 + math.copysign(at * at, at)) / 2, colour) for at, colour in ends)


def _markers(
    rows: HeadRows, places: Sequence[int], steps: Sequence[int], theme: Theme
) -> Properties:
    every = [(row, column) for row in range(len(rows.heads)) for column in range(len(steps))]
    markers = click_targets(
        [column for _, column in every],
        [places[row] for row, _ in every],
        values=[",".join(map(str, (*rows.heads[row], steps[column]))) for row, column in every],
        texts=[
            f"{escape_plotly(rows.names[row])}, step {steps[column]:,}<br>"
            f"{escape_plotly(rows.words[row][column])}"
            for row, column in every
        ],
    )
    colours = {"bgcolor": theme.background, "bordercolor": theme.line}
    return markers | {"hoverlabel": colours | {"font": {"color": theme.text}}}


def _layout(rows: HeadRows, places: Sequence[int], steps: Sequence[int], width: int) -> Properties:
    columns = StepColumns.of(steps, width)
    return {
        **columns.layout(top=columns.labels, bottom=8, height=_ROW * (places[-1] + 1)),
        "hoverdistance": -1,
        "hoverlabel": {"align": "left"},
        "xaxis": {"side": "top", **columns.axis},
        "yaxis": {
            "range": [places[-1] + 0.5, -0.5],
            "tickvals": list(places),
            "ticktext": [f"{layer + 1}.{head + 1}" for _, layer, head in rows.heads],
            "ticklabelstandoff": 4,
        },
    }


def measure_lines(
    lines: Mapping[str, Sequence[float]], *, steps: Sequence[int], theme: Theme, marked: int | None
) -> go.Figure:
    """Draw measures of one head, from 0 to 1, by checkpoint: a line each, with gaps at NaN.

    Args:
        lines: name → a value for each checkpoint.
        steps: steps of the checkpoints.
        theme: colours.
        marked: index of a checkpoint to mark.

    Raises:
        ValueError: if values and steps do not fit, or there are more lines than colours.
    """
    if len(lines) > len(theme.series):
        raise ValueError(f"expected at most {len(theme.series)} lines, got {len(lines)}")
    data: list[Properties] = []
    for (name, values), colour in zip(lines.items(), theme.series, strict=False):
        if len(values) != len(steps):
            raise ValueError(f"{name}: expected {len(steps)} values, got {len(values)}")
        data.append(
            {
                "type": "scatter",
                "x": list(range(len(steps))),
                "y": np.asarray(values, np.float32),
                "name": escape_plotly(name),
                "text": [f"step {step:,}" for step in steps],
                "mode": "lines+markers",
                "line": {"color": colour, "width": 1.5},
                "marker": {"size": 5},
                "hovertemplate": f"{escape_plotly(name)}<br>%{{text}}: %{{y:.2f}}<extra></extra>",
            }
        )
    return new_figure(
        theme,
        data,
        {
            "height": 260 + 19 * len(lines),  # the legend may have a line for each
            "margin": {"l": 34, "r": 14, "t": 8, "b": 48},
            "showlegend": True,
            "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
            "shapes": [vertical_line(marked, theme=theme)] if marked is not None else [],
            "xaxis": {
                "range": [-0.3, len(steps) - 0.7],
                "tickangle": -45,
                **step_ticks(steps, max(1, math.ceil(len(steps) / 14))),
            },
            "yaxis": {
                "range": [-0.03, 1.03],
                "tickvals": [0, 0.25, 0.5, 0.75, 1],
                "showgrid": True,
            },
        },
    )
