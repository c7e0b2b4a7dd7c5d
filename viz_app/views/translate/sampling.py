"""Show from which probabilities a step would draw its token: temperature, top-k and top-p."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.ties import descending
from headwise.viz_app.analysis.labels import next_token_label
from headwise.viz_app.analysis.predictions import entropy, sampled
from headwise.viz_app.figures.charts import changed_bars
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import next_log_probability
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import control
from headwise.viz_app.views.shared.widgets import choose_on_slider, show_figure

_TEMPERATURES = (0.1, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0)
_TOP_K = (1, 2, 5, 10, 50, 0)
_TOP_P = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
_MOST_BARS = 10


def show_sampling(selection: Selection, trace: Trace, at: int) -> None:
    """Ask for temperature, top-k and top-p, and draw what they make of the next token."""
    label = "Probabilities for sampling"
    if not st.toggle(
        label,
        help="Sampling draws each token by chance, from probabilities that temperature, top-k and "
        "top-p change. Here are these probabilities; the translation stays as it is.",
        **control("sampling", label),
    ):
        return
    with st.container(key="sampling-panel"):
        places = st.columns(3, gap="medium")
        with places[0]:
            temperature = choose_on_slider(
                "Temperature", _TEMPERATURES, key="temperature", format_func="{:g}".format
            )
        with places[1]:
            top_k = choose_on_slider(
                "Top-k", _TOP_K, key="top_k", format_func=lambda k: str(k) if k else "all"
            )
        with places[2]:
            top_p = choose_on_slider("Top-p", _TOP_P, key="top_p", format_func="{:g}".format)
        run, prefix = selection.run, trace.target_ids[: at + 1]
        log_probability = next_log_probability(run, selection.step, selection.text, prefix)
        before = np.exp(log_probability.astype(np.float64))
        after = sampled(log_probability, temperature=temperature, top_k=top_k, top_p=top_p)
        ids = descending(log_probability)[:_MOST_BARS].tolist()
        target = run.tokenizers.target
        figure = changed_bars(
            [next_token_label(token, spaced=target.kind == "bpe") for token in target.tokens(ids)],
            before[ids].tolist(),
            after[ids].tolist(),
            theme=selection.theme,
        )
        show_figure(
            figure,
            key="sampled",
            alt=f"The probabilities of the {len(ids)} likeliest tokens as they are drawn from",
            name=f"sampled-at-step{at + 1}",
        )
        st.caption(
            f"{(after > 0).sum():,} of {len(after):,} tokens can be drawn. Entropy "
            f"{entropy(after):.2f} nats, {entropy(before):.2f} without the settings. Scores are "
            "divided by the temperature; of the top k tokens the likeliest are kept whose "
            "probabilities sum to p; these are scaled to a sum of 1."
        )
