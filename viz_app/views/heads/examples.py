"""Show one head: all its measures, and the example sentences where it is strongest."""

from __future__ import annotations

import streamlit as st

from headwise.model.interface import Head
from headwise.viz_app.analysis.head_ranking import head_values
from headwise.viz_app.analysis.labels import ROLES
from headwise.viz_app.components.row_table import Row, TextPart, row_table
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.views.heads.compared import change_note
from headwise.viz_app.views.heads.sentences import marked_row, open_row
from headwise.viz_app.views.shared.head_choice import choices_for, choose_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.measured_heads import choices_over_training, value_in_words
from headwise.viz_app.views.shared.measures import known_measures, measure_description, targets_of
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import redraw_all, view
from headwise.viz_app.views.shared.widgets import (
    THE_HEAD_ALONE,
    open_page,
    show_heading,
    show_link,
)


@panel("head_examples")
def show_examples(selection: Selection, measures: Measures) -> None:
    """Ask for a head, and draw its measures and examples."""
    show_heading("One head and its strongest examples")
    head = choose_head(selection.run.description, on_change=redraw_all)
    measured, examples = st.columns([2, 5], gap="large")
    with measured:
        values = head_values(measures.values, head)
        lines = [
            value_in_words(selection.run, measures, name, head, value)
            for name, value in values.items()
            if value == value and (name != "distance" or measures.distance_to != measures.step)
        ]
        for name in dict.fromkeys(("cost", view().measure)):
            if name not in known_measures((measures,)):
                continue  # of an address; the list, which is drawn later, says so
            about = measure_description(name, selection.run, (measures,))
            what = "cost" if name == "cost" else about.name
            lines += filter(None, [change_note(selection.run, measures, name, head, what)])
        st.markdown(f"**{head_label(head)}**")
        st.button(
            "Open it on Translate",
            key="open_head",
            icon=":material/open_in_new:",
            on_click=lambda: open_page("translate", **choices_for(head), **THE_HEAD_ALONE),
        )
        over_training = choices_over_training(selection.run, measures, head)
        show_link("Over training: since when", "training", key="head-training", **over_training)
        st.caption("\n".join(f"- {escape_markdown(line)}" for line in lines))
    with examples:
        _show_examples(selection, measures, head)


def _show_examples(selection: Selection, measures: Measures, head: Head) -> None:
    kind, run = head[0], selection.run
    found = measures.examples.get(head, ())
    if not found:
        st.caption("No example of this head was kept.")
        return
    rows = []
    for place, example in enumerate(found):
        spans = marked_row(run, measures, example.sentence, kind, example.query, [example.key])
        rows.append(Row(str(place), (f"{example.weight:.3f}", *spans)))

    def open_example(name: str) -> None:
        example = found[int(name)]
        open_row(measures, head, example.sentence, example.query)

    roles = [TextPart(text, mark) for text, mark in zip(ROLES[kind], ("query", "key"), strict=True)]
    row_table(
        ["weight", "source", f"target: {targets_of(measures)}"],
        rows,
        label=f"Strongest examples of {head_label(head)}",
        theme=selection.theme,
        key="example_table",
        on_click=open_example,
        action="Open on Translate, this target forced",
        legend=roles,
    )
    corpus = measures.examples_corpus
    st.caption(
        f"The largest weights of this head in {corpus.sentences:,} sentences "
        f"({escape_markdown(corpus.name)}), at most one a sentence: its extremes, not what it does "
        "in most rows. A weight is of two tokens; the words that they belong to are marked. Click "
        "one to open it on Translate, with this target forced."
    )
