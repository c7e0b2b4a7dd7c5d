"""Turns: of many people who change their pages at the same moment, few are served at once.

Python runs one thread at a time, and decoding gives up that right at each of its small operations
and must wait for it again. Twenty sessions without pauses, on two cores, got 2.0 sentences a second
when their pages were all made at once, 3.9 when one was made at a time, and 4.1 when two were.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, local

import streamlit as st

AT_ONCE = 2
"""Pages that are made at once."""
PATIENCE = 0.5
"""Seconds without any page begun or ended after which the next one begins all the same."""
PAUSE = 0.15
"""Seconds in which a browser draws the pictures that a person waits for."""
_LOOK = 0.03
"""Seconds between two looks whether a person did something meanwhile."""


class Turns:
    """Turns are given in the order in which they are asked for.

    Nobody waits long for somebody's long computation: the next turn is also given when none was
    begun or ended for some time.
    """

    def __init__(self, at_once: int, patience: float) -> None:
        self._at_once, self._patience = at_once, patience
        self._taken = 0
        self._changes = 0
        """How often a turn was given or ended."""
        self._waiting: deque[object] = deque()
        self._condition = Condition()
        self._own = local()
        """Whether a thread has a turn."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, which ends with the ``with`` block."""
        ticket = object()
        with self._condition:
            self._waiting.append(ticket)
            self._condition.wait_for(lambda: self._waiting[0] is ticket)
            while self._taken >= self._at_once and self._changes_in_time():
                pass
            self._waiting.popleft()
            self._change(by=1)
        self._own.has_turn = True
        try:
            yield
        finally:
            self._own.has_turn = False
            with self._condition:
                self._change(by=-1)

    @contextmanager
    def stand_aside(self) -> Iterator[None]:
        """Let others have the turn of this thread, if it has one, while it waits for something."""
        by = int(getattr(self._own, "has_turn", False))
        with self._condition:
            self._change(by=-by)
        try:
            yield
        finally:
            with self._condition:
                self._change(by=by)

    def waiting(self) -> int:
        """Return how many wait for a turn."""
        return len(self._waiting)

    def _changes_in_time(self) -> bool:
        """Wait for a change; return whether there was one before patience was at its end."""
        before = self._changes
        return self._condition.wait_for(lambda: self._changes != before, self._patience)

    def _change(self, *, by: int) -> None:
        self._taken += by
        self._changes += 1
        self._condition.notify_all()


@st.cache_resource(show_spinner=False)
def turns() -> Turns:
    """Return the turns of the process.

    (A variable of this module would be made again when Streamlit loads an edited module.)
    """
    return Turns(AT_ONCE, PATIENCE)


def let_browser_draw() -> None:
    """Wait a moment, in which the browser draws what was made so far; others have the turn.

    A browser that is sent everything at once prepares all of it before it paints any. Call this
    behind what a person waits for. If a person does something meanwhile, Streamlit ends the run.
    """
    until = time.monotonic() + PAUSE
    with turns().stand_aside():
        while time.monotonic() < until:
            time.sleep(_LOOK)
            "session" in st.session_state  # noqa: B015 (where Streamlit ends a run)
