"""List sentences by a sign that their translation may have failed."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.components.row_table import MarkedText, Row, TextPart, row_table
from headwise.viz_app.errors.sentences.failures import (
    FAILURE_DESCRIPTIONS,
    compare_with_chrf,
    worst_first,
)
from headwise.viz_app.records.measures import FAILURES, Measures
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measures import measures_of, show_measure_state, targets_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.vocabulary import special_tokens_of
from headwise.viz_app.session.widgets import choose_one, open_page

_MOST = 50
"""Most sentences that are listed."""


def show_failures(selection: Selection) -> None:
    """Draw the sentences of the checkpoint, where it was measured, and what it was measured on."""
    measured = measures_of(selection.run, (selection.step,))
    if measures := measured.by_step.get(selection.step):
        _show_sentences(selection, measures)
    show_measure_state(selection, measured)


@panel("failures")
def _show_sentences(selection: Selection, measures: Measures) -> None:
    """Ask for a kind of failure, and list its worst sentences."""
    name = choose_one(
        "Sorted by",
        FAILURES,
        key="failure",
        default=FAILURES[0],
        format_func=lambda name: FAILURE_DESCRIPTIONS[name].name,
    )
    about = FAILURE_DESCRIPTIONS[name]
    figures = [translated.figures[name] for translated in measures.translated]
    sources = [sentence.source for sentence in measures.sentences]
    scores = [translated.chrf for translated in measures.translated]
    found = worst_first(figures, sources)
    if found:
        count = f"{_MOST} of {len(found)}" if len(found) > _MOST else f"{len(found)}"
        st.caption(
            f"{count} sentences, the worst for their length first: where to look, not what is "
            "wrong. Click one to open it."
        )
        _show_table(selection, measures, name, found[:_MOST])
    else:
        st.info(about.none)
    with st.expander("How well this order finds them", key="how-well", type="compact"):
        note = special_tokens_of(selection.run).name_in(about.note)
        compared = cached(
            "order beside chrF",
            (np.array([figures, scores]).tobytes(), *sources),
            lambda: compare_with_chrf(figures, scores, sources),
        )
        st.caption(escape_markdown(f"{note} {about.blind}") + f"\n\n{compared}")


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
        [
            about.column,
            "source",
            f"translation at checkpoint {selection.step:,}",
            targets_of(measures),
        ],
        rows,
        label=f"Sentences by {about.name}",
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
