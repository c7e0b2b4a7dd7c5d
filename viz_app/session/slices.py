"""Long computations are made in slices, so that a person sees how far they are and can stop them.

Streamlit ends no run of a panel because one of the panel's widgets is used. So a panel computes for
about a second, and asks to be drawn again once the app rests: what a person did meanwhile comes
first, and may be that nobody wants the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from headwise.viz_app.components.unseen import draw_again
from headwise.viz_app.session.view import note_timer_rerun, view

Item = TypeVar("Item")
Result = TypeVar("Result")
NoteDone = Callable[[int, int], None]
"""Is told how much of how much is done."""
SECONDS = 1.0
"""Seconds of a slice."""
_BETWEEN = 0.1
"""Seconds for which the app rests between two slices."""


class _PutAsideError(Exception):
    """A computation is put aside: its time is over, and there is more to do."""


def in_slices(
    said: str,
    compute: Callable[[NoteDone], Result],
    *,
    key: str,
    stop: Callable[[], None] | None = None,
    times: float = 1,
    first: float | None = None,
) -> Result | None:
    """Compute for about a second; return the result, or None if the panel must be drawn again.

    Progress, and a button that stops, stand where this is called while there is more to do.

    Args:
        said: what is done, for the progress.
        compute: is given a function that it calls after each part, which may end it by an
            exception. What it had done by then it must keep, and not do again; it may say so
            again. A slice is not ended before a part is done that the one before had not: also
            where a slice is shorter than a part, or than it takes to find again what is done.
        key: of what is drawn.
        stop: changes the view when a person stops, so that the panel does not ask for this again;
            None where what there is so far is drawn, and nobody waits.
        times: how many seconds it is, where to give memory back after each slice costs too much.
        first: how many the first slice is, where what there is so far is drawn.
    """
    unfinished, far = f"unfinished-{key}", 0
    if first is not None and unfinished not in st.session_state:
        times = first
    place, until, bar = st.empty(), time.monotonic() + times * SECONDS, None

    def draw(done: int, of: int) -> DeltaGenerator:
        with place.container(horizontal=True, gap="small", vertical_alignment="center", key=key):
            drawn = st.progress(done / of, f"{said}: {done:,} of {of:,}")
            if stop is not None:
                st.button("Stop", key=f"stop-{key}", icon=":material/stop:", on_click=stop)
        return drawn

    def note_done(done: int, of: int) -> None:
        nonlocal bar
        if done == of or done < far:
            return
        bar = draw(done, of) if bar is None else bar
        bar.progress(done / of, f"{said}: {done:,} of {of:,}")
        if done > far and time.monotonic() >= until:
            st.session_state[unfinished] = view(), done, of
            raise _PutAsideError

    if before := st.session_state.pop(unfinished, None):
        asked, done, of = before
        bar = draw(done, of)  # at once, so that the button can be clicked all the time
        far = done if asked == view() else 0  # else it may be another computation
    try:
        result = compute(note_done)
    except _PutAsideError:
        draw_again(seconds=_BETWEEN, on_due=note_timer_rerun, key=f"goes_on-{key}")
        return None
    place.empty()
    return result


def each_in_slices(
    said: str,
    items: Sequence[Item],
    compute: Callable[[Item], Result],
    *,
    key: str,
    stop: Callable[[], None],
) -> list[Result] | None:
    """Compute something of each of some items, such as checkpoints, as ``in_slices`` does."""

    def compute_all(note_done: NoteDone) -> list[Result]:
        found: list[Result] = []
        for item in items:
            found.append(compute(item))
            note_done(len(found), len(items))
        return found

    return in_slices(said, compute_all, key=key, stop=stop)
