"""Room of the page Training: two checkpoints, of one run or of two of the same languages."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import streamlit as st

from model.checkpoint import CheckpointError, Run, list_runs, weights_path
from viz_app.records import Trace
from viz_app.views._session import Selection, run_named, trace_of
from viz_app.views._widgets import forget_unless, note_files, plain
from viz_app.views.address import check_asked
from viz_app.views.choice import choose_units
from viz_app.views.target import show_target, total_log_probability
from viz_app.views.training.differences import Side, show_differences
from viz_app.views.training.shared import (
    SharedTarget,
    choose_shared,
    same_tokenizers,
)


@dataclass(frozen=True)
class _Other:
    """With what the page's checkpoint is compared."""

    run: Run
    step: int


def show_compare(selection: Selection) -> None:
    """Draw the room."""
    left, right = st.columns([2, 3], gap="medium")
    with left:
        other = _choose_other(selection)
    if other is None:
        st.info("The run has one checkpoint only, and there is no other run of its languages.")
        return
    note_files(weights_path(other.run.folder, other.step))
    with right:
        shared = choose_shared(selection)
        units = choose_units() if same_tokenizers(other.run, selection.run) else "words"
    names = _names(selection, other)
    sides = []
    for place, name, run, step in zip(
        st.columns(2, gap="medium"),
        names,
        (selection.run, other.run),
        (selection.step, other.step),
        strict=True,
    ):
        target = shared.ids_for(run, selection.run)
        forced = trace_of(run, step, selection.text, target)
        sides.append(Side(run, forced, name))
        with place:
            own = trace_of(run, step, selection.text)
            _show_translation(selection, own, forced, name, "AB"[len(sides) - 1])
    _describe(shared, same_tokenizers(other.run, selection.run))
    first, second = sides
    show_differences(selection, first, second, units)


def _choose_other(selection: Selection) -> _Other | None:
    """Ask for the other run and its checkpoint; None where there is nothing to choose."""
    own = selection.run
    runs = [*([own.info.name] if len(own.steps()) > 1 else []), *_runs_like(own)]
    if not runs:
        return None
    check_asked("other_run", "Compare with a checkpoint of", runs.__contains__)
    forget_unless("other_run", runs)
    name = st.selectbox(
        "Compare with a checkpoint of",
        runs,
        key="other_run",
        bind="query-params",
        help="Any run that translates between the same languages in the same direction.",
    )
    note_files(own.folder.parent / name / "run.json")
    run = own if name == own.info.name else run_named(own.folder.parent, name)
    steps = [step for step in run.steps() if run is not own or step != selection.step]
    if len(steps) == 1:
        st.caption(f"Its checkpoint of step {steps[0]:,}.")
        return _Other(run, steps[0])
    check_asked("other_step", "Its checkpoint", [str(step) for step in steps].__contains__)
    forget_unless("other_step", steps)
    # At first the middle of training against its end, or its end against whatever is open.
    at_end = run is own and selection.step > steps[-1]
    step = st.select_slider(
        "Its checkpoint, by training step",
        steps,
        value=steps[len(steps) // 2] if at_end else steps[-1],
        key="other_step",
        bind="query-params",
    )
    return _Other(run, step)


def _runs_like(own: Run) -> list[str]:
    """Names of other runs of the same languages that can be opened and have a checkpoint."""
    root, found = own.folder.parent, []
    for name in list_runs(root):
        with suppress(CheckpointError):  # one that cannot be opened says so when it is chosen
            info = (run := run_named(root, name)).info
            languages = (info.source_language, info.target_language)
            same = languages == (own.info.source_language, own.info.target_language)
            if name != own.info.name and same and run.steps():
                found.append(name)
    return found


def _names(selection: Selection, other: _Other) -> tuple[str, str]:
    """Of the two checkpoints: their steps, with the names of their runs where these differ."""
    a, b = f"step {selection.step:,}", f"step {other.step:,}"
    if other.run is selection.run:
        return a, b
    return f"{selection.run.info.name}, {a}", f"{other.run.info.name}, {b}"


def _show_translation(
    selection: Selection, own: Trace, forced: Trace, name: str, letter: str
) -> None:
    st.markdown(f"**{letter}: {plain(name)}**, its own translation")
    show_target(selection, own, key=f"own-{letter}")
    st.caption(
        f"Shaded by probability; together {total_log_probability(own):.2f} nats. "
        f"The shared target has {total_log_probability(forced):.2f} nats here."
    )


def _describe(shared: SharedTarget, comparable: bool) -> None:
    st.caption(f"All maps below are of one target, {shared.whose}, given to both:")
    with st.container(key="shared-target"):
        st.text(shared.text or "(no text: the model ended the sentence at once)")
    if not comparable:
        st.caption(
            "The two runs have vocabularies of their own, in which a text has other pieces or none "
            "(\\<unk\\>): do not compare their log-probabilities."
        )
