"""Trainings that go on meanwhile: their files are looked after, and the app is drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from model.checkpoint import CheckpointError, list_runs, steps_of
from model.files import has_writer
from viz_app.analysis.curves import progress
from viz_app.views._session import Stamp, log_of, run_named, stamp_if_there
from viz_app.views._widgets import plain

EVERY = 2.0
"""Seconds between two looks."""

Offered = tuple[tuple[str, ...], tuple[int, ...]]
Seen = tuple[Offered, tuple[Stamp | None, ...]]


def note_offered(names: Sequence[str], steps: Sequence[int]) -> None:
    """Say which runs, and which steps of the one in use, the frame offers."""
    st.session_state["offered"] = tuple(names), tuple(steps)


def look(root: Path, run: str, paths: Sequence[Path]) -> Seen:
    """What there is: runs, steps of one of them, times and sizes of some files."""
    names = tuple(list_runs(root))
    steps = tuple(steps_of(root / run)) if run in names else ()
    return (names, steps), tuple(map(stamp_if_there, paths))


def watch(root: Path, run: str, others: Sequence[str] = (), *, logs: Sequence[str] = ()) -> None:
    """Draw the app again when there is a run or checkpoint that the frame does not offer, or when
    a log grows; and say how far trainings are.

    To be called before what shows the logs is drawn. A look only asks the system for names, times
    and sizes; no widget is touched.

    Args:
        root: folder of the runs.
        run: the one in use, whether it can be opened or not.
        others: that are shown beside it.
        logs: names of the files that are shown, of all these runs.
    """
    paths = tuple(root / name / log for name in (run, *others) for log in logs)
    offered: Offered = st.session_state.get("offered", ((), ()))
    st.session_state["drawing"] = True
    _watch(root, run, paths, (offered, tuple(map(stamp_if_there, paths))))


@st.fragment(run_every=EVERY, key="watch")
def _watch(root: Path, run: str, paths: tuple[Path, ...], seen: Seen) -> None:
    state = st.session_state
    # Not while the whole app is drawn: what changes meanwhile is found at the next look.
    drawing = state.pop("drawing", False)
    if not drawing and ("run_to_open" in state or look(root, run, paths) != seen):
        st.rerun()
    for name in list_runs(root):
        if has_writer(root / name):
            _say_how_far(root, name, name == run)


def _say_how_far(root: Path, name: str, in_use: bool) -> None:
    try:
        opened = run_named(root, name)
        far = progress(log_of(opened.folder, "metrics.jsonl"), opened.info.training.steps)
    except (CheckpointError, ValueError, OSError) as problem:
        st.caption(f"{plain(name)} is being trained, but cannot be read: {plain(str(problem))}")
        return
    with st.container(
        horizontal=True, gap="small", vertical_alignment="center", key=f"live-{name}"
    ):
        said = str(far) if far is not None else f"begun, {opened.info.training.steps:,} steps to go"
        st.markdown(f":material/model_training: **{plain(name)}**, training: {said}")
        if not in_use:
            st.button("Show it", key=f"show-{name}", on_click=_open, args=(name,), type="tertiary")


def _open(name: str) -> None:
    st.session_state["run_to_open"] = name


def open_asked() -> None:
    """Take the run that was asked for; to be called before its widget is drawn.

    (Streamlit does not tell the browser of a value that was set in an earlier run.)
    """
    if name := st.session_state.pop("run_to_open", None):
        st.session_state["run"] = name
