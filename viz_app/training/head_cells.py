"""The matrix of the section "heads": a value of every head at every checkpoint, to be clicked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.head_ranking import order_by_last_value
from headwise.viz_app.analysis.labels import KIND_NAMES, count_of
from headwise.viz_app.figures.heads import HeadRows, head_matrix
from headwise.viz_app.records.measures import MeasureRange
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.head_choice import head_label
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import choose_one, clicked_value, show_figure


def choose_order() -> str:
    """Ask for the order of the rows: ``layout`` or ``last value``."""
    return choose_one(
        "Rows",
        ["layout", "last value"],
        key="matrix_rows",
        format_func=lambda order: {"layout": "by layer", "last value": "by last value"}[order],
        help="Kind by kind: by layer and head, or the largest value at the last checkpoint that "
        "has one first.",
    )


def show_cells(
    selection: Selection,
    heads: Sequence[Head],
    cells: Floats,
    *,
    steps: Sequence[int],
    order: str,
    words: Callable[[Head, int, float], str],
    name: str,
    measured: str,
    values: MeasureRange,
    about: str,
    selected: Head,
    on_click: Callable[[Head, int], None],
) -> str:
    """Draw the values (heads, steps) of some heads, and return what is to be said below.

    Args:
        selection: the run and its chosen step.
        heads, cells, steps: rows, values and columns; NaN where there is no value.
        order: of the rows, as ``choose_order`` gives it.
        words: says what the value of a head at a step means.
        name: of the file of the picture.
        measured: the name of what the values are.
        values: their range.
        about: a sentence on them, for those who cannot see the picture.
        selected: the head whose cell is framed.
        on_click: is called with the head and the step of a clicked cell.
    """
    if order == "last value":
        places = order_by_last_value(heads, cells)
        heads, cells = [heads[place] for place in places], cells[places]

    def click() -> None:
        if clicked := clicked_value("head_matrix"):
            kind, layer, number, step = clicked.split(",")
            on_click(Head(cast(Kind, kind), int(layer), int(number)), int(step))

    said = [
        [words(head, step, float(value)) for step, value in zip(steps, row, strict=True)]
        for head, row in zip(heads, cells, strict=True)
    ]
    show_figure(
        head_matrix(
            HeadRows(heads, [head_label(head) for head in heads], cells, said),
            steps=steps,
            kinds=KIND_NAMES,
            measured=measured,
            values=values,
            theme=selection.theme,
            selected=(selected, selection.step),
        ),
        key="head_matrix",
        alt=f"{measured} of {count_of(len(heads), 'head')} at "
        f"{count_of(len(steps), 'checkpoint')}. {about}",
        name=f"heads-{name}",
        on_select=click,
    )
    note = "Rows are layer.head, columns training steps."
    if np.isnan(cells).any():
        note += " Grey cells have no value."
    if left_out := [KIND_NAMES[kind] for kind in KINDS if all(one.kind != kind for one in heads)]:
        note += f" It has no meaning for {' and '.join(left_out)} attention."
    return note
