"""The page as a whole: which head, query and key are followed, and the steps in their order."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from viz_app.analysis.grid import Grid, Reading, make_grid
from viz_app.analysis.inside import (
    HeadSteps,
    deviations,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
)
from viz_app.layer_records import LayerTrace
from viz_app.records import Kind, Trace
from viz_app.views._session import Selection, layer_trace_of, trace_of
from viz_app.views._widgets import begin_with, panel, plain, problems_in_place
from viz_app.views.choice import choose_head
from viz_app.views.inside.steps import (
    show_contributions,
    show_feed_forward,
    show_projections,
    show_residual,
    show_scores,
    show_shares,
    show_weighted,
)
from viz_app.views.take import show_take
from viz_app.views.target import choose_decoding, choose_target


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        with st.sidebar:
            size = choose_decoding()
        target = choose_target(selection, size)
        trace = trace_of(selection.run, selection.step, selection.text, target.ids)
        _show_head(selection, trace)
        with st.sidebar:
            show_take(selection, trace, Reading())


@panel("inside")
def _show_head(selection: Selection, trace: Trace) -> None:
    layers, heads = trace.attention["cross"].shape[:2]
    kind, layer, head = choose_head(layers, heads)
    grid = make_grid(trace, kind)
    query, key = st.columns(2, gap="medium")
    with query:
        row = _choose_row(trace, kind, grid)
    st.session_state["files"] = (
        f"headwise-{trace.run}-{trace.step}-{kind}-layer{layer + 1}-head{head + 1}-query{row + 1}"
    )
    record = layer_trace_of(selection, trace, kind, layer)
    attention, feed_forward = record.attention, record.feed_forward
    steps = follow_head(attention, head, row)
    with key:
        pair = _choose_key(trace, steps, (kind, layer, head, row), grid.columns)
    shares = head_shares(attention, row)
    hidden = follow_feed_forward(feed_forward, row)
    after = follow_residual(attention, shares.output, row)
    end = follow_residual(feed_forward, hidden.output, row)
    show_projections(selection, attention, steps, grid.rows[row], grid.columns)
    show_scores(selection, steps, attention.allowed[row], grid.columns, pair)
    show_contributions(selection, steps, pair, grid.columns[pair])
    show_weighted(selection, steps, grid.columns)
    show_shares(selection, attention, shares, head)
    show_residual(selection, attention, after, "5. Residual connection and norm", "attention")
    show_feed_forward(selection, record, kind, hidden)
    show_residual(selection, feed_forward, end, "7. Residual and norm again", "feed_forward")
    _show_deviations(record, head, row)


def _choose_row(trace: Trace, kind: Kind, grid: Grid) -> int:
    begin_with("query", 0, of=(trace.source.ids, trace.target_ids, kind == "encoder_self"))
    row: int = st.selectbox(
        "Query" if kind == "encoder_self" else f"Query: {grid.row_title}",
        range(len(grid.rows)),
        format_func=lambda row: f"{row + 1}: {grid.rows[row]}",
        key="query",
    )
    return row


def _choose_key(
    trace: Trace, steps: HeadSteps, query: tuple[Kind, int, int, int], columns: Sequence[str]
) -> int:
    """The key to take apart: the heaviest, until another is chosen or another query.

    It stays with another checkpoint, so that a pair can be followed through the training.
    """
    begin_with("pair", int(steps.weights.argmax()), of=(trace.source.ids, trace.target_ids, query))
    key: int = st.selectbox(
        "Key to take apart",
        range(len(columns)),
        format_func=lambda key: f"{key + 1}: {columns[key]}",
        key="pair",
    )
    return key


def _show_deviations(record: LayerTrace, head: int, row: int) -> None:
    off = deviations(record, head, row)
    largest = ", ".join(f"{name} {deviation:.0e}" for name, deviation in off.items())
    st.caption(
        "All of this is computed here, in double precision, from what entered the layer and from "
        f"its weights. Largest distance from what the model computed: {plain(largest)}."
    )
