"""Which source words a prediction needs: three answers side by side."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.interface import WordSpan
from headwise.viz_app.analysis.labels import word_labels
from headwise.viz_app.records.account import Account
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.shared.markdown import table_cell
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.widgets import show_heading
from headwise.viz_app.views.why.caches import contributions_of, source_effects_of

MOST_LEFT_OUT = 200
"""Words of the longest sentence of which each is left out; every one takes a pass."""


def show_source_words(selection: Selection, trace: Trace, account: Account) -> None:
    """Draw a table of source words: direct effect, whole effect, and ALTI+."""
    spans = tuple(WordSpan(word.start, word.stop) for word in trace.source.words)
    all_three = len(spans) <= MOST_LEFT_OUT
    show_heading(f"Which source words it needs: {'three' if all_three else 'two'} answers")
    direct = account.parts.heads["cross"].sum(axis=(0, 1))
    columns = {}
    if all_three:
        columns["left out"] = source_effects_of(selection.run, trace, account, spans).losses
    shares = contributions_of(selection.run, trace)[account.step]
    columns |= {
        "direct": np.array([direct[span.start : span.stop].sum() for span in spans]),
        "ALTI+": np.array([shares[span.start : span.stop].sum() for span in spans]),
    }
    first = {name: int(np.nanargmax(values)) for name, values in columns.items()}
    st.dataframe(
        {"word": [*map(table_cell, word_labels(trace.source))], **columns},
        hide_index=True,
        column_config={
            "word": st.column_config.TextColumn("source word"),
            "left out": st.column_config.NumberColumn(
                "the difference loses without it", format="%+.3f"
            ),
            "direct": st.column_config.NumberColumn("cross-attention brought", format="%+.3f"),
            "ALTI+": st.column_config.NumberColumn("share of the prediction, ALTI+", format="%.3f"),
        },
    )
    names = word_labels(trace.source)
    leading = {name: names[place] for name, place in first.items()}
    if len(set(first.values())) == 1:
        said = f"{'All three' if all_three else 'Both'} put “{leading['direct']}” first."
    else:
        said = "They disagree on the first: " + ", ".join(
            f"“{word}” ({name})" for name, word in leading.items()
        )
        said += "."
    left_out = (
        "Without a word the sentence is another one, so that everything may change"
        if all_three
        else f"Words are left out of sentences of at most {MOST_LEFT_OUT}, of which this one has "
        f"{len(spans):,}"
    )
    st.caption(
        f"{said} {left_out}; the direct effect holds all weights; ALTI+ (Ferrando et al. 2022) "
        "says how much a word went into the prediction, not for which word it spoke."
    )
