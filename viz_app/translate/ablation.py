"""Switch heads off, and rank all heads: by what the translation loses, or by where they look.

Where they look is measured as it is over a corpus, and stands beside what an even head has.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.interface import Head
from headwise.model.turned import Turned, TurnedHead
from headwise.viz_app.analysis.head_ranking import correlation_in_words, rank_heads
from headwise.viz_app.analysis.labels import KIND_NAMES, NO_SUM_NOTE, OFF_NOTE
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.figures.heads import cost_map
from headwise.viz_app.measuring.head_measures import MEAN_ABLATION
from headwise.viz_app.measuring.sums import MeasuredSentence, measure_sentence
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import HeadMeans, head_costs_of, head_means_of, trace_of
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.given import given_measures
from headwise.viz_app.session.head_choice import (
    choices_for,
    choose_clicked_head,
    head_label,
    turned_label,
)
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measured_heads import error_of
from headwise.viz_app.session.measures import (
    corpus_options,
    measure_command,
    measure_description,
    measures_of,
    targets_of,
)
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target, total_log_probability
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, control, redraw_all, view
from headwise.viz_app.session.widgets import (
    bring_if_asked,
    choose_from_list,
    choose_one,
    show_figure,
    show_link,
)
from headwise.viz_app.translate.shown_map import HEAD_PANELS, shown_head

_TELLS = {
    "zero": f"{OFF_NOTE} Zero also takes away what the head says of every sentence.",
    "mean": "In place of its output stands its mean over the corpus that was measured (Wang et al. "
    "2022), so that only what it says of this sentence is lost.",
}
_FIRST = 3
_TARGET_NOTES = {
    False: "The target is the model's own translation, which may be wrong.",
    True: "The target is your translation.",
}


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


def _show_ranking(selection: Selection, trace: Trace) -> None:
    if not st.toggle(
        "Rank all heads",
        help="By what the translation above loses without each head alone, or by where the heads "
        "look in this sentence.",
        **control("rank", "Rank all heads"),
    ):
        return
    run = selection.run
    measured = cached(
        "sentence measured",
        (trace.sha256, run.tokenizers_sha256, trace.source.ids, trace.target_ids, trace.turned),
        lambda: measure_sentence(trace, run.tokenizers, run.counts),
        facts=lambda _: {"run": run.name, "step": trace.step},
    )
    names = {"cost": "what the translation loses without it"} | {
        name: measure_description(name, run, ()).name for name in measured.values
    }
    by = choose_from_list("By", list(names), key="ranked_by", format_func=names.__getitem__)
    ranked = (
        _rank_by_cost(selection, trace)
        if by == "cost"
        else _rank_by_look(selection, measured, by, names[by])
    )
    if ranked:
        first = tuple(TurnedHead(head) for head, _ in ranked[:_FIRST])
        st.button(
            f"Switch these {len(first)} off",
            key="costliest-off",
            # A head's words, above, say whether it is off.
            on_click=lambda: change_view(WHOLE_PAGE, strengths=first),
        )


def _rank_by_look(
    selection: Selection, measured: MeasuredSentence, by: str, name: str
) -> list[tuple[Head, float]]:
    values, even = measured.values[by], measured.even[by]
    ranked = rank_heads(values, kinds=tuple(values))
    heads = {str(place): head for place, (head, _) in enumerate(ranked)}
    shown = shown_head(selection.run.description)
    row_table(
        ["head", name, "an even head"],
        [
            Row(place, (head_label(head), Bar(value, f"{value:.2f}"), f"{even[head.kind]:.2f}"))
            for (place, head), (_, value) in zip(heads.items(), ranked, strict=True)
        ],
        label=f"{len(ranked)} heads by {name} in this sentence",
        theme=selection.theme,
        key="looking",
        chosen=next((place for place, head in heads.items() if head == shown), ""),
        on_click=lambda place: change_view(*HEAD_PANELS, **choices_for(heads[place]), show="head"),
        action="Enlarge its map",
    )
    note = measure_description(by, selection.run, ()).note
    st.caption(
        escape_markdown(
            f"{note} Means over the rows of this sentence that have several keys, token by token. "
            "An even head looks with the same weight at every key that it may look at. A value in "
            "one sentence has no error, and says nothing of other sentences."
        )
    )
    return ranked


def _rank_by_cost(selection: Selection, trace: Trace) -> list[tuple[Head, float]]:
    """Draw what the translation loses without each head alone, and return the heads by that."""
    instead = choose_one("In place of a head's output", list(_TELLS), key="ablation")
    means = None
    if instead == "mean" and (means := _means(selection)) is None:
        return []
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
    costliest = ranked[:_FIRST]
    listed = ", ".join(f"{head_label(head)} ({cost:.2f})" for head, cost in costliest)
    st.caption(
        "Nats that the translation's log-probability loses without each head alone; below zero it "
        f"would gain. Most costly: {listed}. {_TELLS[instead]} {NO_SUM_NOTE} "
        f"{_TARGET_NOTES[bool(view().target.strip())]} Click a head to enlarge its map."
    )
    if means is not None:
        zero = dict(rank_heads(head_costs_of(run, step, text, trace.target_ids, means=None)))
        if both := correlation_in_words(
            [zero[head] for head, _ in ranked], [cost for _, cost in ranked], "heads"
        ):
            st.caption(f"The rank correlation with what zero in its place costs is {both}.")
    name = "cost" if means is None else MEAN_ABLATION
    measures = measures_of(run, [step]).by_step.get(step)
    if measures is not None and rank_heads(measures.values[name]):
        st.caption(_beside_corpus(ranked, measures, name))
    return ranked


def _beside_corpus(ranked: Sequence[tuple[Head, float]], measures: Measures, name: str) -> str:
    """Say how the ranking of one sentence relates to that of a corpus by a measure."""
    values = measures.values[name]
    places = {head: place for place, (head, _) in enumerate(rank_heads(values), 1)}
    shared = [(head, cost) for head, cost in ranked if head in places]
    there = [float(values[h.kind][h.layer, h.head]) for h, _ in shared]
    here = [cost for _, cost in shared]
    first = "; ".join(
        f"{head_label(head)} is number {places[head]} of {len(places)} there, "
        f"{with_error(there[place], error_of(measures, name, head))} nats a token"
        for place, (head, _) in enumerate(shared[:_FIRST])
    )
    said = f"Over {measures.corpus.sentences:,} sentences, against {targets_of(measures)}: {first}."
    if both := correlation_in_words(here, there, "heads"):
        said += (
            f" The rank correlation of the two rankings is {both}; rankings that have nothing to "
            "do with each other have 0."
        )
    return f"{said} A cost in one sentence has no error, and says nothing of other sentences."


def _means(selection: Selection) -> HeadMeans | None:
    """Return the heads' means at this checkpoint, or say which command measures them."""
    run, step = selection.run, selection.step
    try:
        here = given_measures(run, step)
        means = head_means_of(run, step) if here is None else here.means
    except CheckpointError as problem:
        st.warning(describe_error(problem))
        return None
    if means is None:
        st.info("The heads' means at this checkpoint have not been measured. In a terminal:")
        st.code(
            measure_command(run, *corpus_options(run, [step]), "--only", "means"), language=None
        )
    return means
