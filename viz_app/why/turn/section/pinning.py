"""Draws the map of a head on which rows are pinned, and says what pinned rows are."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headwise.model.interface import Head
from headwise.model.turned import PinnedRow, Turned
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.components.heat_map import Cells
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.head_choice import head_label, map_arguments, token_axes
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.session.widgets import show_figure

_MAP_WIDTH = 450
"""Pixels that the map has in a window of 1,280."""


def fits(trace: Trace, pin: PinnedRow) -> bool:
    """Return whether a model and a source have a row and its key; a step may come later."""
    of_source = pin.head.kind != "decoder_self"
    rows_end = len(trace.source) if pin.head.kind == "encoder_self" else pin.row + 1
    return (
        pin.head in trace.heads
        and pin.row < rows_end
        and not (of_source and pin.last_key >= len(trace.source))
    )


def without(pinned: Sequence[PinnedRow], pin: PinnedRow) -> tuple[PinnedRow, ...]:
    """Return the pinned rows but that of the same query of the same head."""
    return tuple(each for each in pinned if each[:2] != pin[:2])


def label_of(trace: Trace, pin: PinnedRow) -> str:
    """Say which row is pinned onto what, by the tokens of a trace where it has them."""
    grid = make_grid(trace, pin.head.kind)
    row = f"row {pin.row + 1}"
    if pin.row < len(grid.rows):
        row += f", {grid.rows[pin.row]}"
    else:
        row += " (the translation ends before)"
    if pin.onto is None:
        onto = "the mean of all keys"
    elif pin.last_key < len(grid.columns):
        onto = grid.columns[pin.last_key]
    else:
        onto = f"key {pin.last_key + 1}"
    return f"{head_label(pin.head)}, {row} → {onto}"


def show_map_to_pin(selection: Selection, trace: Trace, head: Head, turned: Turned) -> None:
    """Draw the map of a head as it is turned; clicks pin its rows, or free them."""
    grid = make_grid(trace, head.kind)
    weights = trace.attention[head.kind][head.layer, head.head]
    own = [pin for pin in turned.pinned if pin.head == head]
    shown = [pin.row for pin in own if pin.row < len(grid.rows)]

    def pin(row: int, column: int | None) -> None:
        if column is not None and grid.allowed is not None and not grid.allowed[row, column]:
            return
        chosen = PinnedRow(head, row, column)
        pinned = view().why.pinned
        rest = without(pinned, chosen)
        change_view(pinned=rest if chosen in pinned else (*rest, chosen))

    name = f"{KIND_NAMES[head.kind]}, layer {head.layer + 1}, head {head.head + 1}"
    with st.container(key="pinned-map"):
        show_figure(
            attention_map(
                weights,
                selected=shown[-1] if shown else None,
                width=_MAP_WIDTH,
                **map_arguments(grid, selection.theme),
            ),
            key="turned_map",
            alt=f"{name}, with what is turned: attention map of {grid.said}",
            name=f"{head.kind}-layer{head.layer + 1}-head{head.head + 1}",
            axes=token_axes(head.kind, grid),
            cells=Cells(
                (shown[-1] if shown else 0, 0),
                "A click on a cell, or Enter, gives that key all the weight of its row. A row's "
                "label, or the space bar, spreads it evenly. Once more frees the row.",
                pin,
                lambda row: pin(row, None),
            ),
        )
    st.caption(
        "The head in the translation that is written anew. A pinned row is what the head would "
        "bring from that key alone, or from all keys alike, whatever it would look at by itself. "
        "All that follows is computed anew."
    )
