"""Heads switched off: another translation, and what each head is worth to this one."""

from __future__ import annotations

import numpy as np
import streamlit as st

from viz_app.analysis.labels import KIND_NAMES
from viz_app.figures.costs import cost_map
from viz_app.records import KINDS, Head, Trace
from viz_app.views._session import Selection, head_costs_of, trace_of
from viz_app.views._widgets import panel, show_figure
from viz_app.views.address import check_asked, is_switch
from viz_app.views.choice import HEAD_PANELS, chosen_head, head_label, open_clicked
from viz_app.views.target import show_target, total_log_probability


@panel("ablation")
def show_ablation(selection: Selection, trace: Trace) -> None:
    """Let heads of any kind be switched off, and rank all of them."""
    st.markdown("##### Switch heads off")
    choice, ranking = st.columns([2, 3], gap="large")
    with choice:
        off = _choose_off(trace)
        if off:
            _show_translation_without(selection, trace, off)
        else:
            st.caption(
                "Choose heads of any kind: what they add to the stream is set to zero, and the "
                "sentence is translated anew."
            )
    with ranking:
        _show_ranking(selection, trace)


def _choose_off(trace: Trace) -> tuple[Head, ...]:
    layers, heads = trace.attention["cross"].shape[:2]
    options: list[Head] = [(k, i, h) for k in KINDS for i in range(layers) for h in range(heads)]
    names = [head_label(head) for head in options]
    check_asked("off", "Heads that are off", names.__contains__, named=head_label, several=True)
    chosen: list[Head] = st.multiselect(
        "Heads that are off",
        options,
        format_func=head_label,
        key="off",
        placeholder="kind, layer and head",
        bind="query-params",
    )
    return tuple(chosen)


def _show_translation_without(selection: Selection, trace: Trace, off: tuple[Head, ...]) -> None:
    run, step, text = selection.run, selection.step, selection.text
    own = trace_of(run, step, text, switched_off=off)
    forced = trace_of(run, step, text, trace.target_ids, switched_off=off)
    st.caption("The translation without them, shaded by probability")
    show_target(selection, own, key="without")
    before, after = map(total_log_probability, (trace, forced))
    same = "It is the same translation. " if own.target_ids == trace.target_ids else ""
    st.caption(
        f"{same}Log-probability of the translation above: {before:.2f} nats with all heads, "
        f"{after:.2f} without these ({after - before:+.2f})."
    )


def _show_ranking(selection: Selection, trace: Trace) -> None:
    check_asked("rank", "Rank all heads", is_switch)
    if not st.toggle(
        "Rank all heads",
        key="rank",
        bind="query-params",
        help="Switch off each head alone, all in one batch, and see what that costs the "
        "translation above.",
    ):
        return
    costs = head_costs_of(selection.run, selection.step, selection.text, trace.target_ids)
    figure = cost_map(costs, theme=selection.theme, names=KIND_NAMES, selected=chosen_head())
    show_figure(
        figure,
        key="costs",
        alt="What switching each head off costs the translation: a cell a head, kind by kind",
        name="cost-of-heads",
        on_select=lambda: open_clicked("costs", *HEAD_PANELS, show="head"),
    )
    dearest = sorted(
        (
            (float(cells[i, h]), (kind, i, h))
            for kind, cells in costs.items()
            for i, h in np.ndindex(cells.shape)
        ),
        reverse=True,
    )[:3]
    listed = ", ".join(f"{head_label(head)} ({cost:.2f})" for cost, head in dearest)
    st.caption(
        "Nats that the translation's log-probability loses without each head alone; below zero it "
        f"would gain. Dearest: {listed}. A head that costs nothing alone may still matter together "
        "with others. Click a head to enlarge its map."
    )
