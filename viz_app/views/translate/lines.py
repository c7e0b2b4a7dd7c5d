"""Lines from token to token: of one kind of attention, or of all three in one picture."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from viz_app.analysis.grid import Grid, Reading, make_grid
from viz_app.components.lines import Bundle, Column, lines
from viz_app.records import KINDS, Head, Kind, Trace
from viz_app.views._session import Selection
from viz_app.views.address import check_asked
from viz_app.views.choice import Shown, head_label

_NOTE = (
    "A line goes from a query (→, what gathers) to a key (←, where it gathers from); the thicker "
    "it is, the more weight. "
)
_JOINT_NOTE = (
    "Encoder self-attention bows out on the left, decoder self-attention on the right, "
    "cross-attention runs between. A row of the target is what it consumed → what it predicts."
)


def show_lines(
    selection: Selection, trace: Trace, shown: Shown, reading: Reading, *, joint: bool
) -> None:
    """Draw what is shown, and further heads, as lines; ``joint``: with all kinds at once."""
    kinds = KINDS if joint else (shown.kind,)
    first = [shown, *(replace(shown, kind=kind) for kind in kinds if kind != shown.kind)]
    drawn = first + _further(trace, kinds, first, room=len(selection.theme.series) - len(first))
    if joint:
        # Led by what they consumed, decoder rows are at the same time the keys of decoder_self.
        reading = replace(reading, lead="consumed")
    grids = {kind: make_grid(trace, kind, reading) for kind in kinds}
    columns = _columns(selection, grids[shown.kind], shown.kind)
    if joint:
        columns = _joint_columns(selection, grids)
    lines(
        columns,
        [
            Bundle(
                each.name,
                np.clip(each.map_of(trace, grids[each.kind]), 0, 1),
                *(_JOINT_SIDES[each.kind] if joint else (1, 0)),
            )
            for each in drawn
        ],
        theme=selection.theme,
        name=f"{st.session_state['files']}-{shown.file_name}-lines{'-of-all-kinds' * joint}",
        key="lines",
    )
    st.caption(_NOTE + (_JOINT_NOTE if joint else shown.note))


_JOINT_SIDES: dict[Kind, tuple[int, int]] = {
    "encoder_self": (0, 0),
    "decoder_self": (1, 1),
    "cross": (1, 0),
}
"""Column of the queries and of the keys: the source is left, the target right."""


def _further(
    trace: Trace, kinds: tuple[Kind, ...], first: list[Shown], *, room: int
) -> list[Shown]:
    """Heads to be drawn too, as many as there are colours left."""
    layers, heads = trace.attention["cross"].shape[:2]
    options: list[Head] = [(k, i, h) for k in kinds for i in range(layers) for h in range(heads)]
    names = [head_label(head) for head in options]
    check_asked("lines_of", "Further heads", names.__contains__, named=head_label, several=True)
    chosen: list[Head] = st.multiselect(
        "Further heads, each in a colour of its own",
        options,
        format_func=head_label,
        key="lines_of",
        placeholder="kind, layer and head",
        bind="query-params",
    )
    further = [head for head in (Shown(*each) for each in chosen) if head not in first]
    if len(further) > room:
        st.caption(f"There are colours for {room} further heads; the first {room} are drawn.")
    return further[:room]


def _columns(selection: Selection, grid: Grid, kind: Kind) -> tuple[Column, Column]:
    info = selection.run.info
    source, target = info.source_language, info.target_language
    return (
        Column(grid.column_title, grid.columns, target if kind == "decoder_self" else source),
        Column(
            "query" if kind == "encoder_self" else grid.row_title,
            grid.rows,
            source if kind == "encoder_self" else target,
        ),
    )


def _joint_columns(selection: Selection, grids: dict[Kind, Grid]) -> tuple[Column, Column]:
    info = selection.run.info
    source, target = grids["encoder_self"], grids["decoder_self"]
    return (
        Column("source", source.rows, info.source_language),
        Column(target.row_title, target.rows, info.target_language),
    )
