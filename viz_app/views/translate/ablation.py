"""Switch heads off: show the translation without them, and what each head contributes."""

from __future__ import annotations

import streamlit as st

from headwise.model.interface import Head
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.figures.costs import cost_map
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import head_costs_of, trace_of
from headwise.viz_app.views.shared.head_choice import choose_clicked_head, choose_heads, head_label
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import show_target, total_log_probability
from headwise.viz_app.views.shared.view import control
from headwise.viz_app.views.shared.widgets import show_figure
from headwise.viz_app.views.translate.shown_map import HEAD_PANELS, shown_head


def show_ablation(selection: Selection, trace: Trace) -> None:
    """Ask for heads to switch off, and rank all heads by their cost."""
    choice, ranking = st.columns([2, 3], gap="large")
    with choice:
        off = tuple(choose_heads(trace.heads, "Heads that are off", key="off"))
        if off:
            _show_translation_without(selection, trace, off)
        else:
            st.caption(
                "Choose heads of any kind: what they add to the stream is set to zero, and the "
                "sentence is translated again."
            )
    with ranking:
        _show_ranking(selection, trace)


def _show_translation_without(selection: Selection, trace: Trace, off: tuple[Head, ...]) -> None:
    run, step, text = selection.run, selection.step, selection.text
    own = trace_of(run, step, text, ablated=off)
    forced = trace_of(run, step, text, trace.target_ids, ablated=off)
    st.caption("The translation without them, shaded by probability")
    show_target(selection, own, key="without")
    before, after = map(total_log_probability, (trace, forced))
    same = "It is the same translation. " if own.target_ids == trace.target_ids else ""
    st.caption(
        f"{same}Log-probability of the translation above: {before:.2f} nats with all heads, "
        f"{after:.2f} without these ({after - before:+.2f})."
    )


def _show_ranking(selection: Selection, trace: Trace) -> None:
    if not st.toggle(
        "Rank all heads",
        help="Switch off each head alone, all in one batch, and see what that costs the "
        "translation above.",
        **control("rank", "Rank all heads"),
    ):
        return
    costs = head_costs_of(selection.run, selection.step, selection.text, trace.target_ids)
    figure = cost_map(
        costs,
        theme=selection.theme,
        names=KIND_NAMES,
        selected=shown_head(selection.run.description),
    )
    show_figure(
        figure,
        key="costs",
        alt="What switching each head off costs the translation: a cell a head, kind by kind",
        name="cost-of-heads",
        on_select=lambda: choose_clicked_head("costs", *HEAD_PANELS, show="head"),
    )
    costliest = rank_heads(costs)[:3]
    listed = ", ".join(f"{head_label(head)} ({cost:.2f})" for head, cost in costliest)
    st.caption(
        "Nats that the translation's log-probability loses without each head alone; below zero it "
        f"would gain. Most costly: {listed}. A head that costs nothing alone may still matter "
        "together with others. Click a head to enlarge its map."
    )
