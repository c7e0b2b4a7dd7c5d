"""The section "watch" of the page Training: heads as they form, the translation and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.interface import Head
from headwise.viz_app.analysis.attention import head_distances
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.analysis.grid import Grid, GridOptions, make_grid
from headwise.viz_app.analysis.labels import KIND_NAMES, token_labels
from headwise.viz_app.components.player import Course, Frame, MapAnimation, block_size, player
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.caches import (
    AttentionTrace,
    attention_of,
    log_of,
    log_probability_of,
    tokens_of,
    trace_of,
    translation_of,
    weights_of,
)
from headwise.viz_app.session.head_choice import choose_head, choose_units, chosen_head, head_label
from headwise.viz_app.session.inspector import inspecting
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import WHOLE_PAGE, change_view, view
from headwise.viz_app.session.widgets import choose_one
from headwise.viz_app.training.checkpoints import (
    SharedTarget,
    at_each,
    choose_shared_target,
    has_several,
    say_left_out,
)

_MOST_TOKENS = 80
"""Most tokens of a translation that are shown; early checkpoints may never end a sentence."""


@inspecting
def show_watch(selection: Selection) -> None:
    """Draw the section."""
    if not has_several(selection.run, "watch"):
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="head-row"):
        choose_head(selection.run.description)
        playing = choose_one(
            "Maps",
            ["all", "head"],
            key="playing",
            format_func=lambda what: {"head": "this head", "all": "all heads"}[what],
            show_label=False,
        )
        units = choose_units(show_label=False)
        shared = choose_shared_target(selection)
    _show_frames(selection, shared, GridOptions(units), playing == "all")


@panel("watching")
def _show_frames(
    selection: Selection, shared: SharedTarget, options: GridOptions, whole: bool
) -> None:
    """Draw the checkpoints that are there, and compute the others meanwhile."""
    run, steps = selection.run, selection.steps()
    head = chosen_head(run.description, view())
    trace = trace_of(run, selection.step, selection.text, shared.ids)
    grid = make_grid(trace, head.kind, options)
    opens = steps[0] if whole and selection.step == steps[-1] else selection.step
    above, below = st.container(key="watched"), st.container()

    def compute(step: int) -> tuple[Floats, Frame]:
        weights_of(run, step)  # whose error says what is wrong with the file
        given = attention_of(run, step, selection.text, shared.ids)
        maps = given.attention[head.kind]
        own = maps if whole else maps[head.layer : head.layer + 1, [head.head]]
        return grid.apply(own), _frame(selection, step, given)

    with below:
        found, problems = at_each(selection, compute, first=[opens], key="watch")
    with above:
        say_left_out(problems)
        usable = [step for step in steps if step not in problems]
        if not found:
            return
        there = [*found]
        maps = np.stack([found[step][0] for step in there])
        place = (head.layer, head.head) if whole else None
        course = Course(usable, _losses(selection, usable))
        if there == usable:
            course = replace(course, **_change(maps[:, *(place or (0, 0))], grid, head, usable))
        what, file_name = f"{KIND_NAMES[head.kind]}, all heads", f"{head.kind}-all-heads"
        if not whole:
            what = head_label(head)
            file_name = f"{head.kind}-layer{head.layer + 1}-head{head.head + 1}"
        player(
            MapAnimation(
                maps=maps,
                frames=[found[step][1] for step in there],
                course=course,
                rows=grid.rows,
                columns=grid.columns,
                row_title=grid.row_title,
                column_title=grid.column_title,
                allowed=grid.allowed,
                selected=place,
            ),
            start=selection.step,
            opens=opens,
            content_id=f"{run.name} {selection.text} {whole}",
            language=run.target_language,
            theme=selection.theme,
            name=f"headwise-{run.name}-{file_name}",
            key="player",
            on_open=lambda step: change_view(WHOLE_PAGE, step=step),
            on_head=lambda layer, head: change_view(
                WHOLE_PAGE, layer=layer + 1, head=head + 1, playing="head"
            ),
        )
        st.caption(
            f"{what}, on {shared.description}: {escape_markdown(shared.text)}",
            help=_note(maps.shape),
        )
        selection.say_steps(steps)


def _losses(selection: Selection, steps: Sequence[int]) -> list[float]:
    """Return the validation loss at the checkpoints; empty if no log has it."""
    with suppress(CheckpointError):  # the section of curves says what is wrong with the log
        loss = curve_of(log_of(selection.run.folder, "metrics.jsonl"), "valid_loss")
        if len(loss):
            found: list[float] = np.interp(steps, loss.steps, loss.values).tolist()
            return found
    return []


def _change(maps: Floats, grid: Grid, head: Head, steps: Sequence[int]) -> dict[str, Any]:
    """Find between which checkpoints a head's maps, (F, rows, columns), have changed most."""
    distances = head_distances(maps[:-1, None], maps[1:, None], allowed=grid.allowed)[:, 0]
    if np.isnan(distances).all():
        return {}
    last = int(np.nanargmax(distances)) + 1
    said = (
        f"{head_label(head)} changed most between steps {steps[last - 1]:,} and {steps[last]:,} "
        f"(Jensen-Shannon distance {distances[last - 1]:.3g})."
    )
    return {"changed": last, "said": said}


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
        score=f"{_nats(log_probability)}; the target of the maps {_nats(given.log_probability)}",
    )


def _nats(log_probability: Floats) -> str:
    total = float(log_probability.sum())
    return f"{total:.3g} nats ({total / len(log_probability):.3g} a token)"


def _note(shape: tuple[int, ...]) -> str:
    notes = [
        "Each checkpoint is shown until the next: no map is interpolated. The large translation is "
        "the checkpoint's own, shaded by probability; all maps are given the one that is named "
        "here. The line is the validation loss, straight between the steps that have one. A head "
        "changed most where the Jensen-Shannon distance of its maps at two neighbouring "
        "checkpoints, a mean over rows, is largest; checkpoints are not evenly far apart."
    ]
    if (block := block_size(shape)) > 1:
        notes.append(
            f"To stay light, each cell is the largest of {block} × {block} weights; a single head "
            "has more of them."
        )
    if shape[1] * shape[2] > 1:
        notes.append("Click a map to see it large.")
    return " ".join(notes)
