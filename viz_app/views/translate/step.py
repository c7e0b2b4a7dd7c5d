"""One step of decoding: what the decoder has, what it would say next, and a fork from there."""

from __future__ import annotations

import numpy as np
import streamlit as st

from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.figures.charts import top_pieces
from viz_app.records import Trace
from viz_app.views._session import (
    Selection,
    continued,
    forget_when_new,
    show_figure,
    trace_of,
)
from viz_app.views.translate.target import show_target, total_log_probability


def show_step(selection: Selection, trace: Trace) -> None:
    """The likeliest pieces at one step of decoding, and what follows if another is said."""
    consumed, predicted = piece_labels(trace.consumed), piece_labels(trace.predicted)
    st.markdown("##### One step of decoding")
    choice, chart = st.columns([2, 3], gap="large")
    with choice:
        at = st.selectbox(
            "Step",
            range(len(consumed)),
            format_func=lambda t: f"{t + 1}: after {consumed[t]}, {predicted[t]}",
            key="at",
        )
        predictions = trace.predictions
        st.text(
            f"The decoder has: {' '.join(consumed[: at + 1])}\n"
            f"Next piece: {predicted[at]}, with probability "
            f"{np.exp(predictions.log_probability[at]):.3f}, rank {predictions.rank[at]:,}\n"
            f"Entropy of the prediction: {predictions.entropy[at]:.2f} nats"
        )
    with chart:
        ids = predictions.top_ids[at].tolist()
        actual = trace.predicted.ids[at]
        show_figure(
            top_pieces(
                [piece_label(piece) for piece in trace.top_pieces[at]],
                np.exp(predictions.top_log_probability[at]).tolist(),
                theme=selection.theme,
                actual=ids.index(actual) if actual in ids else None,
            ),
            key="top_pieces",
        )
        _show_fork(selection, trace, at)


def _show_fork(selection: Selection, trace: Trace, at: int) -> None:
    """Another piece in the place of the one that was predicted, decoded on from there."""
    forget_when_new("fork", of=(trace.source.ids, trace.target_ids, at))
    others: dict[str, int] = {}
    ids = trace.predictions.top_ids[at].tolist()
    for piece, id in zip(trace.top_pieces[at], ids, strict=True):
        label = piece_label(piece)
        if id != trace.predicted.ids[at]:
            others[f"{label} ({id})" if label in others else label] = id
    instead = st.selectbox(
        f"Say something else than {piece_labels(trace.predicted)[at]}",
        list(others),
        index=None,
        key="fork",
        placeholder="one of the likeliest pieces, or type your own",
        accept_new_options=True,
        help="What stands before it stays; the model goes on after it by itself.",
    )
    if instead is None:
        return
    run, step, text = selection.run, selection.step, selection.text
    typed = [others[instead]] if instead in others else run.tokenizers.target.encode(instead)
    if not typed:
        return
    prefix = (*trace.target_ids[: at + 1], *typed)
    forked = trace_of(run, step, text, continued(run, step, text, prefix))
    show_target(selection, forked, key="forked", marked=at)
    scores = [total_log_probability(t) for t in (trace, forked)]
    st.caption(
        f"Log-probability {scores[1]:.2f} nats, against {scores[0]:.2f} of the translation above."
    )
