"""Parts of a page that run again by themselves.

Panels do when one of their widgets is used; the watch looks at the files of running trainings, and
has the whole page drawn again when they change.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import streamlit as st

from headwise.model.files import CheckpointError
from headwise.model.runs import is_training
from headwise.viz_app.analysis.curves import progress
from headwise.viz_app.components.unseen import draw_again
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.served import served_models
from headwise.viz_app.session.cache import Stamp, recipe_of, stamp_if_there
from headwise.viz_app.session.caches import log_file, log_of, run_named, steps_in
from headwise.viz_app.session.errors import describe_error, show_user_errors
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.selection import theme_name
from headwise.viz_app.session.turns import turns
from headwise.viz_app.session.view import (
    WHOLE_PAGE,
    apply_changes,
    change_view,
    drawing,
    note_timer_rerun,
    write_address,
)

Arguments = ParamSpec("Arguments")
SECONDS_BETWEEN_LOOKS = 3.0
"""Seconds between two looks at the files."""

Offered = tuple[tuple[str, ...], tuple[int, ...]]
"""Names of runs, and steps of the selected one."""
FilesState = tuple[Offered, tuple[Stamp | None, ...]]
"""Runs and steps that there are, and the stamps of some files."""

_with_page: ContextVar[bool] = ContextVar("with_page", default=False)
"""Whether a panel is drawn with what is around it, not again by itself."""


def note_whole() -> None:
    """Note that the whole page is drawn: which theme it has, and no file that it has read yet."""
    st.session_state["read_files"], st.session_state["drawn_theme"] = {}, theme_name()


def note_files(*paths: Path) -> None:
    """Note files that the page is about to read."""
    st.session_state["read_files"] |= {path: stamp_if_there(path) for path in paths}


def _theme_changed() -> bool:
    return bool(st.session_state.get("drawn_theme", theme_name()) != theme_name())


def _page_is_old() -> bool:
    """Return whether a noted file was replaced or removed since, or the browser's theme changed."""
    noted: dict[Path, Stamp | None] = st.session_state.get("read_files", {})
    return _theme_changed() or any(stamp_if_there(path) != stamp for path, stamp in noted.items())


def panel(key: str) -> Callable[[Callable[Arguments, None]], Callable[Arguments, None]]:
    """Make a function a panel: it runs again by itself when one of its widgets is used.

    A panel shows its errors in place. Other panels are drawn again only by ``change_view`` and
    ``redraw_all``. If a noted file or the theme has changed, the whole page is drawn again, since
    the panel's arguments are of the old one.

    Streamlit keeps the arguments of a panel as long as the session is open, and two minutes more.
    So it is given no trace, but what gives the trace again (``_Again``), mostly from the cache.
    """

    def decorate(draw: Callable[Arguments, None]) -> Callable[Arguments, None]:
        @st.fragment(key=key)
        @wraps(draw)
        def run_panel(*args: Any, **kwargs: Any) -> None:
            if apply_changes() or (not _with_page.get() and _page_is_old()):
                write_address(drawn=False)  # the browser may have asked with the one before
                st.rerun()
            with drawing(key), show_user_errors(), turns().page():
                draw(*map(_restored, args), **{k: _restored(v) for k, v in kwargs.items()})
            write_address()

        @wraps(draw)
        def run_first(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            outside = _with_page.set(True)  # what it is given was read just now
            try:
                run_panel(*map(_lightened, args), **{k: _lightened(v) for k, v in kwargs.items()})
            finally:
                _with_page.reset(outside)

        return run_first

    return decorate


@dataclass(frozen=True)
class _Again:
    """Stands for a trace: it is the same while it is in use elsewhere, or else asked for again."""

    trace: weakref.ReferenceType[Trace]
    recipe: Callable[[], Trace]


def _lightened(value: Any) -> Any:
    """Return an argument with its traces replaced: itself, or those that are items or fields."""
    if isinstance(value, Trace):
        recipe = recipe_of(value)
        return value if recipe is None else _Again(weakref.ref(value), recipe)
    return _with_parts(value, Trace, _lightened)


def _restored(value: Any) -> Any:
    """Return an argument with the traces that ``_lightened`` replaced."""
    if isinstance(value, _Again):
        return value.trace() or value.recipe()
    return _with_parts(value, _Again, _restored)


def _with_parts(value: Any, kind: type[Any], change: Callable[[Any], Any]) -> Any:
    """Change the items of a list or tuple, and the fields of a record that has any of a kind."""
    if type(value) in (list, tuple):
        return type(value)(map(change, value))
    if is_dataclass(value) and not isinstance(value, type):
        found = {k: v for k, v in vars(value).items() if isinstance(v, kind)}
        return replace(value, **{k: change(v) for k, v in found.items()}) if found else value
    return value


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
    The selected run need not be one that can be opened; ``logs`` are names of files of it and of
    ``others``, the runs beside it.
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
    if not drawing and (apply_changes() or _theme_changed() or files_state(run, paths) != seen):
        write_address(drawn=False)  # the browser may have asked with the one before
        st.rerun()
    draw_again(seconds=SECONDS_BETWEEN_LOOKS, on_due=note_timer_rerun, key="at_rest")
    for name, folder in served_models().items():
        if is_training(folder):
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
            st.button(
                "Show it",
                key=f"show-{name}",
                type="tertiary",
                on_click=lambda: change_view(WHOLE_PAGE, run=name),
            )
