"""Draws a matrix of labelled cells; all single heat maps are made of it.

Rows go from the top; labels of the columns stand on top. Axes are numeric, 0 to n - 1, and every
label is an alias of its number: long sentences show only some ticks, but hover shows every label.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.figures.theme import (
    Properties,
    Scale,
    Theme,
    by_root,
    difference_scale,
    escape_lines,
    escape_plotly,
    weight_scale,
)
from headwise.viz_app.records.texts import shorten
from headwise.viz_app.records.trace import Floats

_LABEL_PIXELS = 12
"""Least distance of two labels, in pixels."""
_ALL_LABELLED, _ROWS_LABELLED = 20, 60
"""Most columns, and most rows, that all have their labels, whatever room that takes."""
_LONGEST_LABEL = 22
"""Most characters of a label; longer ones are cut off."""
_TITLE_LETTER = 6
"""Width of a letter of a title, in pixels."""
_TOUCHED_CELL = 16
"""Least pixels of a cell on a phone."""
LARGEST_CELL = 40.0
"""Most pixels of a cell."""


def label_width(labels: Sequence[str]) -> int:
    """Return how many pixels the labels of an axis need."""
    return 12 + round(6.4 * max((min(len(label), _LONGEST_LABEL) for label in labels), default=0))


def label_step(count: int, pixels: float) -> int:
    """Return of how many labels one is drawn, where each has so many pixels."""
    return 1 if count <= _ALL_LABELLED else max(1, math.ceil(_LABEL_PIXELS / pixels))


def row_pixels(count: int, *, room: float, most: float) -> float:
    """Return the height of each of some rows: of as many as have labels, at least a label's."""
    least = _LABEL_PIXELS if count <= _ROWS_LABELLED else 4.0
    return min(most, max(least, room / count))


def token_axis(labels: Sequence[str], pixels: float) -> Properties:
    """Return properties of an axis of tokens that are ``pixels`` wide or tall each."""
    return {
        "labelalias": {
            str(i): escape_plotly(shorten(label, _LONGEST_LABEL)) for i, label in enumerate(labels)
        },
        "tick0": 0,
        "dtick": label_step(len(labels), pixels),
        "tickformat": "d",
        "ticklabelstandoff": 2,
        # Else Plotly measures each label, a fifth of the time that a map takes to be drawn; there
        # is room for all of them.
        "ticklabeloverflow": "allow",
    }


def key_axis(labels: Sequence[str], pixels: float) -> Properties:
    """Return properties of an axis whose labels stand upright above the cells."""
    return {
        "side": "top",
        "tickangle": -90,
        "range": [-0.5, len(labels) - 0.5],
        **token_axis(labels, pixels),
    }


def labels_width(labels: Sequence[str], pixels: float) -> int:
    """Return how wide an axis must be at least for the labels that ``token_axis`` draws."""
    return _LABEL_PIXELS * math.ceil(len(labels) / label_step(len(labels), pixels))


COLOUR_BAR = 80
"""Pixels of a colour bar with its labels and its name."""
PRINTED = "printed"
"""``meta`` of traces that only a saved picture shows."""


def colour_bar(theme: Theme, name: str, ticks: Sequence[float] | None = None) -> Properties:
    """Return properties of a colour bar as high as the cells, with the name of what it measures."""
    return {
        "title": {
            "text": escape_plotly(name),
            "side": "right",
            "font": {"color": theme.muted, "size": 12},
        },
        "thickness": 10,
        "outlinewidth": 0,
        "tickfont": {"color": theme.muted, "size": 11},
        "tickvals": ticks,
        "len": 1,
        "lenmode": "fraction",
        "x": 1.0,
        "xpad": 8,
    }


def printed_bar(
    name: str,
    *,
    limits: tuple[float, float],
    scale: Scale,
    ticks: Sequence[float] | None = None,
    theme: Theme,
) -> Properties:
    """Return a trace: a colour bar, right of the cells, that only a saved picture shows.

    ``limits`` are the values at the ends of the scale; without ``ticks``, Plotly chooses some.
    """
    return {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "mode": "markers",
        "meta": PRINTED,
        "visible": False,
        "marker": {
            "color": [limits[0]],
            "cmin": limits[0],
            "cmax": limits[1],
            "colorscale": scale,
            "colorbar": colour_bar(theme, name, ticks),
            "showscale": True,
        },
    }


def bar_ticks(signed: bool, height: float) -> list[float]:
    """Return the weights, or differences, that a colour bar of so many pixels has written."""
    if height < 120:
        return [-1, 0, 1] if signed else [0, 0.5, 1]
    return [-1, -0.5, 0, 0.5, 1] if signed else [0, 0.1, 0.25, 0.5, 1]


class MapAxes(TypedDict):
    """What all functions that draw a map are told of its rows and columns, by these names."""

    rows: Sequence[str]
    """Q labels, of the queries in an attention map."""
    columns: Sequence[str]
    """M labels, of the keys in an attention map."""
    row_title: str
    column_title: str
    theme: Theme
    allowed: NotRequired[NDArray[np.bool_] | None]
    """(Q, M), False where the mask forbids: these cells are drawn apart from zero."""
    width: NotRequired[int]
    """Pixels that the figure has at least, 760 if left out; without many columns it takes fewer and
    says so in its layout."""


def matrix(
    cells: Floats, *, measured: str, hover: str, signed: bool = False, **axes: Unpack[MapAxes]
) -> tuple[list[Properties], Properties]:
    """Return traces and layout of labelled cells, on the range 0 to 1, or -1 to 1 where ``signed``.

    Trace 0 has the cells, (Q, M); if the mask forbids any, trace 1 covers them. ``measured`` says
    in a word or two what they have, ``hover`` is Plotly's template for a cell.

    Raises:
        ValueError: if labels and cells do not fit, or there are none.
    """
    rows, columns, theme = axes["rows"], axes["columns"], axes["theme"]
    allowed, width = axes.get("allowed"), axes.get("width", 760)
    if not cells.size:
        raise ValueError(f"expected at least one cell to draw, got {cells.shape}")
    if cells.shape != (len(rows), len(columns)):
        raise ValueError(
            f"expected {(len(rows), len(columns))} cells for the labels, got {cells.shape}"
        )
    left = label_width([*rows, axes["row_title"]])
    title, step = (
        axes["column_title"],
        label_step(len(columns), max(1.0, (width - left - COLOUR_BAR) / len(columns))),
    )
    if step > 1:
        title += f"{', ' if title else ''}a label for each {step} columns"
    lines = textwrap.wrap(title, max(16, (width - left) // _TITLE_LETTER)) or [""]
    top = label_width(columns) + 6 + 14 * len(lines)
    # Enough for the colour bar, and for a title that is wider than its few columns.
    longest = _TITLE_LETTER * max(map(len, lines))
    right = max(COLOUR_BAR, longest - round(LARGEST_CELL * len(columns)))
    cell = min(LARGEST_CELL, max(1.0, (width - left - right) / len(columns)))
    row = min(30.0, max(cell, row_pixels(len(rows), room=640, most=17)))
    # Each stands where its labels begin: that of the rows above the first of them.
    titles = (
        (escape_plotly(axes["row_title"]), {"xanchor": "right", "xshift": -6, "yanchor": "bottom"}),
        (escape_lines(lines), {"xanchor": "left", "yanchor": "top", "yshift": top}),
    )
    data: list[Properties] = [
        {
            "type": "heatmap",
            "z": cells.astype(np.float32),
            "zmin": -1 if signed else 0,
            "zmax": 1,
            "colorscale": difference_scale(theme) if signed else weight_scale(theme),
            "colorbar": colour_bar(
                theme, measured if signed else by_root(measured), bar_ticks(signed, row * len(rows))
            ),
            "hovertemplate": hover + "<extra></extra>",
        }
    ]
    if allowed is not None and not allowed.all():
        data.append(masked_cells(allowed, theme))
    layout = {
        "height": round(top + row * len(rows) + 12),
        # Many columns take what width there is; few stay square.
        "width": round(left + cell * len(columns) + right) if cell == LARGEST_CELL else None,
        "margin": {"l": left, "r": right, "t": top, "b": 12},
        "meta": {
            "width": width,
            "readable": left + right + labels_width(columns, cell),
            "touched": left + right + _TOUCHED_CELL * len(columns),
        },
        "xaxis": key_axis(columns, cell),
        "yaxis": {"range": [len(rows) - 0.5, -0.5], **token_axis(rows, row)},
        "annotations": [
            {
                "text": text,
                "xref": "x domain",
                "yref": "paper",
                "x": 0,
                "y": 1,
                "align": "left",
                "showarrow": False,
                "font": {"color": theme.muted, "size": 12},
                **place,
            }
            for text, place in titles
        ],
    }
    return data, layout


def masked_cells(allowed: NDArray[np.bool_], theme: Theme) -> Properties:
    """Return a trace that covers with grey the cells that the mask, (rows, columns), forbids."""
    clear, masked = "rgba(0,0,0,0)", theme.masked
    return {
        "type": "heatmap",
        "z": (~allowed).astype(np.uint8),
        "zmin": 0,
        "zmax": 1,
        "colorscale": ((0, clear), (0.5, clear), (0.5, masked), (1, masked)),
        "showscale": False,
        "hoverinfo": "skip",
    }
