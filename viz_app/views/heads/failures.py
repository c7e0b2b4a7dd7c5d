"""Show the example sentences by how their translation may have failed, the worst first."""

from __future__ import annotations

import math
from dataclasses import replace

import streamlit as st

from viz_app.analysis.failures import FAILURE_DESCRIPTIONS, worst_first
from viz_app.components.row_table import MarkedText, Row, TextPart, row_table
from viz_app.records.measures import FAILURES, Measures
from viz_app.views.shared.markdown import escape_markdown
from viz_app.views.shared.opening import open_page
from viz_app.views.shared.panels import panel
from viz_app.views.shared.selection import Selection
from viz_app.views.shared.special_tokens import special_tokens_of
from viz_app.views.shared.widgets import choose_one, show_heading

_MOST = 50
"""Most sentences that are listed."""


@panel("failures")
def show_failures(selection: Selection, measures: Measures) -> None:
    """Ask for a kind of failure, and draw the table of its worst sentences."""
    show_heading("Sentences that the model translates worst")
    tokens = special_tokens_of(selection.run)
    described = {
        key: replace(about, name=tokens.name_in(about.name), note=tokens.name_in(about.note))
        for key, about in FAILURE_DESCRIPTIONS.items()
    }
    name = choose_one(
        "By",
        FAILURES,
        key="failure",
        default=FAILURES[0],
        format_func=lambda name: escape_markdown(described[name].name),
    )
    about = described[name]
    figures = [translated.figures[name] for translated in measures.translated]
    if not figures:
        st.info("There are no example sentences in these measures.")
        return
    order = worst_first(name, figures)[:_MOST]
    run = selection.run

    def text(content: str, language: str) -> MarkedText:
        return MarkedText((TextPart(content),), language)

    rows = [
        Row(
            str(place),
            (
                "–" if math.isnan(figures[place]) else f"{figures[place]:.2f}",
                text(measures.sentences[place].source, run.source_language),
                text(measures.translated[place].translation or "(no text)", run.target_language),
                text(measures.sentences[place].reference, run.target_language),
            ),
        )
        for place in order
    ]
    row_table(
        [about.name, "source", f"translation at step {selection.step:,}", "reference"],
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
    more = f", the worst {len(rows)} of {len(figures)}" if len(rows) < len(figures) else ""
    weights = name in ("coverage", "end")
    st.caption(
        escape_markdown(about.note)
        + " Weights are of the mean of the last layer's cross-attention heads." * weights
        + f" The worst first{more}. Click one to open it on Translate."
    )
