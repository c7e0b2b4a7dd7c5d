"""Show the example sentences by how their translation may have failed, the worst first."""

from __future__ import annotations

import streamlit as st

from headwise.viz_app.analysis.failures import FAILURE_DESCRIPTIONS, compare_with_chrf, worst_first
from headwise.viz_app.components.row_table import MarkedText, Row, TextPart, row_table
from headwise.viz_app.records.measures import FAILURES, Measures
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.opening import open_page
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.special_tokens import special_tokens_of
from headwise.viz_app.views.shared.widgets import choose_one, show_heading

_MOST = 50
"""Most sentences that are listed."""


@panel("failures")
def show_failures(selection: Selection, measures: Measures) -> None:
    """Ask for a kind of failure, and list its worst sentences."""
    show_heading("Sentences that the model translates worst")
    name = choose_one(
        "By",
        FAILURES,
        key="failure",
        default=FAILURES[0],
        format_func=lambda name: FAILURE_DESCRIPTIONS[name].name,
    )
    about = FAILURE_DESCRIPTIONS[name]
    figures = [translated.figures[name] for translated in measures.translated]
    found = worst_first(name, figures)
    if found:
        _show_table(selection, measures, name, found[:_MOST])
    else:
        st.info(about.none)
    note = special_tokens_of(selection.run).name_in(about.note)
    scores = [translated.chrf for translated in measures.translated]
    more = f", the worst {_MOST} of {len(found)}" if len(found) > _MOST else ""
    listed = f" The worst first{more}. Click one to open it on Translate." if found else ""
    st.caption(escape_markdown(f"{note}{listed} {compare_with_chrf(name, figures, scores)}"))


def _show_table(selection: Selection, measures: Measures, name: str, order: list[int]) -> None:
    """Draw the table of some sentences, by their indices, with a figure of each."""
    run, about = selection.run, FAILURE_DESCRIPTIONS[name]

    def text(content: str, language: str) -> MarkedText:
        return MarkedText((TextPart(content),), language)

    rows = []
    for place in order:
        sentence, translated = measures.sentences[place], measures.translated[place]
        cells = (
            f"{round(translated.figures[name], 2) + 0.0:.2f}",  # no -0.00
            text(sentence.source, run.source_language),
            text(translated.translation or "(no text)", run.target_language),
            text(sentence.reference, run.target_language),
        )
        rows.append(Row(str(place), cells))
    row_table(
        [about.column, "source", f"translation at step {selection.step:,}", "reference"],
        rows,
        label=f"Sentences by {about.name}, the worst first",
        theme=selection.theme,
        key="failure_table",
        on_click=lambda place: open_page(
            "translate",
            sentence=measures.sentences[int(place)].source,
            target="",
            decoding="greedy",
        ),
        action="Open on Translate",
    )
