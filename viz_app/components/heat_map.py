"""Draws heat maps, of which a cell, a row or a head can be clicked, or walked to by keys.

Each is a figure of ``figures`` whose trace 0 is a heat map. Plotly draws the same ones in notebooks
and in files; on a page its program of 4.7 MB takes a tenth of a second after each click.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwise.model.interface import Side
from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.components.printing import TILES
from headwise.viz_app.figures.matrix import MARK
from headwise.viz_app.figures.theme import Theme, page_colours

_mount = component("heat_map", isolated=False)


class TokenAxis(NamedTuple):
    """The rows, or columns, of a map are of these tokens of a side."""

    side: Side
    spans: Sequence[tuple[int, int]]
    """The first token of each row, and the one after the last."""


Axes = tuple[TokenAxis, TokenAxis]
"""Of which tokens rows and columns are: what lights up elsewhere while the pointer is on them."""


@dataclass(frozen=True)
class Cells:
    """What clicks on the cells and the labels of the rows of a map do, and keys."""

    start: tuple[int, int]
    """Row and column of the cell where the arrow keys begin."""
    hint: str
    """What clicks do; it stands below the map until a cell is read out there."""
    on_cell: Callable[[int, int], None]
    """Called with row and column of a cell that was clicked, or where Enter was pressed."""
    on_row: Callable[[int], None] | None = None
    """Called with a row whose label was clicked, or where space was pressed."""


def heat_map(
    figure: Any,
    *,
    label: str,
    picture: Mapping[str, Any],
    axes: Axes | None = None,
    cells: Cells | None = None,
    previews: str = "",
    on_click: Callable[[], None] | None = None,
    theme: Theme,
    key: str,
) -> None:
    """Draw a figure of heat maps, in a place whose style has its size, ``--wide`` and ``--high``.

    Args:
        figure: Plotly's, as ``figures`` makes it; its click targets are those of ``on_click``.
        label: what the map is, for screen readers.
        picture: width and height of its saved picture, in pixels, and ``filename``.
        axes: of which tokens its rows and columns are; None: of none that light up.
        cells: what clicks do on each cell.
        previews: the key of a map in whose place the head under the pointer is shown.
        on_click: called after a click on a target; ``sent_value(key, "clicked")`` is its value.
    """
    rows, columns = figure.data[0].z.shape

    def handle_cell() -> None:
        match sent_value(key, "cell"):
            case [int(row), int(column)] if 0 <= row < rows and 0 <= column < columns:
                if cells is not None:
                    cells.on_cell(row, column)

    def handle_row() -> None:
        row = sent_value(key, "row")
        if cells is not None and cells.on_row and isinstance(row, int) and 0 <= row < rows:
            cells.on_row(row)

    data: dict[str, Any] = {
        "figure": figure.to_json(validate=False),
        "label": label,
        "picture": dict(picture),
        "axes": axes and [axis._asdict() for axis in axes],
        "cells": cells
        and {"start": list(cells.start), "hint": cells.hint, "has_row": cells.on_row is not None},
        "previews": previews,
        "clicks": on_click is not None,
        "tables": {"mark": MARK, **TILES},
        "colours": page_colours(theme),
    }
    _mount(
        key=key,
        data=data,
        on_clicked_change=on_click or (lambda: None),
        on_cell_change=handle_cell,
        on_row_change=handle_row,
    )
