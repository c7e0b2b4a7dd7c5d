"""The page as a whole: how maps are read, the translation, heads, and the step of decoding."""

from __future__ import annotations

from typing import get_args

import streamlit as st

from viz_app.analysis.grid import Lead, Reading
from viz_app.analysis.labels import piece_labels
from viz_app.figures.tokens import token_row
from viz_app.records import Trace
from viz_app.views._session import Selection, trace_of
from viz_app.views._widgets import choose_one, forget_unless, plain, problems_in_place, take_choices
from viz_app.views.address import check_asked, is_switch
from viz_app.views.choice import choose_units
from viz_app.views.take import show_take
from viz_app.views.target import choose_decoding, choose_target, show_target, total_log_probability
from viz_app.views.translate.ablation import show_ablation
from viz_app.views.translate.beam import show_tree
from viz_app.views.translate.heads import show_heads
from viz_app.views.translate.step import show_step


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        with st.sidebar:
            size = choose_decoding()
            reading = _choose_reading()
            second_step = _choose_second_step(selection)
        target = choose_target(selection, size)
        own = trace_of(selection.run, selection.step, selection.text, target.ids)
        _show_translation(selection, own, target.whose)
        if second_step is None:
            first, second, shared = own, None, ""
        else:
            given = target.whose if target.given else ""
            shared, common = _shared_target(selection, own, second_step, given)
            first, second = (
                trace_of(selection.run, step, selection.text, common)
                for step in (selection.step, second_step)
            )
        # A new sentence has other steps: drop a choice that it does not have before it is read.
        take_choices()
        forget_unless("at", range(len(first.consumed)))
        show_heads(selection, first, second, reading, shared=shared)
        show_step(selection, first, reading)
        if target.beam is not None:
            show_tree(selection, target.beam, target.hypothesis)
        show_ablation(selection, own)
        _show_checks(first)
        with st.sidebar:
            show_take(selection, own, reading)


def _choose_reading() -> Reading:
    units = choose_units()
    lead = choose_one(
        "Decoder rows by",
        get_args(Lead),
        key="rows",
        default="predicted",
        help="A decoder row consumes one piece and predicts the next. Both are in its label; this "
        "says which leads, and by which of them rows are put together to words.",
    )
    check_asked("special", "Special tokens", is_switch)
    special = st.toggle(
        "Special tokens",
        value=True,
        key="special",
        bind="query-params",
        help="Rows and columns of `<s>`, with which every target begins, and `</s>`, which ends "
        "source and target. Heads with nothing to do often rest on them.",
    )
    if special:
        return Reading(units, lead)
    check_asked("renormalised", "Rows sum to 1 again", is_switch)
    renormalised = st.toggle(
        "Rows sum to 1 again",
        key="renormalised",
        bind="query-params",
        help="Scale what is left of each row to a sum of 1. Small weights then look large where "
        "most of the weight was on special tokens.",
    )
    return Reading(units, lead, False, renormalised)


def _choose_second_step(selection: Selection) -> int | None:
    others = [step for step in selection.run.steps() if step != selection.step]
    if not others:
        return None
    check_asked("compare", "Compare with another checkpoint", is_switch)
    if not st.toggle("Compare with another checkpoint", key="compare", bind="query-params"):
        return None
    if len(others) == 1:
        return others[0]
    check_asked("second", "Second checkpoint", [str(step) for step in others].__contains__)
    return st.select_slider(
        "Second checkpoint",
        others,
        value=others[len(others) // 2],
        key="second",
        bind="query-params",
    )


def _shared_target(
    selection: Selection, own: Trace, second_step: int, given: str
) -> tuple[str, tuple[int, ...]]:
    """The target of a comparison and its name: what was given, or the newer one's translation."""
    if given:
        return given, own.target_ids
    newest = max(selection.step, second_step)
    translation = (
        own if newest == selection.step else trace_of(selection.run, newest, own.source_text)
    )
    return f"the translation at step {newest:,}", translation.target_ids


def _show_translation(selection: Selection, trace: Trace, whose: str) -> None:
    info = selection.run.info
    labels = piece_labels(trace.source)
    st.html(token_row(labels, theme=selection.theme, language=info.source_language))
    show_target(selection, trace, key="translation")
    total = total_log_probability(trace)
    notes = [
        f"Pieces of the source, and of {whose} shaded by their probability; together "
        f"{total:.2f} nats, {total / len(trace.predicted):.2f} a piece."
    ]
    if len(trace.source) > info.data.longest_source:
        notes.append(
            f"With {len(trace.source)} pieces the sentence is longer than anything seen in "
            f"training ({info.data.longest_source})."
        )
    if unknown := selection.run.tokenizers.source.unknown(selection.text):
        words = plain(" · ".join(unknown))
        notes.append(f"Not in the vocabulary, so the model reads \\<unk\\>: {words}.")
    if trace.predicted.pieces[-1] != "</s>":
        notes.append("The model did not end the sentence; decoding was cut off at its limit.")
    st.caption(" ".join(notes))


def _show_checks(trace: Trace) -> None:
    """Whether the maps have the properties that every true map has."""
    failed = [check for check in trace.checks if not check.passed]
    if failed:
        st.warning(
            "Do not trust these maps. Not so: "
            + plain("; ".join(f"{c.name} (off by {c.deviation:.1e})" for c in failed))
        )
        return
    largest = ", ".join(f"{check.name} ({check.deviation:.1g})" for check in trace.checks)
    st.caption(f"Checked on this sentence, with the largest deviation: {plain(largest)}.")
