"""What a set of heads costs when all of them are off together, beside the costs of each alone."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.analysis.labels import NO_SUM_NOTE, OFF_NOTE, ONE_TRAINING_NOTE
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.together.cost import JointCost, joint_cost
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.asked import ask_sentences
from headwise.viz_app.session.head_choice import choose_heads, head_label
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection


@panel("heads_together")
def show_together(selection: Selection, measures: Measures) -> None:
    """Ask for heads, and say what the example sentences lose without all of them."""
    heads = choose_heads(
        selection.run.description.all_heads(), "Heads that are off together", key="heads_together"
    )
    count = measures.examples_corpus.sentences
    if not heads:
        st.caption(
            f"{NO_SUM_NOTE} Choose heads to measure what the {count:,} example sentences lose "
            f"without all of them at once. {OFF_NOTE}"
        )
        return
    sentences = Sentences.examples(selection.run, measures)
    found = ask_sentences(joint_cost, selection.run, selection.step, sentences, frozenset(heads))
    st.caption(joint_cost_in_words(found))


def joint_cost_in_words(found: JointCost) -> str:
    """Say what heads cost together and one by one, and whether the two differ."""
    alone = ", ".join(f"{head_label(head)} {cost:+.3f}" for head, cost in found.alone.items())
    together = with_error(found.together, found.together_error, "+.3f")
    summed = with_error(found.summed, found.summed_error, "+.3f")
    compared = with_error(found.beyond, found.beyond_error, "+.3f")
    if not abs(found.beyond) > 2 * found.beyond_error:
        compared += ", which may be chance"
    return (
        f"All off together they cost {together} nats per token of the targets of "
        f"{found.sentences:,} example sentences. One by one, on these (and not on all that the "
        f"list of heads has): {alone}; their sum is {summed}. What they cost together beyond it: "
        f"{compared}. {OFF_NOTE} {ONE_TRAINING_NOTE}"
    )
