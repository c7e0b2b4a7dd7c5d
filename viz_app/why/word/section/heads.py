"""Where the chosen head looks, what each head brought by token, and what the encoder put there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES, count_of, three_digits, token_labels
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.head_choice import choices_for, chosen_head, head_label, map_arguments
from headwise.viz_app.session.inspector import inspector
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.turns import let_browser_draw
from headwise.viz_app.session.view import view
from headwise.viz_app.session.widgets import clicked_value, show_figure
from headwise.viz_app.why.word.account import Account, run_cell
from headwise.viz_app.why.word.bars import (
    MOST_OF_ENCODER,
    bar_arguments,
    largest_bars,
    map_by_token,
)
from headwise.viz_app.why.word.section.asked import INSPECTOR, mark
from headwise.viz_app.why.word.section.neurons import show_encoder_neurons

_MOST_BESIDE = 30
"""Source tokens of the longest sentence of which a map is drawn beside bars."""


def bars_and_map(trace: Trace) -> Sequence[DeltaGenerator]:
    """Return places for bars and for a map, beside them or, where it has many columns, below."""
    if len(trace.source) <= _MOST_BESIDE:
        return st.columns([4, 3], gap="medium")
    return st.container(), st.container()


def show_head(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the map of the chosen head, with the row of this step and the marked token framed."""
    head = chosen_head(selection.run.description, view())
    grid, label = make_grid(trace, head.kind), head_label(head)
    st.markdown(f"**{label}**: where it looks")
    show_figure(
        attention_map(
            trace.attention[head.kind][head.layer, head.head],
            selected=None if head.kind == "encoder_self" else account.step,
            column=_marked_token(head.kind, account),
            # Pixels in a window of 1,280.
            width=390 if len(trace.source) <= _MOST_BESIDE else 560,
            **map_arguments(grid, selection.theme),
        ),
        key="head_map",
        alt=f"{label}: attention map of {grid.said}",
        name=head_name(head),
    )


@panel(INSPECTOR)
def show_inspector(selection: Selection, trace: Trace) -> None:
    """Draw the inspector of the chosen head, which a click in a chart here can change."""
    with inspector(selection, trace):
        pass


def _marked_token(kind: Kind, account: Account) -> int | None:
    """Return which token is marked of those that heads of a kind read."""
    if kind != "decoder_self":
        return view().column
    earlier = view().why.earlier
    return earlier if earlier is not None and earlier <= account.step else None


def show_maps(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw what each head brought from each token that it read.

    The map that has the chosen head is the last of what a person waits for after a click.
    """
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
        f"{account.limit:.2f} logits; sums may lie beyond, and a picture with another scale "
        "says so. A click on a cell chooses its head and marks its token everywhere."
    )


def _show_map(selection: Selection, trace: Trace, account: Account, kind: Kind) -> None:
    head = chosen_head(selection.run.description, view())
    cells, key = account.parts.heads[kind], f"account_{kind}"
    _, heads, keys = cells.shape
    column = _marked_token(kind, account)

    def choose() -> None:
        row, _, place = (clicked_value(key) or ",").partition(",")
        choices: dict[str, object] = {}
        if row:
            layer, number = divmod(int(row), heads)
            choices = choices_for(Head(kind, layer, number))
        if place:
            choices["column" if kind == "cross" else "earlier"] = int(place)
        mark(**choices)

    cell = None
    if head.kind == kind and column is not None and column < keys:
        cell = (head.layer * heads + head.head, column)
    st.markdown(f"**{KIND_NAMES[kind]}**")
    show_figure(
        map_by_token(trace, kind, cells, account.limit, selection.theme, column=column, cell=cell),
        key=key,
        alt=f"What each {KIND_NAMES[kind]} head brought from each token, with sums",
        name=f"{kind}-by-token",
        on_select=choose,
    )


def show_encoder(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw the encoder's parts of the chosen cell of cross-attention, or of all cells."""
    head, column = chosen_head(selection.run.description, view()), view().column
    cross = account.parts.heads["cross"]
    cell, least = None, account.limit
    if head.kind == "cross" and column is not None and column < len(trace.source):
        asked = account.step, account.instead, head.layer, head.head, column
        cell = ask_trace(run_cell, selection.run, trace, *asked)
        least = float(np.abs(cell.heads["encoder_self"]).max(initial=0.0))
        token = escape_markdown(token_labels(trace.source)[column])
        st.markdown(
            f"{head_label(head)} brought {three_digits(cross[asked[2:]], '+')} from **{token}**. "
            "What it read there was a sum, too: the token, its position, and what each head and "
            "feed-forward of the encoder had written at this token."
        )
    else:
        st.markdown(
            "All heads of cross-attention together brought "
            f"{three_digits(cross.sum(), '+')}. What they read was written by the encoder. Choose "
            "a head and mark a source token to see one of its cells."
        )
    bars = largest_bars((cell or account.from_encoder).sums(), MOST_OF_ENCODER, encoder=True)
    arguments = bar_arguments(bars, least)
    ends = arguments["limit"]
    bars_place, map_place = bars_and_map(trace)
    with bars_place:
        show_figure(
            bar_chart(**arguments, theme=selection.theme),
            key="encoder_parts",
            alt=f"{count_of(len(bars), 'part')} of the encoder as signed bars, the largest on top",
            name="encoder-parts",
        )
    if cell is not None:
        with map_place:
            cells = cell.heads["encoder_self"]
            show_figure(
                map_by_token(trace, "encoder_self", cells, ends, selection.theme, column=column),
                key="encoder_heads",
                alt="What each head of the encoder brought to this cell from each source token",
                name="encoder-heads",
            )
    own = f"The scale here is its own: it ends at {ends:.2g}. " if ends != account.limit else ""
    st.caption(
        f"{own}Attention weights and the divisors of the encoder's norms are held at their values "
        "in this pass, so that the parts sum to the cell exactly."
    )
    if cell is not None and column is not None:
        show_encoder_neurons(selection, trace, account.step, cell, column)
