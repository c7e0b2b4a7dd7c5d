"""Draw the page Inside a head: ask for head, query and key, and show one step of the layer."""

from __future__ import annotations

import streamlit as st

from headwise.model.interface import Head
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import numbered
from headwise.viz_app.inside.scores.section import files_of_scores, show_score_parts
from headwise.viz_app.inside.steps.follow import (
    deviations,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
)
from headwise.viz_app.inside.steps.section import (
    show_contributions,
    show_feed_forward,
    show_projections,
    show_residual,
    show_scores,
    show_shares,
    show_weighted,
)
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import layer_trace_of
from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.head_choice import choose_head
from headwise.viz_app.session.inspector import inspector
from headwise.viz_app.session.markdown import escape_markdown, power_of_ten
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import choose_trace
from headwise.viz_app.session.view import fill_in, view
from headwise.viz_app.session.widgets import choose_from_list, choose_one

_SECTIONS = {
    "projections": "1 Q, K, V",
    "scores": "2 Scores, softmax",
    "values": "3 Values",
    "heads": "4 W_O",
    "residual": "5 Residual",
    "feed forward": "6 Feed-forward",
    "score parts": "Parts of a score",
}
_OF_A_KEY = ("scores", "score parts")
"""Sections about one key of the query."""


def page(selection: Selection) -> None:
    trace = choose_trace(selection)
    _show_head(selection, trace)
    show_download_menu(selection, trace, others=files_of_scores)


@panel("inside")
def _show_head(selection: Selection, trace: Trace) -> None:
    with inspector(selection, trace):
        _show_step(selection, trace)


def _show_step(selection: Selection, trace: Trace) -> None:
    section = choose_one(
        "Step", list(_SECTIONS), key="inside", format_func=_SECTIONS.__getitem__, show_label=False
    )
    kind, layer, head = choose_head(selection.run.description)
    grid = make_grid(trace, kind)
    query, key = st.columns(2, gap="medium")
    with query:
        row = choose_from_list(
            "Query" if kind == "encoder_self" else f"Query: {grid.row_title}",
            range(len(grid.rows)),
            key="query",
            name="Query",
            default=0 if kind == "encoder_self" else min(view().at, len(grid.rows) - 1),
            format_func=numbered(grid.rows).__getitem__,
        )
        fill_in(query=row)  # a link to this page has no step of decoding
    st.session_state["files"] = (
        f"headwise-{trace.run}-{trace.step}-{kind}-layer{layer + 1}-head{head + 1}-query{row + 1}"
    )
    record = layer_trace_of(selection.run, trace, kind, layer)
    attention, columns = record.attention, grid.columns
    steps = follow_head(attention, head, row)
    if section in _OF_A_KEY:
        with key:
            # The choice stays with another checkpoint: a pair can be followed through the training.
            pair = choose_from_list(
                "Key to inspect",
                range(len(columns)),
                key="key",
                default=int(first_largest(steps.weights)),
                format_func=numbered(columns).__getitem__,
            )
        if section == "score parts":
            place = Head(kind, layer, head)
            show_score_parts(selection, trace, place, row, pair, columns[pair])
            return
        model = selection.run.description.of(kind)
        show_scores(selection, steps, attention.allowed[row], columns, pair, model=model, kind=kind)
        show_contributions(selection, steps, pair, columns[pair])
    elif section == "projections":
        show_projections(selection, attention, steps, grid.rows[row], columns, head)
    elif section == "values":
        show_weighted(selection, steps, columns)
    elif section == "feed forward":
        hidden = follow_feed_forward(record.feed_forward, row)
        show_feed_forward(selection, record, kind, hidden)
        end = follow_residual(record.feed_forward, hidden.output, row)
        title = "7. Residual connection and norm again"
        show_residual(selection, record.feed_forward, end, title, "feed_forward")
    else:
        shares = head_shares(attention, row)
        if section == "heads":
            show_shares(selection, attention, shares, head)
        else:
            after = follow_residual(attention, shares.output, row)
            title = "5. Residual connection and norm"
            show_residual(selection, attention, after, title, "attention")
    off = deviations(record, head, row)
    largest = ", ".join(f"{name} {power_of_ten(deviation)}" for name, deviation in off.items())
    st.caption(
        "All of this is computed here, in double precision.",
        help="From what entered the layer and from its weights. Largest distance from what the "
        f"model computed: {escape_markdown(largest)}.",
    )
