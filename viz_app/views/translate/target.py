"""A target as the page shows it: its pieces shaded by probability, and its text."""

from __future__ import annotations

import numpy as np
import streamlit as st

from viz_app.analysis.labels import piece_labels
from viz_app.figures.tokens import token_row
from viz_app.records import Trace
from viz_app.views._session import Selection


def show_target(selection: Selection, trace: Trace, *, key: str, marked: int | None = None) -> None:
    """Draw the target of a trace, a piece of it perhaps framed; the text stands under ``key``."""
    probability = np.exp(trace.predictions.log_probability)
    titles = [
        f"probability {p:.3f}, rank {rank}"
        for p, rank in zip(probability, trace.predictions.rank, strict=True)
    ]
    st.html(
        token_row(
            piece_labels(trace.predicted),
            theme=selection.theme,
            probabilities=probability.tolist(),
            titles=titles,
            selected=marked,
            language=selection.run.info.target_language,
        )
    )
    with st.container(key=key):
        st.text(trace.target_text or "(no text: the model ended the sentence at once)")


def total_log_probability(trace: Trace) -> float:
    """Of the whole target, ``</s>`` included, in nats."""
    return float(trace.predictions.log_probability.sum())
