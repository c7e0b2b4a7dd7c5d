"""The example sentences by how their translation may have failed, the worst first."""

from __future__ import annotations

import math

import streamlit as st

from viz_app.analysis.failures import FAILURE_ABOUT, worst_first
from viz_app.components.picks import Row, Span, Spans, picks
from viz_app.measure_records import FAILURES, Measures
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_one, panel, plain
from viz_app.views.opening import open_on_translate

_MOST = 50
"""Sentences that are listed."""


@panel("failures")
def show_failures(selection: Selection, measures: Measures) -> None:
    """Draw them."""
    st.markdown("##### Sentences by failure")
    name = choose_one(
        "By",
        FAILURES,
        key="failure",
        default=FAILURES[0],
        format_func=lambda name: plain(FAILURE_ABOUT[name].name),
    )
    about = FAILURE_ABOUT[name]
    figures = [translated.figures[name] for translated in measures.translated]
    if not figures:
        st.info("There are no example sentences in these measures.")
        return
    order = worst_first(name, figures)[:_MOST]
    info = selection.run.info

    def text(content: str, language: str) -> Spans:
        return Spans((Span(content),), language)

    rows = [
        Row(
            str(place),
            (
                "–" if math.isnan(figures[place]) else f"{figures[place]:.2f}",
                text(measures.sentences[place].source, info.source_language),
                text(measures.translated[place].translation or "(no text)", info.target_language),
                text(measures.sentences[place].reference, info.target_language),
            ),
        )
        for place in order
    ]
    picks(
        [about.name, "source", f"translation at step {selection.step:,}", "reference"],
        rows,
        label=f"Sentences by {about.name}, the worst first",
        theme=selection.theme,
        key="failure_picks",
        on_pick=lambda place: open_on_translate(
            step=selection.step, sentence=measures.sentences[int(place)].source, target=""
        ),
        action="Open on Translate",
    )
    more = f", the worst {len(rows)} of {len(figures)}" if len(rows) < len(figures) else ""
    weights = name in ("coverage", "end")
    st.caption(
        plain(about.note)
        + " Weights are of the mean of the last layer's cross-attention heads." * weights
        + f" The worst first{more}. Click one to open it on Translate."
    )
