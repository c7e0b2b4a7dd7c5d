"""Ask how maps are read: their rows and columns, and which heads are put together."""

from __future__ import annotations

from typing import get_args

import streamlit as st

from headwise.model.interface import Description
from headwise.viz_app.analysis.attention import Aggregate
from headwise.viz_app.analysis.formulas import scores_formula
from headwise.viz_app.analysis.grid import GridOptions, RowsBy
from headwise.viz_app.views.caches import Run
from headwise.viz_app.views.shared.head_choice import choose_units
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.special_tokens import special_tokens_of
from headwise.viz_app.views.shared.view import control, redraw_all, view
from headwise.viz_app.views.shared.widgets import choose_one
from headwise.viz_app.views.state import CHOICES, chosen
from headwise.viz_app.views.translate.shown_map import redraw_heads

_CHOICES = ("show", "units", "rows", "special", "renormalised")


def chosen_grid_options() -> GridOptions:
    """Return the rows and columns that ``choose_reading`` has chosen."""
    own = view().translate
    return GridOptions(view().units, own.rows, own.special, own.renormalised)


def choose_reading(run: Run) -> None:
    """Draw a button that opens the choices of how maps are read, with how many were changed."""
    changed = sum(chosen(view(), name) != CHOICES[name].default for name in _CHOICES)
    label = "How maps are read" + f" ({changed})" * bool(changed)
    with st.popover(label, key="reading"):
        st.caption(_what_a_row_is(run.description))
        choose_one(
            "Show",
            get_args(Aggregate),
            key="show",
            format_func=lambda how: {"head": "one head"}.get(how, how),
            in_menu=True,
            on_change=redraw_heads,
            help="One head; the mean or, cell by cell, the maximum of the layer's heads; or "
            "rollout, which follows attention back to the inputs of the stack: "
            r"$R_l = (\frac12 \bar A_l + \frac12 I)\,R_{l-1}$.",
        )
        choose_units(in_menu=True, on_change=redraw_all)
        choose_one(
            "Decoder rows by",
            get_args(RowsBy),
            key="rows",
            in_menu=True,
            on_change=redraw_all,
            help="A decoder row consumes one token and predicts the next. Both are in its label; "
            "this says which leads, and by which of them rows are put together to words.",
        )
        _choose_special(run)


def _choose_special(run: Run) -> None:
    tokens = special_tokens_of(run)
    start, end = escape_markdown(tokens.start), escape_markdown(tokens.end)
    special = st.toggle(
        "Special tokens",
        help=f"Rows and columns of {start}, with which every target begins, and {end}, which ends "
        "source and target. Heads with nothing to do often rest on them.",
        **control("special", "Special tokens", in_menu=True, on_change=redraw_all),
    )
    if not special:
        st.toggle(
            "Rows sum to 1 again",
            help="Scale what is left of each row to a sum of 1. Small weights then look large "
            "where most of the weight was on special tokens.",
            **control("renormalised", "Rows sum to 1 again", in_menu=True, on_change=redraw_all),
        )


def _what_a_row_is(model: Description) -> str:
    scores = scores_formula(model, view().kind)
    return (
        rf"A row of weights, $\mathrm{{softmax}}({scores})$, says how much of each key's value a "
        "query takes. Layers are counted from the input."
    )
