"""The section "play" of the page Training: heads played through all checkpoints."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.interface import Head
from headwise.viz_app.analysis.grid import Grid, GridOptions, make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES, token_labels
from headwise.viz_app.components.player import Frame, MapAnimation, block_size, player
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.views.caches import (
    AttentionTrace,
    attention_of,
    log_probability_of,
    tokens_of,
    trace_of,
    translation_of,
    weights_of,
)
from headwise.viz_app.views.shared.head_choice import choose_head, choose_units, head_label
from headwise.viz_app.views.shared.inspector import inspecting
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.view import change_view
from headwise.viz_app.views.shared.widgets import choose_one
from headwise.viz_app.views.training.checkpoints import at_each, has_several
from headwise.viz_app.views.training.shared_target import SharedTarget, choose_shared_target

_MOST_TOKENS = 80
"""Most tokens of a translation that are shown; early checkpoints may never end a sentence."""


@inspecting
def show_play(selection: Selection) -> None:
    """Draw the section."""
    if not has_several(selection.run, "play"):
        return
    left, right = st.columns(2, gap="medium")
    with left:
        shared = choose_shared_target(selection)
    with right, st.container(horizontal=True, gap="small"):
        units = choose_units()
        playing = choose_one(
            "Play",
            ["head", "all"],
            key="playing",
            format_func=lambda what: {"head": "this head", "all": "all heads"}[what],
            help="The chosen head large, or all heads of the chosen kind of attention.",
        )
    head = choose_head(selection.run.description)
    trace = trace_of(selection.run, selection.step, selection.text, shared.ids)
    grid = make_grid(trace, head.kind, GridOptions(units))
    maps, frames = _maps_and_frames(selection, shared, grid, head, whole=playing == "all")
    if not frames:
        return
    kind, layer, number = head
    what, file_name = f"{KIND_NAMES[kind]}, all heads", f"{kind}-all-heads"
    if playing == "head":
        what, file_name = head_label(head), f"{kind}-layer{layer + 1}-head{number + 1}"
    st.markdown(f"**{what}**, on {shared.description}: {escape_markdown(shared.text)}")
    player(
        MapAnimation(
            maps=maps,
            frames=frames,
            rows=grid.rows,
            columns=grid.columns,
            row_title=grid.row_title,
            column_title=grid.column_title,
            allowed=grid.allowed,
            selected=(layer, number) if playing == "all" else None,
        ),
        start=selection.step,
        content_id=f"{selection.run.name} {selection.text}",
        language=selection.run.target_language,
        theme=selection.theme,
        name=f"headwise-{selection.run.name}-{file_name}",
        key="player",
        on_open=lambda step: change_view(step=step),
        on_head=lambda layer, number: change_view(layer=layer + 1, head=number + 1, playing="head"),
    )
    st.caption(_note(maps.shape))


def _maps_and_frames(
    selection: Selection, shared: SharedTarget, grid: Grid, head: Head, *, whole: bool
) -> tuple[Floats, list[Frame]]:
    """Return the maps on the shared target, and a frame, of each checkpoint that can be used.

    Returns:
        (F, L, H, rows, columns) of all heads of the head's kind, or of it alone, (F, 1, 1, …);
        and F frames.
    """
    run, text = selection.run, selection.text
    kind, layer, number = head
    of = (slice(None), slice(None)) if whole else (slice(layer, layer + 1), [number])

    def compute(step: int) -> tuple[Floats, Frame]:
        weights_of(run, step)  # whose error says what is wrong with the file
        given = attention_of(run, step, text, shared.ids)
        return grid.apply(given.attention[kind][of]), _frame(selection, step, given)

    found, problems = at_each(run, compute)
    for step, problem in problems.items():
        st.warning(f"Step {step:,} is left out: {problem}")
    maps = [each for each, _ in found.values()]
    return np.stack(maps) if maps else np.empty(0, np.float32), [f for _, f in found.values()]


def _frame(selection: Selection, step: int, given: AttentionTrace) -> Frame:
    run, text = selection.run, selection.text
    ids = translation_of(run, step, text)
    log_probability = log_probability_of(run, step, text, ids)
    tokens = token_labels(tokens_of(run, "target", ids[1:]))
    probabilities: list[float] = np.exp(log_probability).tolist()
    if len(tokens) > _MOST_TOKENS:
        tokens = [*tokens[: _MOST_TOKENS - 1], "…"]
        probabilities = [*probabilities[: _MOST_TOKENS - 1], 0.0]
    return Frame(
        step=step,
        tokens=tokens,
        probabilities=probabilities,
        score=f"own translation {_nats(log_probability)} · shared target "
        f"{_nats(given.log_probability)}",
    )


def _nats(log_probability: Floats) -> str:
    total = float(log_probability.sum())
    return f"{total:.2f} nats ({total / len(log_probability):.2f} per token)"


def _note(shape: tuple[int, ...]) -> str:
    notes = [
        f"{shape[0]} checkpoints, each shown until the next: no interpolation. "
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
