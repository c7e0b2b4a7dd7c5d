"""Show the chosen head: the example sentences where it is strongest, and all its measures."""

from __future__ import annotations

import streamlit as st

from headwise.model.interface import Head
from headwise.viz_app.analysis.head_ranking import head_values
from headwise.viz_app.analysis.labels import ROLES
from headwise.viz_app.components.row_table import Row, TextPart, row_table
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.views.heads.compared import change_note
from headwise.viz_app.views.shared.example_rows import marked_row, open_row
from headwise.viz_app.views.shared.head_choice import chosen_head, head_label
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.measured_heads import value_in_words
from headwise.viz_app.views.shared.measures import measure_description, targets_of
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import view


def show_examples(selection: Selection, measures: Measures) -> None:
    """Draw the examples of the head, and its measures."""
    run = selection.run
    head = chosen_head(run.description, view())
    _show_examples(selection, measures, head)
    lines = [
        value_in_words(run, measures, name, head, value)
        for name, value in head_values(measures.values, head).items()
        if value == value and (name != "distance" or measures.distance_to != measures.step)
    ]
    for name in dict.fromkeys(("cost", view().measure)):
        about = measure_description(name, run, (measures,))
        what = "cost" if name == "cost" else about.name
        lines += filter(None, [change_note(run, measures, name, head, what)])
    with st.expander("All its measures", key="all-measures", type="compact"):
        st.caption("\n".join(f"- {escape_markdown(line)}" for line in lines))


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
        f"Its largest weights in {corpus.sentences:,} sentences ({escape_markdown(corpus.name)}), "
        "at most one a sentence: its extremes, not what it does in most rows. Click one to open it "
        "on Translate, with this target forced."
    )
