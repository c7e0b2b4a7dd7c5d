"""Show attention as lines from token to token, of one kind or of all three in one picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import streamlit as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.grid import Grid, make_grid
from headwise.viz_app.analysis.rollout import map_of_heads
from headwise.viz_app.components.lines import LEAST_WEIGHT, Bundle, TokenColumn, lines
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.head_choice import choose_heads
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, checked
from headwise.viz_app.translate.shown_map import ShownMap, chosen_grid_options

_NOTE = (
    "A line joins a query with a key that it looks at, to gather from there; the thicker it is, "
    "the more weight. "
)
_SIDES_NOTE = "Queries stand on the right, keys on the left. "
_JOINT_NOTE = (
    "Encoder self-attention bows out on the left, decoder self-attention on the right, "
    "cross-attention runs between. A row of the target is what it predicts ← what it consumed."
)
_JOINT_SIDES: dict[Kind, tuple[int, int]] = {
    "encoder_self": (0, 0),
    "decoder_self": (1, 1),
    "cross": (1, 0),
}
"""Column of the queries and of the keys: the source is left, the target right."""


def show_lines(
    selection: Selection, trace: Trace, shown: ShownMap, grids: Mapping[Kind, Grid], *, joint: bool
) -> None:
    """Draw the shown map and further heads as lines, of all kinds at once if ``joint``."""
    kind, layer, head = shown.head
    kinds = (kind, *(other for other in KINDS if other != kind)) if joint else (kind,)
    first = [shown._replace(head=Head(each, layer, head)) for each in kinds]
    drawn = first + _further(trace, kinds, first, most=len(selection.theme.series) - len(first))
    if joint:
        # By what they consumed, decoder rows are at the same time the keys of decoder_self.
        grid_options = replace(chosen_grid_options(), rows_by="consumed")
        grids = {each: make_grid(trace, each, grid_options) for each in kinds}
    lines(
        _columns(selection, grids, kind, joint=joint),
        [
            Bundle(
                each.name,
                np.clip(map_of_heads(trace, *each, to_grid=grids[each.head.kind].apply), 0, 1),
                *(_JOINT_SIDES[each.head.kind] if joint else (1, 0)),
            )
            for each in drawn
        ],
        theme=selection.theme,
        name=f"{st.session_state['files']}-{shown.file_name}-lines{'-of-all-kinds' * joint}",
        key="lines",
        smallest=checked(
            "smallest_line",
            "Smallest weight drawn",
            usable=lambda weight: LEAST_WEIGHT <= weight <= 1,
            written="{:.2f}".format,
        ),
        on_smallest=lambda weight: change_view(smallest_line=weight),
    )
    st.caption(_NOTE + (_JOINT_NOTE if joint else _SIDES_NOTE))


def _further(
    trace: Trace, kinds: tuple[Kind, ...], first: list[ShownMap], *, most: int
) -> list[ShownMap]:
    """Ask for heads to be drawn besides the first ones, and return at most so many."""
    options = [head for head in trace.heads if head.kind in kinds]
    chosen = choose_heads(options, "Further heads, each in a colour of its own", key="lines_of")
    further = [head for head in (ShownMap(each) for each in chosen) if head not in first]
    if len(further) > most:
        st.caption(f"There are colours for {most} further heads; the first {most} are drawn.")
    return further[:most]


def _columns(
    selection: Selection, grids: Mapping[Kind, Grid], kind: Kind, *, joint: bool
) -> tuple[TokenColumn, TokenColumn]:
    source, target = selection.run.source_language, selection.run.target_language
    if joint:
        encoder, decoder = grids["encoder_self"], grids["decoder_self"]
        return (
            TokenColumn("source", encoder.rows, source),
            TokenColumn(decoder.row_title, decoder.rows, target),
        )
    grid, in_encoder = grids[kind], kind == "encoder_self"
    return (
        TokenColumn(grid.column_title, grid.columns, target if kind == "decoder_self" else source),
        TokenColumn(
            "query" if in_encoder else grid.row_title, grid.rows, source if in_encoder else target
        ),
    )
