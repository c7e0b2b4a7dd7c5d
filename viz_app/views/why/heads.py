"""Where the chosen head looks, and what each head brought from each token that it read."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.analysis.account import limit_of
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES, token_labels
from headwise.viz_app.figures.account import heads_map
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.records.account import Account
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import READ_TOKENS
from headwise.viz_app.views.shared.head_choice import (
    choices_for,
    chosen_head,
    head_label,
    map_arguments,
)
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.turns import let_browser_draw
from headwise.viz_app.views.shared.view import view
from headwise.viz_app.views.shared.widgets import (
    clicked_value,
    show_figure,
    show_heading,
    show_link,
)
from headwise.viz_app.views.why.account_panels import HEAD, MAPS, account_panel, mark

_MAP_WIDTH = 560
"""Pixels of the map of a head in a window of 1,280."""


@account_panel(HEAD)
def show_head(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the map of the chosen head, with the row of this step and the marked token framed."""
    head, (source, target) = chosen_head(selection.run.description, view()), marked_tokens(account)
    grid = make_grid(trace, head.kind)
    column = target if head.kind == "decoder_self" else source
    label = head_label(head)
    st.markdown(f"**{label}**: where it looks")
    show_figure(
        attention_map(
            trace.attention[head.kind][head.layer, head.head],
            selected=None if head.kind == "encoder_self" else account.step,
            column=column,
            width=_MAP_WIDTH,
            **map_arguments(grid, selection.theme),
        ),
        key="head_map",
        alt=f"{label}: attention map of {len(grid.rows)} rows ({grid.row_title}) and "
        f"{len(grid.columns)} columns ({grid.column_title})",
        name=head_name(head),
    )
    show_link(
        f"Open {label} on Translate",
        "translate",
        key="open_translate",
        show="head",
        compare=False,
        below="steps",
    )


def marked_tokens(account: Account) -> tuple[int | None, int | None]:
    """Return which token of the source, and which of the target so far, is marked."""
    earlier = view().why.earlier
    return view().column, earlier if earlier is not None and earlier <= account.step else None


@account_panel(MAPS)
def show_maps(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw what each head brought from each token that it read.

    The map that has the chosen head is the last of what a person waits for after a click.
    """
    show_heading("Heads, by the token that they read")
    wide, narrow = st.columns([3, 2], gap="medium")
    places: dict[Kind, DeltaGenerator] = {"cross": wide, "decoder_self": narrow}
    chosen = chosen_head(selection.run.description, view()).kind
    first: Kind = "decoder_self" if chosen == "decoder_self" else "cross"
    with places.pop(first):
        _show_map(selection, trace, account, first)
    let_browser_draw()
    for kind, place in places.items():
        with place:
            _show_map(selection, trace, account, kind)
    st.caption(
        "A cell is weight × value × output projection, read in the direction of the one word less "
        f"the other; rows are layer.head. Bars and maps of this account end at "
        f"{limit_of(account):.2f} logits; sums may lie beyond, and a picture with another scale "
        "says so. A click on a cell chooses its head and marks its token everywhere."
    )


def _show_map(selection: Selection, trace: Trace, account: Account, kind: Kind) -> None:
    head = chosen_head(selection.run.description, view())
    cells, is_cross, key = account.parts.heads[kind], kind == "cross", f"account_{kind}"
    _, heads, keys = cells.shape
    tokens = trace.source if is_cross else trace.consumed
    marks = "column" if is_cross else "earlier"
    column = marked_tokens(account)[0 if is_cross else 1]

    def choose() -> None:
        row, _, place = (clicked_value(key) or ",").partition(",")
        choices: dict[str, object] = {}
        if row:
            layer, number = divmod(int(row), heads)
            choices = choices_for(Head(kind, layer, number))
        if place:
            choices[marks] = int(place)
        mark(**choices)

    cell = None
    if head.kind == kind and column is not None and column < keys:
        cell = (head.layer * heads + head.head, column)
    st.markdown(f"**{KIND_NAMES[kind]}**")
    show_figure(
        heads_map(
            cells,
            columns=token_labels(tokens)[:keys],
            column_title=READ_TOKENS[kind],
            limit=limit_of(account),
            theme=selection.theme,
            column=column,
            cell=cell,
        ),
        key=key,
        alt=f"What each {KIND_NAMES[kind]} head brought from each token, with sums",
        name=f"{kind}-by-token",
        on_select=choose,
    )
