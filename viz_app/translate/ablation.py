"""Switch heads off, show the translation without them, and rank all heads."""

from __future__ import annotations

import streamlit as st

from headwise.model.turned import Turned, TurnedHead
from headwise.viz_app.analysis.labels import OFF_NOTE
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import trace_of
from headwise.viz_app.session.head_choice import turned_label
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target, total_log_probability
from headwise.viz_app.session.view import control, redraw_all, view
from headwise.viz_app.session.widgets import bring_if_asked, show_link
from headwise.viz_app.translate.ranking import show_ranking


def show_ablation(selection: Selection, trace: Trace) -> None:
    """Ask for heads to switch off, and rank all heads by their cost."""
    choice, ranking = st.columns([2, 3], gap="large")
    with choice, st.container(key="switched-off"):
        turned = _choose_off(trace)
        if turned:
            _show_translation_without(selection, trace, turned)
        else:
            st.caption(
                "Choose heads of any kind: they are off together, and the sentence is translated "
                f"again. {OFF_NOTE}"
            )
        show_link("Turn heads up, down or around", "why", key="turn-heads", why="turn heads")
    bring_if_asked("switched-off")
    with ranking:
        show_ranking(selection, trace)


def _choose_off(trace: Trace) -> Turned:
    """Ask for heads that are off; those that have another strength stay as they are."""
    heads = trace.heads
    others = {each.head: each for each in view().strengths if each.strength}
    label = "Heads that are off"
    chosen: list[TurnedHead] = st.multiselect(
        label,
        [others.get(head, TurnedHead(head)) for head in heads],
        format_func=turned_label,
        placeholder="kind, layer and head",
        **control(
            "strengths",
            label,
            usable=lambda each: each.head in heads,
            written=turned_label,
            on_change=redraw_all,  # a head's words, above, say whether it is off
        ),
    )
    return Turned(tuple(chosen))


def _show_translation_without(selection: Selection, trace: Trace, turned: Turned) -> None:
    run, step, text = selection.run, selection.step, selection.text
    own = trace_of(run, step, text, turned=turned)
    forced = trace_of(run, step, text, trace.target_ids, turned=turned)
    only_off = len(turned.are_off) == len(turned.strengths)
    without = "without these" if only_off else "with these turned"
    st.caption(f"The translation {'without them' if only_off else without}, shaded by probability")
    show_target(selection, own, key="without")
    before, after = map(total_log_probability, (trace, forced))
    same = "It is the same translation. " if own.target_ids == trace.target_ids else ""
    st.caption(
        f"{same}Log-probability of “{escape_markdown(trace.target_text)}”: {before:.2f} nats with "
        f"all heads, {after:.2f} {without} ({after - before:+.2f})."
    )
