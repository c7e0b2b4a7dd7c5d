"""Draw the page Inside a head: ask for head, query and key, and show each step of the layer."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headwise.model.interface import Kind
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.grid import Grid, make_grid
from headwise.viz_app.analysis.inside import (
    HeadSteps,
    deviations,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
)
from headwise.viz_app.analysis.labels import numbered
from headwise.viz_app.records.model import LayerTrace
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
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import choose_trace
from headwise.viz_app.views.shared.view import control


def page(selection: Selection) -> None:
    """Draw the page."""
    trace = choose_trace(selection)
    _show_head(selection, trace)
    show_download_menu(selection, trace)


@panel("inside")
def _show_head(selection: Selection, trace: Trace) -> None:
    kind, layer, head = choose_head(selection.run.description)
    grid = make_grid(trace, kind)
    query, key = st.columns(2, gap="medium")
    with query:
        row = _choose_row(kind, grid)
    st.session_state["files"] = (
        f"headwise-{trace.run}-{trace.step}-{kind}-layer{layer + 1}-head{head + 1}-query{row + 1}"
    )
    record = layer_trace_of(selection.run, trace, kind, layer)
    attention, feed_forward = record.attention, record.feed_forward
    steps = follow_head(attention, head, row)
    with key:
        pair = _choose_key(steps, grid.columns)
    shares = head_shares(attention, row)
    hidden = follow_feed_forward(feed_forward, row)
    after = follow_residual(attention, shares.output, row)
    end = follow_residual(feed_forward, hidden.output, row)
    show_projections(selection, attention, steps, grid.rows[row], grid.columns)
    show_scores(
        selection,
        steps,
        attention.allowed[row],
        grid.columns,
        pair,
        scaled=selection.run.description.scale_scores,
    )
    show_contributions(selection, steps, pair, grid.columns[pair])
    show_weighted(selection, steps, grid.columns)
    show_shares(selection, attention, shares, head)
    show_residual(selection, attention, after, "5. Residual connection and norm", "attention")
    show_feed_forward(selection, record, kind, hidden)
    title = "7. Residual connection and norm again"
    show_residual(selection, feed_forward, end, title, "feed_forward")
    _show_deviations(record, head, row)


def _choose_row(kind: Kind, grid: Grid) -> int:
    rows, written = range(len(grid.rows)), numbered(grid.rows).__getitem__

    row: int = st.selectbox(
        "Query" if kind == "encoder_self" else f"Query: {grid.row_title}",
        rows,
        format_func=written,
        **control("query", "Query", usable=rows.__contains__, written=written),
    )
    return row


def _choose_key(steps: HeadSteps, columns: Sequence[str]) -> int:
    """Ask for the key to inspect: at first the one with the largest weight.

    The choice stays with another checkpoint, so that a pair can be followed through the training.
    """
    label, keys, heaviest = "Key to inspect", range(len(columns)), int(first_largest(steps.weights))
    written = numbered(columns).__getitem__
    key: int = st.selectbox(
        label,
        keys,
        format_func=written,
        **control("key", label, default=heaviest, usable=keys.__contains__, written=written),
    )
    return key


def _show_deviations(record: LayerTrace, head: int, row: int) -> None:
    off = deviations(record, head, row)
    largest = ", ".join(f"{name} {deviation:.0e}" for name, deviation in off.items())
    st.caption(
        "All of this is computed here, in double precision, from what entered the layer and from "
        f"its weights. Largest distance from what the model computed: {escape_markdown(largest)}."
    )
