"""Watch the files of running trainings, and draw the app again when they change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from headwise.model.files import CheckpointError, has_writer
from headwise.viz_app.analysis.curves import progress
from headwise.viz_app.components.unseen import draw_again
from headwise.viz_app.served import served_models
from headwise.viz_app.views.caches import log_file, log_of, run_named, steps_in
from headwise.viz_app.views.shared.errors import describe_error
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.stamps import Stamp, stamp_if_there
from headwise.viz_app.views.shared.view import (
    apply_changes,
    change_view,
    note_unprompted,
    redraw_all,
    write_address,
)

SECONDS_BETWEEN_LOOKS = 3.0
"""Seconds between two looks at the files."""

Offered = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of runs, and steps of the selected one."""
FilesState = tuple[Offered, tuple[Stamp | None, ...]]
"""Runs and steps that there are, and the stamps of some files."""


def note_offered(names: Sequence[str], steps: Sequence[int]) -> None:
    """Note which runs, and which steps of the selected one, the frame offers."""
    st.session_state["offered"] = tuple(names), tuple(steps)


def files_state(run: str, paths: Sequence[Path]) -> FilesState:
    """Read which runs there are, the steps of one of them, and the stamps of some files."""
    models = served_models()
    steps = tuple(steps_in(models[run])) if run in models else ()
    return (tuple(models), steps), tuple(map(stamp_if_there, paths))


def watch(run: str, others: Sequence[str] = (), *, logs: Sequence[str] = ()) -> None:
    """Show how far trainings are, and draw the app again when there is something new.

    New is a run or checkpoint that the frame does not offer, or a line of a log. Call this before
    the logs are drawn. Only names, times and sizes of files are read; no widget is changed.

    Args:
        run: the selected run, whether it can be opened or not.
        others: runs that are shown beside it.
        logs: names of the files of all these runs that are shown.
    """
    models = served_models()
    shown = [models[name] for name in (run, *others) if name in models]
    paths = tuple(log_file(folder, log) for folder in shown for log in logs)
    offered: Offered = st.session_state.get("offered", ((), ()))
    st.session_state["drawing"] = True
    _watch(run, paths, (offered, tuple(map(stamp_if_there, paths))))


@st.fragment(key="watch")
def _watch(run: str, paths: tuple[Path, ...], seen: FilesState) -> None:
    state = st.session_state
    # Not while the whole app is drawn: what changes meanwhile is found at the next look.
    drawing = state.pop("drawing", False)
    if not drawing and (apply_changes() or files_state(run, paths) != seen):
        write_address()  # the browser may have asked with the one from before
        st.rerun()
    draw_again(seconds=SECONDS_BETWEEN_LOOKS, on_due=note_unprompted)
    for name, folder in served_models().items():
        if has_writer(folder):
            _show_progress(name, name == run)


def _show_progress(name: str, in_use: bool) -> None:
    try:
        opened = run_named(name)
        planned = opened.planned_steps or 0
        far = progress(log_of(opened.folder, "metrics.jsonl"), planned)
    except (CheckpointError, ValueError, OSError) as problem:
        st.caption(
            f"{escape_markdown(name)} is being trained, but cannot be read: "
            f"{describe_error(problem)}"
        )
        return
    with st.container(
        horizontal=True, gap="small", vertical_alignment="center", key=f"live-{name}"
    ):
        said = str(far) if far is not None else f"begun, {planned:,} steps to go"
        st.markdown(f":material/model_training: **{escape_markdown(name)}**, training: {said}")
        if not in_use:
            st.button("Show it", key=f"show-{name}", on_click=_open, args=(name,), type="tertiary")


def _open(name: str) -> None:
    change_view(run=name)
    redraw_all()
