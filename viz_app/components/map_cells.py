"""Makes the cells and rows of a Plotly heat map things to click, and to walk with arrow keys.

Plotly's heat maps cannot be reached by keyboard, and a click on them selects nothing in Streamlit.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Side
from headwise.viz_app.components.assets import component, sent_value
from headwise.viz_app.figures.theme import Theme, page_colours
from headwise.viz_app.records.trace import Floats

_mount = component("map_cells")


class TokenAxis(NamedTuple):
    """The rows, or columns, of a map are of these tokens of a side."""

    side: Side
    spans: Sequence[tuple[int, int]]
    """The first token of each row, and the one after the last."""


def map_cells(
    weights: Floats,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    axes: tuple[TokenAxis, TokenAxis],
    allowed: NDArray[np.bool_] | None,
    start: tuple[int, int],
    label: str,
    hint: str,
    container: str,
    overview: str = "",
    theme: Theme,
    key: str,
    on_cell: Callable[[int, int], None],
    on_row: Callable[[int], None] | None = None,
) -> None:
    """Listen to the heat map in the container in which this is called, and read its cells out.

    Args:
        weights: (Q, M), as the heat map draws them.
        rows, columns: Q labels of the queries, and M of the keys.
        axes: which tokens these are, for what lights up elsewhere while the pointer is on them.
        allowed: bool (Q, M), False where the mask forbids; None if it forbids nothing.
        start: row and column of the cell where the arrow keys begin.
        label: what the map is, for screen readers.
        hint: what clicks do, shown below the map until a cell is read out there.
        container: the key of the container.
        overview: the key of a picture of all heads; the one under the pointer is drawn here.
        on_cell: called with row and column of a cell that was clicked, or where Enter was pressed.
        on_row: called with a row whose mark or label was clicked, or where space was pressed.
    """

    def handle_cell() -> None:
        match sent_value(key, "cell"):
            case [int(row), int(column)] if 0 <= row < len(rows) and 0 <= column < len(columns):
                on_cell(row, column)

    def handle_row() -> None:
        row = sent_value(key, "row")
        if on_row is not None and isinstance(row, int) and 0 <= row < len(rows):
            on_row(row)

    seen = weights if allowed is None else np.where(allowed, weights, np.nan)
    data: dict[str, Any] = {
        "weights": base64.b64encode(seen.astype("<f4").tobytes()).decode(),
        "rows": list(rows),
        "columns": list(columns),
        "axes": [axis._asdict() for axis in axes],
        "start": list(start),
        "label": label,
        "hint": hint,
        "container": container,
        "overview": overview,
        "has_row": on_row is not None,
        "colours": page_colours(theme),
    }
    _mount(key=key, data=data, on_cell_change=handle_cell, on_row_change=handle_row)
