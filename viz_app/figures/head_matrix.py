"""Draws heads by checkpoints: one measure as cells, a row a head and a column a checkpoint.

Checkpoints are evenly spaced, the first on the left, also in figures that stand below the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from headwise.model.interface import Head, Kind
from headwise.viz_app.figures.matrix import COLOUR_BAR, colour_bar, masked_cells
from headwise.viz_app.figures.mosaic import kind_name
from headwise.viz_app.figures.selecting import Target, selectable_cells
from headwise.viz_app.figures.theme import (
    Properties,
    Scale,
    Theme,
    by_root,
    difference_scale,
    escape_plotly,
    new_figure,
    weight_scale,
)
from headwise.viz_app.records.measures import MeasureRange
from headwise.viz_app.records.trace import Floats

_ROW = 17
"""Pixels of a row."""
_LARGEST_CELL, _LETTER = 62, 6.6
"""Pixels of the widest column, and of a letter of a step."""
_LEFT, _RIGHT = 40, COLOUR_BAR + 8
"""Pixels left of the columns, for the labels of rows, and right of them. A colour bar that needs
more would make columns narrower than those of the other figures: long numbers must fit."""


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
        kinds: their names for people.
        measured: the name of the measure.
        values: whether they are from 0 to 1, of either sign, or from 0 upwards.
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
    empty = np.ones(cells.shape, np.bool_)
    empty[places] = np.isfinite(rows.cells)
    signed = values == "signed"
    limit = 1.0 if values == "share" else _limit(rows.cells)
    targets = [
        Target(
            column,
            place,
            ",".join(map(str, (*head, step))),
            f"{escape_plotly(name)}, step {step:,}<br>{escape_plotly(words[column])}",
        )
        for head, name, words, place in zip(rows.heads, rows.names, rows.words, places, strict=True)
        for column, step in enumerate(steps)
    ]
    heat_map, markers, frames = selectable_cells(
        cells,
        targets,
        limits=(-limit if signed else 0, limit),
        scale=_signed_scale(theme) if signed else weight_scale(theme),
        selected=",".join(map(str, (*selected[0], selected[1]))) if selected else "",
        theme=theme,
    )
    heat_map |= {"colorbar": _bar(values, limit, measured, theme), "xgap": 1, "ygap": 1}
    hovered = {"bgcolor": theme.background, "bordercolor": theme.line}
    columns = StepColumns.of(steps, width)
    beside = {"xref": "x domain", "x": 0, "xanchor": "left", "xshift": -4}
    return new_figure(
        theme,
        [
            heat_map,
            masked_cells(empty, theme) | {"xgap": 1, "ygap": 1},
            markers | {"hoverlabel": hovered | {"font": {"color": theme.text}}},
        ],
        {
            **columns.layout(top=columns.labels, bottom=8, height=_ROW * (places[-1] + 1)),
            "hoverdistance": -1,
            "hoverlabel": {"align": "left"},
            "xaxis": {"side": "top", **columns.axis},
            "yaxis": {
                "range": [places[-1] + 0.5, -0.5],
                "tickvals": places,
                "ticktext": [f"{layer + 1}.{head + 1}" for _, layer, head in rows.heads],
                "ticklabelstandoff": 4,
            },
            "annotations": [
                kind_name(kinds[kind], theme) | {"y": top} | beside for kind, top in tops.items()
            ],
            "shapes": frames,
        },
    )


def _bar(values: MeasureRange, limit: float, measured: str, theme: Theme) -> Properties:
    """Return a colour bar with labels that fit the range of the measure."""
    signed = values == "signed"
    shares = (-1, -0.25, 0, 0.25, 1) if signed else (0, 0.1, 0.25, 0.5, 1)
    ticks = [share * limit for share in shares]
    bar = colour_bar(theme, by_root(measured), ticks)
    if values != "share":
        sign = "+" if signed else ""
        bar["ticktext"] = [f"{tick:{sign}.2g}" if tick else "0" for tick in ticks]
    return bar


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


@dataclass(frozen=True)
class StepColumns:
    """Columns, one for each checkpoint, stand in line in figures below each other."""

    axis: Properties
    """Properties of the axis of the columns, which are 0, 1, …; labels are steps."""
    labels: int
    """Pixels that the labels of the axis need above or below the columns."""
    _width: int
    _readable: int

    @classmethod
    def of(cls, steps: Sequence[int], width: int) -> StepColumns:
        """Make columns of these steps for a figure that has ``width`` pixels at most."""
        cell = min(_LARGEST_CELL, (width - _LEFT - _RIGHT) / len(steps))
        longest = _LETTER * max(len(f"{step:,}") for step in steps)
        flat = longest + 4 <= 0.75 * cell  # the page may have less room
        least = longest + 4 if flat else min(12.0, cell)
        axis = {
            "range": [-0.5, len(steps) - 0.5],
            "tickangle": 0 if flat else -90,
            **step_ticks(steps, max(1, math.ceil(14 / cell))),
        }
        return cls(
            axis,
            26 if flat else round(longest) + 14,
            round(_LEFT + cell * len(steps) + _RIGHT),
            round(_LEFT + least * len(steps) + _RIGHT),
        )

    def layout(self, *, top: int, bottom: int, height: int) -> Properties:
        """Return size and margins of a figure whose columns are ``height`` pixels high."""
        return {
            "height": top + height + bottom,
            "width": self._width,
            "meta": {"readable": self._readable},
            "margin": {"l": _LEFT, "r": _RIGHT, "t": top, "b": bottom},
        }


def step_ticks(steps: Sequence[int], every: int) -> Properties:
    """Return properties of an axis of checkpoints, 0, 1, …, that labels some with their steps.

    The table of a chart and its readout take the names of the others from ``labelalias``.
    """
    names, kept = [f"{step:,}" for step in steps], range(0, len(steps), every)
    return {
        "tickvals": list(kept),
        "ticktext": [names[at] for at in kept],
        "labelalias": {str(at): name for at, name in enumerate(names)},
    }
