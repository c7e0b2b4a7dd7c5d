"""Room of the page Training: one head, or all heads of a kind, played through all checkpoints."""

from __future__ import annotations

import time

import numpy as np
import streamlit as st

from model.checkpoint import CheckpointError
from viz_app.analysis.grid import Grid, Reading, make_grid
from viz_app.analysis.labels import KIND_NAMES, piece_labels
from viz_app.attention_trace import AttentionTrace
from viz_app.components.player import Film, Frame, block_size, player
from viz_app.records import Floats, Head
from viz_app.trace import to_tokens
from viz_app.views._events import tell_refusal
from viz_app.views._session import (
    Selection,
    attention_of,
    checkpoint_of,
    own_translation,
    trace_of,
)
from viz_app.views._widgets import choose_one, plain
from viz_app.views.choice import choose_head, choose_units, head_label
from viz_app.views.training.shared import SharedTarget, choose_shared

_PATIENCE = 0.4
"""Seconds after which progress is shown."""
_MOST_PIECES = 80
"""Of a translation that are shown; early checkpoints may never end a sentence."""


def show_play(selection: Selection) -> None:
    """Draw the room."""
    left, right = st.columns(2, gap="medium")
    with left:
        shared = choose_shared(selection)
    with right, st.container(horizontal=True, gap="small"):
        units = choose_units()
        playing = choose_one(
            "Play",
            ["head", "all"],
            key="playing",
            default="head",
            format_func=lambda what: {"head": "this head", "all": "all heads"}[what],
            help="The chosen head large, or all heads of the chosen kind of attention.",
        )
    head = choose_head(selection.run.info.model.n_layers, selection.run.info.model.n_heads)
    trace = trace_of(selection.run, selection.step, selection.text, shared.ids)
    grid = make_grid(trace, head[0], Reading(units))
    maps, frames = _film(selection, shared, grid, head, whole=playing == "all")
    if not frames:
        return
    what = head_label(head) if playing == "head" else f"{KIND_NAMES[head[0]]}, all heads"
    st.markdown(f"**{what}**, on {shared.whose}: {plain(shared.text)}")
    player(
        Film(
            maps=maps,
            frames=frames,
            rows=grid.rows,
            columns=grid.columns,
            row_title=grid.row_title,
            column_title=grid.column_title,
            allowed=grid.allowed,
            selected=head[1:] if playing == "all" else None,
        ),
        start=selection.step,
        of=f"{selection.run.info.name} {selection.text}",
        language=selection.run.info.target_language,
        theme=selection.theme,
        key="player",
        on_open=lambda step: st.session_state.update(step=step),
        on_head=lambda layer, number: st.session_state.update(
            layer=layer + 1, head=number + 1, playing="head"
        ),
    )
    st.caption(_note(maps.shape))


def _film(
    selection: Selection, shared: SharedTarget, grid: Grid, head: Head, *, whole: bool
) -> tuple[Floats, list[Frame]]:
    """Maps on the shared target and what runs along, of all checkpoints that can be used.

    Returns:
        (F, L, H, rows, columns) of all heads of the head's kind, or of it alone, (F, 1, 1, …);
        and F frames.
    """
    run, text = selection.run, selection.text
    kind, layer, number = head
    of = (slice(None), slice(None)) if whole else (slice(layer, layer + 1), [number])
    maps, frames = [], []
    every = run.steps()
    since, place = time.monotonic(), st.empty()
    for number, step in enumerate(every):
        if time.monotonic() - since > _PATIENCE:
            place.progress(number / len(every), f"Step {step:,} of {every[-1]:,}")
        try:
            checkpoint_of(run, step)
        except CheckpointError as problem:
            tell_refusal(problem)
            st.warning(f"Step {step:,} is left out: {plain(str(problem))}")
            continue
        given = attention_of(run, step, text, shared.ids)
        maps.append(grid.apply(given.attention[kind][of]))
        frames.append(_frame(selection, step, given))
    place.empty()
    return np.stack(maps) if maps else np.empty(0, np.float32), frames


def _frame(selection: Selection, step: int, given: AttentionTrace) -> Frame:
    ids, log_probability = own_translation(selection.run, step, selection.text)
    pieces = piece_labels(to_tokens(selection.run.tokenizers.target, ids[1:]))
    probabilities: list[float] = np.exp(log_probability).tolist()
    if len(pieces) > _MOST_PIECES:
        pieces = [*pieces[: _MOST_PIECES - 1], "…"]
        probabilities = [*probabilities[: _MOST_PIECES - 1], 0.0]
    return Frame(
        step=step,
        pieces=pieces,
        probabilities=probabilities,
        score=f"own translation {_nats(log_probability)} · shared target "
        f"{_nats(given.log_probability)}",
    )


def _nats(log_probability: Floats) -> str:
    total = float(log_probability.sum())
    return f"{total:.2f} nats ({total / len(log_probability):.2f} a piece)"


def _note(shape: tuple[int, ...]) -> str:
    notes = [
        f"{shape[0]} checkpoints, each shown until the next: nothing is made up between them. "
        "Above the maps is what the checkpoint itself makes of the sentence, shaded by "
        "probability."
    ]
    if (block := block_size(shape)) > 1:
        notes.append(
            f"To stay light, each cell is the largest of {block} × {block} weights; a single head "
            "has more of them."
        )
    if shape[1] * shape[2] > 1:
        notes.append("Click a map to see it large.")
    return " ".join(notes)
