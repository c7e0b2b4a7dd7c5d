"""Heads by checkpoints: one measure as cells, and the measures of one head as lines.

Columns are checkpoints, evenly spaced, the first on the left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz_app.figures.matrix import colour_bar, masked_cells
from viz_app.figures.theme import (
    Scale,
    Theme,
    difference_scale,
    literal,
    new_figure,
    weight_scale,
)
from viz_app.records import Floats, Head, Kind

_ROW, _LARGEST_CELL, _STEP_LETTER = 17, 62, 6.6
"""Pixels."""


@dataclass(frozen=True)
class Rows:
    """Heads from the top, those of a kind together: their names and values (heads, checkpoints)."""

    heads: Sequence[Head]
    names: Sequence[str]
    cells: Floats
    """NaN where there is no value."""
    words: Sequence[Sequence[str]]
    """What each cell says."""


def head_matrix(
    rows: Rows,
    *,
    steps: Sequence[int],
    kinds: Mapping[Kind, str],
    signed: bool,
    theme: Theme,
    selected: tuple[Head, int] | None = None,
    width: int = 700,
) -> go.Figure:
    """Cells on the fixed range 0 to 1, or symmetric about 0 where ``signed``.

    Trace 0 has the cells, with a row above each kind left empty for its name; trace 1 greys those
    that have no value; the last one has an invisible marker a cell, whose customdata are kind,
    layer, head from 0, and step.

    Args:
        rows: what is drawn.
        steps: of the checkpoints.
        kinds: their names for people.
        signed: whether values may be below zero.
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
    limit = _limit(rows.cells) if signed else 1.0
    empty = np.ones(cells.shape, np.bool_)
    empty[places] = np.isfinite(rows.cells)
    figure = new_figure(theme)
    ticks = [-limit, -limit / 4, 0, limit / 4, limit] if signed else [0, 0.1, 0.25, 0.5, 1]
    figure.add_trace(
        go.Heatmap(
            z=cells,
            zmin=-limit if signed else 0,
            zmax=limit,
            colorscale=_signed_scale(theme) if signed else weight_scale(theme),
            colorbar=colour_bar(theme, ticks)
            | ({"ticktext": [f"{tick:+.2g}" if tick else "0" for tick in ticks]} if signed else {}),
            hoverinfo="skip",
            ygap=1,
            xgap=1,
        )
    )
    grey = masked_cells(empty, theme)
    grey.update(xgap=1, ygap=1)
    figure.add_trace(grey)
    figure.add_trace(_markers(rows, places, steps, theme))
    _lay_out(figure, rows, places, steps, width)
    for kind, top in tops.items():
        figure.add_annotation(
            text=literal(kinds[kind]),
            xref="x domain",
            x=0,
            y=top,
            xanchor="left",
            xshift=-4,
            showarrow=False,
            font={"color": theme.muted, "size": 12},
        )
    if selected is not None and selected[0] in rows.heads and selected[1] in steps:
        x, y = steps.index(selected[1]), places[list(rows.heads).index(selected[0])]
        figure.add_shape(
            type="rect",
            x0=x - 0.5,
            x1=x + 0.5,
            y0=y - 0.5,
            y1=y + 0.5,
            line={"color": theme.accent, "width": 2.5},
        )
    return figure


def _places(heads: Sequence[Head]) -> tuple[list[int], dict[Kind, int]]:
    """The row of each head, and that above the first of each kind."""
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
    """Differences with more colours for small ones, by a square root, as weights have."""
    ends = [(2 * at - 1, colour) for at, colour in difference_scale(theme)]
    return tuple(((1 + math.copysign(at * at, at)) / 2, colour) for at, colour in ends)


def _markers(rows: Rows, places: Sequence[int], steps: Sequence[int], theme: Theme) -> go.Scatter:
    every = [(row, column) for row in range(len(rows.heads)) for column in range(len(steps))]
    return go.Scatter(
        x=[column for _, column in every],
        y=[places[row] for row, _ in every],
        customdata=[",".join(map(str, (*rows.heads[row], steps[column]))) for row, column in every],
        text=[
            f"{literal(rows.names[row])}, step {steps[column]:,}<br>"
            f"{literal(rows.words[row][column])}"
            for row, column in every
        ],
        mode="markers",
        marker={"symbol": "square", "size": 12, "opacity": 0},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
        hovertemplate="%{text}<extra></extra>",
        hoverlabel={
            "bgcolor": theme.gap,
            "bordercolor": theme.line,
            "font": {"color": theme.text},
        },
    )


def _lay_out(
    figure: go.Figure, rows: Rows, places: Sequence[int], steps: Sequence[int], width: int
) -> None:
    left, right = 40, 58
    cell = min(_LARGEST_CELL, (width - left - right) / len(steps))
    longest = _STEP_LETTER * max(len(f"{step:,}") for step in steps)
    flat = longest + 4 <= cell
    top = 26 if flat else round(longest) + 14
    figure.update_layout(
        height=top + _ROW * (places[-1] + 1) + 8,
        width=round(left + cell * len(steps) + right),
        margin={"l": left, "r": right, "t": top, "b": 8},
        hoverdistance=-1,
        hoverlabel={"align": "left"},
    )
    figure.update_xaxes(
        side="top",
        range=[-0.5, len(steps) - 0.5],
        tickangle=0 if flat else -90,
        **_step_axis(steps, max(1, math.ceil(14 / cell))),
    )
    figure.update_yaxes(
        range=[places[-1] + 0.5, -0.5],
        tickvals=list(places),
        ticktext=[f"{layer + 1}.{head + 1}" for _, layer, head in rows.heads],
        ticklabelstandoff=4,
    )


def _step_axis(steps: Sequence[int], every: int) -> dict[str, object]:
    kept = range(0, len(steps), every)
    return {"tickvals": list(kept), "ticktext": [f"{steps[at]:,}" for at in kept]}


def measure_lines(
    lines: Mapping[str, Sequence[float]], *, steps: Sequence[int], theme: Theme, marked: int | None
) -> go.Figure:
    """Measures of one head, from 0 to 1, at its checkpoints; a line a measure, NaN left open.

    Args:
        lines: name → a value a checkpoint.
        steps: of the checkpoints.
        theme: colours.
        marked: place of a checkpoint to mark.

    Raises:
        ValueError: if values and steps do not fit, or there are more lines than colours.
    """
    if len(lines) > len(theme.series):
        raise ValueError(f"expected at most {len(theme.series)} lines, got {len(lines)}")
    figure = new_figure(theme)
    for (name, values), colour in zip(lines.items(), theme.series, strict=False):
        if len(values) != len(steps):
            raise ValueError(f"{name}: expected {len(steps)} values, got {len(values)}")
        figure.add_trace(
            go.Scatter(
                x=list(range(len(steps))),
                y=np.asarray(values, np.float32),
                name=literal(name),
                text=[f"step {step:,}" for step in steps],
                mode="lines+markers",
                line={"color": colour, "width": 1.5},
                marker={"size": 5},
                hovertemplate=f"{literal(name)}<br>%{{text}}: %{{y:.2f}}<extra></extra>",
            )
        )
    if marked is not None:
        figure.add_vline(marked, line={"color": theme.accent, "width": 1.5})
    figure.update_layout(
        height=260 + 19 * len(lines),  # the legend may have a line for each
        margin={"l": 34, "r": 14, "t": 8, "b": 48},
        showlegend=True,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    figure.update_xaxes(
        range=[-0.3, len(steps) - 0.7],
        tickangle=-45,
        **_step_axis(steps, max(1, math.ceil(len(steps) / 14))),
    )
    figure.update_yaxes(range=[-0.03, 1.03], tickvals=[0, 0.25, 0.5, 0.75, 1], showgrid=True)
    return figure
