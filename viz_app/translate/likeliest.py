"""Say beside the large map what is likeliest at the chosen position, and where it was close."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.analysis.predictions import close_positions
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.translate.step import STEP_PANELS, alternatives, force

_MOST_TOKENS, _MOST_CLOSE = 5, 3
_CLOSE = 0.1
"""Two probabilities that differ by less are called close."""


def show_next_tokens(selection: Selection, trace: Trace) -> None:
    """Offer the likeliest tokens of the chosen position, and the positions that were close."""
    at = min(view().at, len(trace.consumed) - 1)
    labels, ids = _labels(selection, trace, at), trace.predictions.top_ids[at].tolist()
    names = {id: name for name, id in alternatives(trace, at, labels).items()}
    odds = np.exp(trace.predictions.top_log_probability[at])
    after = escape_markdown(token_labels(trace.consumed)[at])
    st.caption(f"Candidates after {after}: click one to force it")
    with st.container(horizontal=True, gap="small", key="next-tokens"):
        for place, (id, label) in enumerate(zip(ids, labels, strict=False)):
            st.button(
                f"{escape_markdown(label)} {odds[place]:.2f}",
                key=f"next-token-{place}",
                disabled=id not in names,
                on_click=force,
                args=(at, names.get(id, ""), "below"),
            )
    close = close_positions(trace.predictions, within=_CLOSE)
    if not close:
        return
    more = f" The first {_MOST_CLOSE} are shown." if len(close) > _MOST_CLOSE else ""
    st.caption(
        f"{len(close)} close call{'s' * (len(close) > 1)} in {len(trace.consumed)} tokens",
        help="The probabilities of the two likeliest tokens are within "
        f"{_CLOSE:g} of each other: the model might as well have gone on otherwise.{more}",
    )
    with st.container(horizontal=True, gap="small", key="close-positions"):
        for place in close[:_MOST_CLOSE]:
            first, second, *_ = _labels(selection, trace, place)
            odds = np.exp(trace.predictions.top_log_probability[place][:2])
            st.button(
                f"{place + 1}: {escape_markdown(first)} {odds[0]:.2f} or "
                f"{escape_markdown(second)} {odds[1]:.2f}",
                key=f"close-{place}",
                type="tertiary",
                on_click=lambda place=place: change_view(*STEP_PANELS, at=place, below="steps"),
            )


def _labels(selection: Selection, trace: Trace, at: int) -> list[str]:
    spaced = selection.run.tokenizers.target.kind == "bpe"
    tokens = trace.top_tokens[at][:_MOST_TOKENS]
    return [next_token_label(token, spaced=spaced) for token in tokens]
