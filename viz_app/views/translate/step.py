"""Generation, step by step: what the decoder has, what it says next, and a fork from there."""

from __future__ import annotations

import time

import numpy as np
import streamlit as st

from viz_app.analysis.flow import weights_of
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import KIND_NAMES, piece_label, piece_labels
from viz_app.figures.charts import top_pieces
from viz_app.figures.maps import head_rows
from viz_app.figures.tokens import token_row
from viz_app.records import Kind, Trace
from viz_app.views._session import Selection, continued, trace_of
from viz_app.views._widgets import begin_with, choose_for, panel, plain, redraw_all, show_figure
from viz_app.views.target import show_target, total_log_probability

STEP_PANELS = ("step", "heads")
"""What depends on the step of decoding."""
_SECONDS = 1.2
"""Between two steps while it plays."""


@panel("step")
def show_step(selection: Selection, trace: Trace, reading: Reading) -> None:
    """The likeliest pieces at one step of decoding, and what follows if another is said."""
    st.markdown("##### Generation, step by step")
    at = _choose_step(trace)
    choice, chart = st.columns([2, 3], gap="large")
    with choice:
        _describe(selection, trace, at)
    with chart:
        _show_distribution(selection, trace, at)
        _show_fork(selection, trace, at)
    _show_rows(selection, trace, reading, at)


def _choose_step(trace: Trace) -> int:
    """A list of all steps, with buttons that go back, on, or through all of them in time."""
    consumed, predicted = piece_labels(trace.consumed), piece_labels(trace.predicted)
    last = len(consumed) - 1
    state = st.session_state
    state.setdefault("at", 0)

    def go(by: int) -> None:
        choose_for(*STEP_PANELS, at=min(max(state["at"] + by, 0), last))

    def begin() -> None:
        state["played_at"] = time.monotonic()
        if state["play"] and state["at"] == last:
            state["at"] = 0

    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        at: int = st.selectbox(
            "Step",
            range(len(consumed)),
            format_func=lambda t: f"{t + 1}: after {consumed[t]}, {predicted[t]}",
            key="at",
            on_change=redraw_all,
            width=360,
        )
        st.button("Back", key="back", on_click=go, args=(-1,), disabled=at == 0)
        st.button("Next", key="next", on_click=go, args=(1,), disabled=at == last)
        playing = st.toggle("Play", key="play", on_change=begin)
    if playing and at < last:
        _play()
    return at


@st.fragment(run_every=_SECONDS)
def _play() -> None:
    """Go on by a step when it is time to."""
    state = st.session_state
    # It also runs when the page is drawn for another reason.
    if time.monotonic() - state["played_at"] >= 0.9 * _SECONDS:
        state["played_at"] = time.monotonic()
        state["choices"] = {"at": state["at"] + 1}
        st.rerun()


def _describe(selection: Selection, trace: Trace, at: int) -> None:
    pieces = [*piece_labels(trace.consumed)[: at + 1], piece_labels(trace.predicted)[at]]
    predictions = trace.predictions
    st.caption("The decoder has these pieces, and appends the last, framed one.")
    with st.container(key="loop"):
        st.html(
            token_row(
                pieces,
                theme=selection.theme,
                selected=at + 1,
                language=selection.run.info.target_language,
            )
        )
    st.text(
        f"Probability of {pieces[-1]}: {np.exp(predictions.log_probability[at]):.3f}, "
        f"rank {predictions.rank[at]:,}\n"
        f"Entropy of the prediction: {predictions.entropy[at]:.2f} nats"
    )


def _show_distribution(selection: Selection, trace: Trace, at: int) -> None:
    predictions = trace.predictions
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
        alt=f"The likeliest pieces at step {at + 1} and their probabilities, as bars",
        name=f"likeliest-at-step{at + 1}",
    )
    model = selection.run.info.model
    bias = " + b" if model.output_bias else ""
    st.caption(
        f"$P = \\mathrm{{softmax}}(h\\,W{bias})$: $h$ is what the decoder made of the last piece, "
        f"1 × {model.d_model}; $W$ is {model.d_model} × {model.target_vocab_size:,}. Drawn are the "
        f"{len(ids)} likeliest pieces."
    )


def _show_rows(selection: Selection, trace: Trace, reading: Reading, at: int) -> None:
    """The row of this step in the maps of all heads of the decoder."""
    kinds: tuple[Kind, ...] = ("cross", "decoder_self")
    for kind, place in zip(kinds, st.columns(2, gap="medium"), strict=True):
        with place:
            st.markdown(f"**{KIND_NAMES[kind]}: where each head looks at this step**")
            grid = make_grid(trace, kind, reading)
            row = grid.row_of(at)
            seen = np.ones(len(grid.columns), bool) if grid.allowed is None else grid.allowed[row]
            if row is None or not seen.any():
                st.caption("Only special tokens stand here, and these are off.")
                continue
            columns = grid.columns[: int(seen.sum())]  # no column is seen after one that is not
            weights = grid.apply(weights_of(trace, kind))[:, :, row]  # (L, H, columns)
            figure = head_rows(
                weights[..., : len(columns)].reshape(-1, len(columns)),
                heads=[f"{i + 1}.{h + 1}" for i, h in np.ndindex(weights.shape[:2])],
                columns=columns,
                column_title=grid.column_title,
                theme=selection.theme,
            )
            show_figure(
                figure,
                key=f"rows_{kind}",
                alt=f"{KIND_NAMES[kind]} attention at step {at + 1}: a row a head, a column a key",
                name=f"{kind}-step{at + 1}-all-heads",
            )


def _show_fork(selection: Selection, trace: Trace, at: int) -> None:
    """Another piece in the place of the one that was predicted, decoded on from there."""
    begin_with("fork", None, of=(trace.source.ids, trace.target_ids, at))
    others: dict[str, int] = {}
    ids = trace.predictions.top_ids[at].tolist()
    for piece, id in zip(trace.top_pieces[at], ids, strict=True):
        label = piece_label(piece)
        if id != trace.predicted.ids[at]:
            others[f"{label} ({id})" if label in others else label] = id
    instead = st.selectbox(
        f"Say something else than {plain(piece_labels(trace.predicted)[at])}",
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
