"""Draws a matrix of labelled cells, of which all heat maps are made, and what is selected in it.

Rows go from the top; labels of the columns stand on top. Axes are numeric, 0 to n - 1, and every
label is an alias of its number: long sentences show only some ticks, but hover shows every label.
Plotly's heat maps report no selection to Streamlit, but the invisible markers over them do.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.viz_app.figures.theme import (
    Properties,
    Scale,
    Theme,
    by_root,
    difference_scale,
    escape_lines,
    escape_plotly,
    note,
    weight_scale,
)
from headwise.viz_app.records.trace import Floats, shorten

MARK, PRINTED = "mark", "printed"
"""Name of shapes, and ``meta`` of traces, that a saved picture leaves out, since they show what is
selected; ``meta`` of traces that only a saved picture shows."""
LARGEST_CELL, COLOUR_BAR = 40.0, 80  # pixels of a cell, and of a colour bar with labels and name
LEAST_SQUARE, MOST_SQUARE = 14.0, 110.0  # pixels of the cells of a map that fills its place
_ALL_SQUARES, _PHONE = 64, 340  # rows or columns before cells shrink, and pixels of a phone
_LABEL, _TITLE_LETTER, _TOUCHED = 12, 6, 16  # pixels of a label, a letter, a cell on a phone
_LETTER = 6.4  # pixels of a letter of a label, at most on average
_LONGEST_LABEL = 22  # most characters of a label; longer ones are cut off
_ALL_LABELLED, _ROWS_LABELLED = 20, 60  # columns, and rows, that all have labels


# What is selected


class Target(NamedTuple):
    """A place that can be clicked, with what a click gives and what is shown to the mouse."""

    x: float
    y: float
    value: str
    text: str  # Plotly's markup


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
    ends = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1]}
    line = {"color": theme.accent, "width": width}
    return {"type": "rect", "name": MARK, **ends, "line": line, **place}


def vertical_line(x: float, *, theme: Theme, dash: str = "solid", **place: Any) -> Properties:
    """Return a shape as ``frame``: a line from the bottom to the top of a chart."""
    whole = {"x0": x, "x1": x, "xref": "x", "y0": 0, "y1": 1, "yref": "y domain"}
    line = {"color": theme.accent, "width": 1.5, "dash": dash}
    return {"type": "line", "name": MARK, **whole, "line": line, **place}


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
    return (
        heat_map(values, limits, scale),
        click_targets(targets),
        [
            frame((x - 0.5, x + 0.5), (y - 0.5, y + 0.5), theme=theme)
            for x, y, value, _ in targets
            if value == selected
        ],
    )


# Cells


def heat_map(
    cells: ArrayLike, limits: tuple[float, float], scale: Scale, *, hover: str = "", **more: Any
) -> Properties:
    """Return a trace of cells, (rows, columns), whose scale goes from one limit to the other.

    ``hover`` is Plotly's template of what the mouse reads, which is nothing if it is empty.
    """
    read = {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}
    ends = {"zmin": limits[0], "zmax": limits[1], "colorscale": scale}
    return {"type": "heatmap", "z": cells, **ends, **read, **more}


def masked_cells(allowed: NDArray[np.bool_], theme: Theme) -> Properties:
    """Return a trace that covers with grey the cells that the mask, (rows, columns), forbids."""
    clear, masked = "rgba(0,0,0,0)", theme.masked
    scale = ((0, clear), (0.5, clear), (0.5, masked), (1, masked))
    return heat_map((~allowed).astype(np.uint8), (0, 1), scale, showscale=False)


def colour_bar(theme: Theme, name: str, ticks: Sequence[float] | None = None) -> Properties:
    """Return properties of a colour bar as high as the cells, with the name of what it measures."""
    font = {"color": theme.muted, "size": 12}
    return {
        "title": {"text": escape_plotly(name), "side": "right", "font": font},
        "thickness": 10,
        "outlinewidth": 0,
        "tickfont": font | {"size": 11},
        "tickvals": ticks,
        **{"len": 1, "lenmode": "fraction", "x": 1.0, "xpad": 8},
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
    ends = {"color": [limits[0]], "cmin": limits[0], "cmax": limits[1], "colorscale": scale}
    marker = {**ends, "colorbar": colour_bar(theme, name, ticks), "showscale": True}
    hidden = {"meta": PRINTED, "visible": False}
    return (
        {"type": "scatter", "x": [None], "y": [None], "mode": "markers"}
        | hidden
        | {"marker": marker}
    )


def bar_ticks(signed: bool, height: float) -> list[float]:
    """Return the weights, or differences, that a colour bar of so many pixels has written."""
    if height < 120:
        return [-1, 0, 1] if signed else [0, 0.5, 1]
    return [-1, -0.5, 0, 0.5, 1] if signed else [0, 0.1, 0.25, 0.5, 1]


# Labels


def label_width(labels: Sequence[str]) -> int:
    """Return how many pixels the labels of an axis need."""
    return 12 + round(
        _LETTER * max((min(len(label), _LONGEST_LABEL) for label in labels), default=0)
    )


def label_angle(labels: Sequence[str], pixels: float) -> int:
    """Return by how many degrees labels above columns of so many pixels are turned. They stand
    level where all fit, else they slant, the steeper the nearer they are to each other.
    """
    if label_width(labels) - 6 <= pixels:
        return 0
    if pixels < LEAST_SQUARE:
        return -90
    return -45 if pixels >= _TOUCHED else -60


def _beyond(labels: Sequence[str], pixels: float, angle: int) -> float:
    """Return how many pixels slanted labels go on beyond the last of their columns."""
    along = math.cos(math.radians(angle)) * (angle != 0)
    return max(
        along * (label_width([label]) - 6) - (len(labels) - place - 0.5) * pixels
        for place, label in enumerate(labels)
    )


def label_step(count: int, pixels: float) -> int:
    """Return of how many labels one is drawn, where each has so many pixels."""
    return 1 if count <= _ALL_LABELLED else max(1, math.ceil(_LABEL / pixels))


def labels_width(labels: Sequence[str], pixels: float) -> int:
    """Return how wide an axis must be at least for the labels that ``token_axis`` draws."""
    return _LABEL * math.ceil(len(labels) / label_step(len(labels), pixels))


def row_pixels(count: int, *, room: float, most: float) -> float:
    """Return the height of each of some rows: of as many as have labels, at least a label's."""
    return min(most, max(_LABEL if count <= _ROWS_LABELLED else 4.0, room / count))


def token_axis(labels: Sequence[str], pixels: float) -> Properties:
    """Return properties of an axis of tokens that are ``pixels`` wide or tall each."""
    shown = [escape_plotly(shorten(label, _LONGEST_LABEL)) for label in labels]
    return {
        "labelalias": {str(i): label for i, label in enumerate(shown)},
        "tick0": 0,
        "dtick": label_step(len(labels), pixels),
        "tickformat": "d",
        "ticklabelstandoff": 2,
        # Else Plotly measures each label, a fifth of the time that a map takes to be drawn; there
        # is room for all of them.
        "ticklabeloverflow": "allow",
    }


def row_axis(labels: Sequence[str], pixels: float) -> Properties:
    """Return properties of an axis whose labels stand left of the rows, from the top."""
    return {"range": [len(labels) - 0.5, -0.5], **token_axis(labels, pixels)}


def key_axis(labels: Sequence[str], pixels: float, angle: int = -90) -> Properties:
    """Return properties of an axis whose labels stand above the cells, turned by an angle."""
    above = {"side": "top", "tickangle": angle, "range": [-0.5, len(labels) - 0.5]}
    return above | token_axis(labels, pixels)


# The whole


class MapAxes(TypedDict):
    """What all functions that draw a map are told of its rows and columns, by these names."""

    rows: Sequence[str]  # Q labels, of the queries in an attention map
    columns: Sequence[str]  # M labels, of the keys in an attention map
    row_title: str
    column_title: str
    theme: Theme
    allowed: NotRequired[NDArray[np.bool_] | None]  # (Q, M); other cells are apart from zero
    width: NotRequired[int]
    """Pixels at least, 760 if left out; of few columns fewer, as its layout says."""
    square: NotRequired[bool]
    """Whether cells are squares, which a page may draw as large as there is room: ``meta`` then has
    what it needs for this, as ``fit``. A legend of the page says what colours mean, but for
    differences."""
    has_bar: NotRequired[bool]
    """Whether a colour bar stands beside it; if left out, unless it is square and unsigned. A saved
    picture has one."""


def labelled(
    cells: Floats, *, measured: str, hover: str, signed: bool = False, **axes: Unpack[MapAxes]
) -> tuple[list[Properties], Properties]:
    """Return traces and layout of labelled cells, on the range 0 to 1, or -1 to 1 where ``signed``.

    Trace 0 has the cells, (Q, M); if the mask forbids any, trace 1 covers them. ``measured`` says
    in a word or two what they have, ``hover`` is that of ``heat_map``. ValueError if labels and
    cells do not fit, or there are none.
    """
    rows, columns, theme = axes["rows"], axes["columns"], axes["theme"]
    allowed, width = axes.get("allowed"), axes.get("width", 760)
    if not cells.size:
        raise ValueError(f"expected at least one cell to draw, got {cells.shape}")
    if cells.shape != (expected := (len(rows), len(columns))):
        raise ValueError(f"expected {expected} cells for the labels, got {cells.shape}")
    square = axes.get("square", False)
    has_bar = axes.get("has_bar", signed or not square)
    left = max(label_width(rows), 12 + _TITLE_LETTER * len(axes["row_title"]))
    least, narrow = 1.0, width
    if square:
        least, narrow = LEAST_SQUARE * min(1, _ALL_SQUARES / max(cells.shape)), _PHONE
    beside = left + has_bar * COLOUR_BAR
    upright = max(map(len, columns)) <= 2
    angle = -90
    if square or upright:
        angle = label_angle(columns, max(least, (narrow - beside) / len(columns)))
    title = axes["column_title"]
    step = label_step(len(columns), max(least, (width - beside) / len(columns)))
    if step > 1:
        title += f"{', ' if title else ''}a label for each {step} columns"
    lines = textwrap.wrap(title, max(16, (width - left) // _TITLE_LETTER)) or [""]
    turn = math.radians(-angle)
    top = 18 + 14 * len(lines)
    top += round((label_width(columns) - 12) * math.sin(turn) + 8 * math.cos(turn))
    # Enough for the colour bar, and for a title that is wider than its few columns.
    longest = _TITLE_LETTER * max(map(len, lines))
    right = max(
        COLOUR_BAR if has_bar else 10,
        longest - round(LARGEST_CELL * len(columns)),
        math.ceil(_beyond(columns, least, angle)),
    )
    cell = min(LARGEST_CELL, max(least, (width - left - right) / len(columns)))
    row = cell if square else min(30.0, max(cell, row_pixels(len(rows), room=640, most=17)))
    name, scale = (
        (measured, difference_scale(theme)) if signed else (by_root(measured), weight_scale(theme))
    )
    limits: tuple[float, float] = (-1 if signed else 0, 1)
    ticks = bar_ticks(signed, row * len(rows))
    bar = {"colorbar": colour_bar(theme, name, ticks)} if has_bar else {"showscale": False}
    data = [heat_map(cells.astype(np.float32), limits, scale, hover=hover, **bar)]
    if allowed is not None and not allowed.all():
        data.append(masked_cells(allowed, theme))
    if not has_bar:
        data.append(printed_bar(name, limits=limits, scale=scale, ticks=ticks, theme=theme))
    # Each title stands where its labels begin: that of the rows above the first of them.
    corner = {"xref": "x domain", "yref": "paper", "x": 0, "y": 1, "align": "left"}
    of_rows = {"xanchor": "right", "xshift": -6, "yanchor": "bottom"}
    of_columns = {"xanchor": "left", "yanchor": "top", "yshift": top}
    fit = {"columns": len(columns), "rows": len(rows), "least": least, "most": MOST_SQUARE}
    layout = {
        "height": round(top + row * len(rows) + 12),
        # Many columns take what width there is; few stay square.
        "width": round(left + cell * len(columns) + right)
        if square or cell == LARGEST_CELL
        else None,
        "margin": {"l": left, "r": right, "t": top, "b": 12},
        "meta": {
            "width": width,
            "readable": left + right + labels_width(columns, cell),
            "touched": left + right + _TOUCHED * len(columns),
        }
        | ({"fit": fit} if square else {}),
        "xaxis": key_axis(columns, cell, angle),
        "yaxis": row_axis(rows, row),
        "annotations": [
            note(escape_plotly(axes["row_title"]), theme, **corner, **of_rows),
            note(escape_lines(lines), theme, **corner, **of_columns),
        ],
    }
    return data, layout
