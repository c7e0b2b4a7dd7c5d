"""Switch heads off: show the translation without them, and what each head contributes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.interface import Head
from headwise.model.turned import Turned, TurnedHead
from headwise.viz_app.analysis.head_ranking import (
    rank_correlation,
    rank_correlation_interval,
    rank_heads,
)
from headwise.viz_app.analysis.labels import KIND_NAMES, NO_SUM_NOTE, OFF_NOTE
from headwise.viz_app.figures.mosaic import cost_map
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import HeadMeans, head_costs_of, head_means_of, trace_of
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.head_choice import choose_clicked_head, head_label, turned_label
from headwise.viz_app.views.shared.measures import corpus_options, measure_command, measures_of
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.target import show_target, total_log_probability
from headwise.viz_app.views.shared.view import change_view, control, view
from headwise.viz_app.views.shared.widgets import choose_one, show_figure, show_link
from headwise.viz_app.views.translate.shown_map import HEAD_PANELS, shown_head

_TELLS = {
    "zero": f"{OFF_NOTE} That also takes away what the head says of every sentence: it may look "
    "important only because the rest was never trained without it.",
    "mean": "In place of its output stands its mean over the corpus that was measured (Wang et al. "
    "2022), so that only what it says of this sentence is lost.",
}
_COSTLIEST = 3
_TARGET_NOTES = {
    False: "The target is the model's own translation, which may be wrong.",
    True: "The target is your translation.",
}


def show_ablation(selection: Selection, trace: Trace) -> None:
    """Ask for heads to switch off, and rank all heads by their cost."""
    choice, ranking = st.columns([2, 3], gap="large")
    with choice:
        turned = _choose_off(trace)
        if turned:
            _show_translation_without(selection, trace, turned)
        else:
            st.caption(
                "Choose heads of any kind: they are off together, and the sentence is translated "
                f"again. {OFF_NOTE}"
            )
        show_link("Turn heads up, down or around", "why", key="turn-heads", why="turn heads")
    with ranking:
        _show_ranking(selection, trace)


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
        **control("strengths", label, usable=lambda each: each.head in heads, written=turned_label),
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
        f"{same}Log-probability of the translation above: {before:.2f} nats with all heads, "
        f"{after:.2f} {without} ({after - before:+.2f})."
    )


def _show_ranking(selection: Selection, trace: Trace) -> None:
    if not st.toggle(
        "Rank all heads",
        help="Take each head alone out of the model, all in one batch, and see what that costs the "
        "translation above.",
        **control("rank", "Rank all heads"),
    ):
        return
    instead = choose_one("In place of a head's output", list(_TELLS), key="ablation")
    means = None
    if instead == "mean" and (means := _means(selection)) is None:
        return
    run, step, text = selection.run, selection.step, selection.text
    costs = head_costs_of(run, step, text, trace.target_ids, means=means)
    figure = cost_map(
        costs,
        theme=selection.theme,
        names=KIND_NAMES,
        selected=shown_head(selection.run.description),
    )
    what = "switching each head off" if means is None else "the mean in place of each head"
    show_figure(
        figure,
        key="costs",
        alt=f"What {what} costs the translation: a cell a head, kind by kind",
        name="cost-of-heads" if means is None else "cost-of-heads-mean",
        on_select=lambda: choose_clicked_head("costs", *HEAD_PANELS, show="head"),
    )
    ranked = rank_heads(costs)
    costliest = ranked[:_COSTLIEST]
    listed = ", ".join(f"{head_label(head)} ({cost:.2f})" for head, cost in costliest)
    st.caption(
        "Nats that the translation's log-probability loses without each head alone; below zero it "
        f"would gain. Most costly: {listed}. {_TELLS[instead]} {NO_SUM_NOTE} "
        f"{_TARGET_NOTES[bool(view().target.strip())]} Click a head to enlarge its map."
    )
    st.button(
        f"Switch these {len(costliest)} off",
        key="costliest-off",
        on_click=lambda: change_view(strengths=tuple(TurnedHead(head) for head, _ in costliest)),
    )
    if means is None and (measures := measures_of(run, [step]).by_step.get(step)) is not None:
        st.caption(_beside_corpus(ranked, measures))


def _beside_corpus(ranked: Sequence[tuple[Head, float]], measures: Measures) -> str:
    """Say how the ranking of one sentence relates to that of a corpus."""
    places = {head: place for place, (head, _) in enumerate(rank_heads(measures.values["cost"]), 1)}
    shared = [(head, cost) for head, cost in ranked if head in places]
    there = [float(measures.values["cost"][h.kind][h.layer, h.head]) for h, _ in shared]
    here = [cost for _, cost in shared]
    both, (low, high) = rank_correlation(here, there), rank_correlation_interval(here, there)
    first = "; ".join(
        f"{head_label(head)} is number {places[head]} of {len(places)} there, "
        f"{there[place]:.3f} ± {measures.cost_errors[head.kind][head.layer, head.head]:.3f} nats a "
        "token"
        for place, (head, _) in enumerate(shared[:_COSTLIEST])
    )
    said = f"Over {measures.corpus.sentences:,} sentences, against their references: {first}."
    if not math.isnan(both):
        said += (
            f" The rank correlation of the two rankings is {both:+.2f}, 95% interval {low:+.2f} to "
            f"{high:+.2f} by resamples of the heads; rankings that have nothing to do with each "
            "other have 0."
        )
    return f"{said} A cost in one sentence has no error, and says nothing of other sentences."


def _means(selection: Selection) -> HeadMeans | None:
    """Return the heads' means at this checkpoint, or say which command measures them."""
    run, step = selection.run, selection.step
    try:
        means = head_means_of(run, step)
    except CheckpointError as problem:
        st.warning(describe_error(problem))
        return None
    if means is None:
        st.info("The heads' means at this checkpoint have not been measured. In a terminal:")
        st.code(
            measure_command(run, *corpus_options(run, [step]), "--only", "means"), language=None
        )
    return means
