"""Reservations of memory: what would pass the budget of the process waits, or is refused.

Every large computation says before it begins how much it will take (``viz_app/trace/memory.py``),
and begins when that is free. Those that wait are served in the order in which they came; small ones
never wait.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, local

import streamlit as st

from headwise.viz_app.views.shared.memory import budget, give_back, used

SMALL = 48 * 2**20
"""Bytes that are given without waiting; room for some of these is kept free."""
_KEPT_FREE = 4 * SMALL
_LOOKS = 0.5
"""Seconds between two looks at what is free."""
_PATIENCE = 15.0
"""Seconds for which what is first in the queue waits for pages that are being drawn, which have no
reservation, to give memory back."""


class OutOfMemoryError(ValueError):
    """A computation takes more memory than there is for it; the message says how much."""


@st.cache_resource(show_spinner=False)
def memory() -> Memory:
    """Return the memory of the process.

    (A variable of this module would be made again when Streamlit loads an edited module.)
    """
    return Memory(budget())


class Memory:
    """Reservations are given in the order in which they are asked for, as far as memory is free.

    A page keeps what it has reserved until it is drawn, since it holds its results as long. So two
    pages do not come to wait for what the other one holds.
    """

    def __init__(
        self,
        budget: int,
        *,
        used: Callable[[], int] = used,
        free: Callable[[], None] = give_back,
        every: float = _LOOKS,
        patience: float = _PATIENCE,
    ) -> None:
        """Set up; ``free`` gives memory back, and ``every`` so many seconds it is looked at."""
        self.budget = budget
        self._used, self._free, self._every, self._patience = used, free, every, patience
        self._reserved = 0
        self._held_by_waiting = 0
        """Bytes of pages that wait for more."""
        self._waiting: deque[object] = deque()
        self._condition = Condition()
        self._page = local()
        """``held``: the bytes of the page that a thread draws."""

    @contextmanager
    def page(self) -> Iterator[None]:
        """Keep what the thread reserves until the end of the outermost ``with`` block."""
        if hasattr(self._page, "held"):
            yield
            return
        self._page.held = 0
        try:
            yield
        finally:
            held = self._page.held
            del self._page.held
            if held:
                self._release(held)

    @contextmanager
    def reserved(
        self,
        needed: int,
        *,
        on_wait: Callable[[int], None] = lambda before: None,
        make_room: Callable[[], object] = lambda: None,
    ) -> Iterator[None]:
        """Reserve bytes for the time of the ``with`` block, or of the page that the thread draws.

        Args:
            needed: how many, at the height of the computation.
            on_wait: is told, now and then, how many wait before this.
            make_room: drops what is kept only to save time.

        Raises:
            OutOfMemoryError: if they do not get free though nothing else is computed.
        """
        if needed <= SMALL:
            yield
            return
        with self.page():
            held: int = self._page.held
            self._wait(needed, held, on_wait, make_room)
            self._page.held = max(held, needed)
            try:
                yield
            finally:
                self._free()

    def hold(self, taken: int) -> None:
        """Count what the page of this thread has of the cache, in bytes, as reserved by the page.

        It is in memory already, and goes on to be when the cache drops it: the page gives it back
        only when it is drawn, so it comes before those that have nothing to give back.
        """
        if taken <= SMALL or not hasattr(self._page, "held"):
            return
        with self._condition:
            self._reserved += max(0, taken - self._page.held)
        self._page.held = max(taken, self._page.held)

    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def _release(self, held: int) -> None:
        with self._condition:
            self._reserved -= held
            self._condition.notify_all()
        self._free()

    def _wait(
        self,
        needed: int,
        held: int,
        on_wait: Callable[[int], None],
        make_room: Callable[[], object],
    ) -> None:
        ticket = object()
        with self._condition:
            # A page that holds something can give it back only when it has the rest.
            (self._waiting.appendleft if held else self._waiting.append)(ticket)
            self._held_by_waiting += held
        until: float | None = None
        try:
            while True:
                with self._condition:
                    before = self._waiting.index(ticket)
                    if before == 0 and self._fits(needed - held):
                        self._reserved += max(0, needed - held)
                        return
                    alone = before == 0 and self._reserved == self._held_by_waiting
                if alone:
                    now = time.monotonic()
                    if until is not None and (now >= until or self.budget < needed + _KEPT_FREE):
                        raise OutOfMemoryError(self._refusal(needed))
                    make_room()
                    self._free()
                    if until is None:
                        until = now + self._patience
                        continue
                on_wait(before)
                with self._condition:
                    self._condition.wait(self._every)
        finally:
            with self._condition:
                self._held_by_waiting -= held
                self._waiting.remove(ticket)
                self._condition.notify_all()

    def _fits(self, needed: int) -> bool:
        return self._used() + self._reserved + needed + _KEPT_FREE <= self.budget

    def _refusal(self, needed: int) -> str:
        free = max(0, self.budget - _KEPT_FREE - self._used())
        return (
            f"this takes some {needed >> 20:,} MiB of memory, and {free >> 20:,} are free here; "
            "give a shorter sentence, or close other pages"
        )
