"""Show generation step by step: what the decoder has, what it predicts, and alternatives.

Sampling shows from which probabilities a step would draw its token: temperature, top-k and top-p.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from headwise.model.interface import Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.formulas import output_formula
from headwise.viz_app.analysis.grid import Grid
from headwise.viz_app.analysis.labels import KIND_NAMES, token_labels
from headwise.viz_app.analysis.predictions import entropy, sampled
from headwise.viz_app.analysis.rollout import weights_of
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.html import token_row
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.caches import continuation_of, next_log_probability, trace_of
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import show_target, total_log_probability
from headwise.viz_app.session.view import change_view, control, redraw_all, view
from headwise.viz_app.session.vocabulary import target_labels
from headwise.viz_app.session.widgets import (
    bring_if_asked,
    bring_into_view,
    choose_from_list,
    choose_on_slider,
    clicked_value,
    show_figure,
    show_link,
)

STEP_PANELS = ("tokens", "heads", "below")
"""Panels that depend on the step of decoding."""
_SECONDS = 1.2
"""Seconds between two steps while it plays."""
_AS_ABOVE = ", as above"
_TEMPERATURES = (0.1, 0.25, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0)
_TOP_K = (1, 2, 5, 10, 50, 0)
_TOP_P = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
_MOST_BARS = 10


def show_step(selection: Selection, trace: Trace, grids: Mapping[Kind, Grid]) -> None:
    """Draw the likeliest tokens at one step of decoding, and the translation after another."""
    at = _choose_step(trace)
    labels = target_labels(selection.run, trace.predictions.top_ids[at].tolist())
    others = alternatives(trace, at, labels)
    choice, chart = st.columns([2, 3], gap="large")
    with choice:
        _describe(selection, trace, at)
    with chart:
        _show_distribution(selection, trace, at, labels, others)
        _show_fork(selection, trace, at, others)
        _show_sampling(selection, trace, at)
    _show_rows(selection, trace, grids, at)


def _choose_step(trace: Trace) -> int:
    """Ask for a step, with buttons that go back or on, or play all steps."""
    consumed, predicted = token_labels(trace.consumed), token_labels(trace.predicted)
    last = len(consumed) - 1
    state = st.session_state
    steps = range(len(consumed))

    def written(at: int) -> str:
        return f"{at + 1}: {predicted[at]} ← {consumed[at]}"

    def go(by: int) -> None:
        change_view(*STEP_PANELS, at=min(max(view().at + by, 0), last))

    def begin() -> None:
        state["played_at"] = time.monotonic()
        if state["play"] and view().at == last:
            change_view(at=0)

    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        at = choose_from_list(
            "Position", steps, key="at", format_func=written, on_change=redraw_all, width=360
        )
        st.button("Back", key="back", on_click=go, args=(-1,), disabled=at == 0)
        st.button("Next", key="next", on_click=go, args=(1,), disabled=at == last)
        playing = st.toggle("Play", key="play", on_change=begin)
    if playing and at < last:
        _play()
    return at


@st.fragment(run_every=_SECONDS)
def _play() -> None:
    state = st.session_state
    # It also runs when the page is drawn for another reason.
    if time.monotonic() - state["played_at"] >= 0.9 * _SECONDS:
        state["played_at"] = time.monotonic()
        change_view(at=view().at + 1)
        st.rerun()


def _describe(selection: Selection, trace: Trace, at: int) -> None:
    tokens = [*token_labels(trace.consumed)[: at + 1], token_labels(trace.predicted)[at]]
    predictions = trace.predictions
    st.caption("Written so far; framed: the new token")
    with st.container(key="loop"):
        language = selection.run.target_language
        st.html(token_row(tokens, theme=selection.theme, selected=at + 1, language=language))
    st.text(
        f"Probability of {tokens[-1]}: {np.exp(predictions.log_probability[at]):.3f}, "
        f"rank {predictions.rank[at]:,}\n"
        f"Entropy of the prediction: {predictions.entropy[at]:.2f} nats"
    )
    show_link(f"Why {escape_markdown(tokens[-1])}?", "why", key="open_why")


def _show_distribution(
    selection: Selection, trace: Trace, at: int, labels: Sequence[str], others: Mapping[str, int]
) -> None:
    """Draw the likeliest tokens; a click forces one that is not the predicted one."""
    predictions = trace.predictions
    ids = predictions.top_ids[at].tolist()
    actual = trace.predicted.ids[at]
    names = {id: name for name, id in others.items()}

    def force_clicked() -> None:
        place = clicked_value("top_tokens")
        if place is not None and ids[int(place)] in names:
            force(at, names[ids[int(place)]])

    probabilities = np.exp(predictions.top_log_probability[at]).tolist()
    clicks = [f"force {label} here" for label in labels]
    if (place := ids.index(actual) if actual in ids else None) is not None:
        clicks[place] = "the token of this target"
    show_figure(
        bar_chart(
            labels,
            probabilities,
            theme=selection.theme,
            written=[f"{p:.3f}" if p >= 0.0005 else f"{p:.0e}" for p in probabilities],
            marked=place,
            clicks=clicks,
        ),
        key="top_tokens",
        alt=f"The likeliest tokens at position {at + 1} and their probabilities, as bars",
        name=f"likeliest-at-position{at + 1}",
        on_select=force_clicked,
    )
    model = selection.run.description
    st.caption(
        f"The {len(ids)} likeliest tokens: click a bar to force its token here.",
        help=f"$P = \\mathrm{{softmax}}({output_formula(model, 'h')})$: $h$ is what the decoder "
        f"made of the last token, 1 × {model.d_model}; $W$ is {model.d_model} × "
        f"{model.target_vocab_size:,}.",
    )


def _show_rows(selection: Selection, trace: Trace, grids: Mapping[Kind, Grid], at: int) -> None:
    kinds: tuple[Kind, ...] = ("cross", "decoder_self")
    for kind, place in zip(kinds, st.columns(2, gap="medium"), strict=True):
        with place:
            st.markdown(f"**{KIND_NAMES[kind]}: all heads at this position**")
            grid = grids[kind]
            row = grid.row_of(at)
            seen = np.ones(len(grid.columns), bool) if grid.allowed is None else grid.allowed[row]
            if row is None or not seen.any():
                st.caption("Only special tokens stand here, and these are off.")
                continue
            columns = grid.columns[: int(seen.sum())]  # no column is seen after one that is not
            if len(columns) == 1:
                only = escape_markdown(columns[0])
                st.caption(f"There is only {only} to look at: each head has all its weight there.")
                continue
            weights = grid.apply(weights_of(trace, kind))[:, :, row]  # (L, H, columns)
            figure = attention_map(
                weights[..., : len(columns)].reshape(-1, len(columns)),
                query="head",
                rows=[f"{i + 1}.{h + 1}" for i, h in np.ndindex(weights.shape[:2])],
                columns=columns,
                row_title="layer.head",
                column_title=grid.column_title,
                theme=selection.theme,
                width=480,
                has_bar=False,
            )
            show_figure(
                figure,
                key=f"rows_{kind}",
                alt=f"{KIND_NAMES[kind]} attention at position {at + 1}: heads by keys",
                name=f"{kind}-position{at + 1}-all-heads",
            )


def alternatives(trace: Trace, at: int, labels: Sequence[str]) -> dict[str, int]:
    """Return the likeliest tokens but the predicted one: names that all differ, and their ids."""
    others: dict[str, int] = {}
    for label, id in zip(labels, trace.predictions.top_ids[at].tolist(), strict=False):
        if id != trace.predicted.ids[at]:
            others[f"{label} ({id})" if label in others else label] = id
    return others


def _show_fork(selection: Selection, trace: Trace, at: int, others: Mapping[str, int]) -> None:
    """Ask for another token in place of the predicted one, and decode on from there."""
    said = token_labels(trace.predicted)[at]

    def written(name: str) -> str:
        return name or f"none: {said}{_AS_ABOVE}"

    # The list has a line for none: a browser does not empty a list whose value goes back to None.
    instead = st.selectbox(
        "Force another token here",
        ["", *others],
        format_func=written,
        accept_new_options=True,
        help="Choose one of the likeliest, or type your own.",
        **control(
            "fork",
            "Forced token",
            usable=lambda name: not name.endswith(_AS_ABOVE),  # the line for none, of another step
            written=written,
            on_change=lambda: bring_into_view("forked-result"),
        ),
    )
    if not instead:
        return
    run, step, text = selection.run, selection.step, selection.text
    typed = [others[instead]] if instead in others else run.tokenizers.target.encode(instead)
    if not typed:
        return
    prefix = (*trace.target_ids[: at + 1], *typed)
    forked = trace_of(run, step, text, continuation_of(run, step, text, prefix))
    with st.container(key="forked-result"):
        show_target(selection, forked, key="forked", marked=at)
        scores = [total_log_probability(t) for t in (trace, forked)]
        st.caption(
            f"Log-probability {scores[1]:.2f} nats, against {scores[0]:.2f} of the translation "
            "above. What stands before the forced token stays; the model goes on after it by "
            "itself."
        )
    bring_if_asked("forked-result")


def force(at: int, name: str, *panels: str) -> None:
    """Decode on from one of ``alternatives`` in place of the token at a position.

    ``panels`` are those that are drawn again beside the one that was clicked.
    """
    bring_into_view("forked-result")
    change_view(*panels, at=at, fork=name, below="steps")  # which ends the callback


def _show_sampling(selection: Selection, trace: Trace, at: int) -> None:
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
        rarest = int(np.argmin(np.where(after > 0, after, np.inf)))
        [rare] = target_labels(run, [rarest])
        figure = bar_chart(
            target_labels(run, ids),
            after[ids].tolist(),
            theme=selection.theme,
            written=[f"{after[id]:.3f}, was {before[id]:.3f}" for id in ids],
        )
        show_figure(
            figure,
            key="sampled",
            alt=f"The probabilities of the {len(ids)} likeliest tokens as they are drawn from",
            name=f"sampled-at-position{at + 1}",
        )
        st.caption(
            f"{(after > 0).sum():,} of {len(after):,} tokens can be drawn, the rarest "
            f"“{escape_markdown(rare)}” once in {1 / after[rarest]:,.0f}. Entropy "
            f"{entropy(after):.2f} nats, {entropy(before):.2f} without the settings. Scores are "
            "divided by the temperature; of the top k tokens the likeliest are kept whose "
            "probabilities sum to p; these are scaled to a sum of 1."
        )
