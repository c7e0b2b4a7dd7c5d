"""Draw the page Inside a head: ask for head, query and key, and show each step of the layer."""

from __future__ import annotations

import streamlit as st

from headwise.model.interface import Head
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.inside import (
    deviations,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
)
from headwise.viz_app.analysis.labels import numbered
from headwise.viz_app.inside.scores.section import files_of_scores, show_score_parts
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import layer_trace_of
from headwise.viz_app.views.inside.steps import (
    show_contributions,
    show_feed_forward,
    show_projections,
    show_residual,
    show_scores,
    show_shares,
    show_weighted,
)
from headwise.viz_app.views.shared.download import show_download_menu
from headwise.viz_app.views.shared.head_choice import choose_head
from headwise.viz_app.views.shared.markdown import escape_markdown, power_of_ten
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import choose_trace
from headwise.viz_app.views.shared.turns import let_browser_draw
from headwise.viz_app.views.shared.view import fill_in, view
from headwise.viz_app.views.shared.widgets import choose_from_list


def page(selection: Selection) -> None:
    """Draw the page."""
    trace = choose_trace(selection)
    _show_head(selection, trace)
    show_download_menu(selection, trace, others=files_of_scores)


@panel("inside")
def _show_head(selection: Selection, trace: Trace) -> None:
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
    attention, feed_forward = record.attention, record.feed_forward
    steps = follow_head(attention, head, row)
    with key:
        # The choice stays with another checkpoint: a pair can be followed through the training.
        pair = choose_from_list(
            "Key to inspect",
            range(len(grid.columns)),
            key="key",
            default=int(first_largest(steps.weights)),
            format_func=numbered(grid.columns).__getitem__,
        )
    shares = head_shares(attention, row)
    hidden = follow_feed_forward(feed_forward, row)
    after = follow_residual(attention, shares.output, row)
    end = follow_residual(feed_forward, hidden.output, row)
    show_projections(selection, attention, steps, grid.rows[row], grid.columns, head)
    show_scores(
        selection,
        steps,
        attention.allowed[row],
        grid.columns,
        pair,
        model=selection.run.description.of(kind),
        kind=kind,
    )
    let_browser_draw()
    show_contributions(selection, steps, pair, grid.columns[pair])
    show_score_parts(selection, trace, Head(kind, layer, head), row, pair, grid.columns[pair])
    show_weighted(selection, steps, grid.columns)
    show_shares(selection, attention, shares, head)
    show_residual(selection, attention, after, "5. Residual connection and norm", "attention")
    show_feed_forward(selection, record, kind, hidden)
    title = "7. Residual connection and norm again"
    show_residual(selection, feed_forward, end, title, "feed_forward")
    off = deviations(record, head, row)
    largest = ", ".join(f"{name} {power_of_ten(deviation)}" for name, deviation in off.items())
    st.caption(
        "All of this is computed here, in double precision, from what entered the layer and from "
        f"its weights. Largest distance from what the model computed: {escape_markdown(largest)}."
    )
