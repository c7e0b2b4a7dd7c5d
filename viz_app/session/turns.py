"""Turns: of many people who change their pages at the same moment, few are served at once.

There is a queue for each size of page, so that nobody waits behind something larger:

* ordinary pages, two at once. Python runs one thread at a time, and decoding gives up that right at
  each of its small operations and must wait for it again. Twenty sessions without pauses, on two
  cores, got 2.0 sentences a second when their pages were all made at once, 3.9 when one was made at
  a time, and 4.1 when two were;
* pages that compute something moderate, also two at once, or long, one at a time. Such a
  computation says before it begins how much memory it will take (``model/estimates.py``), and
  begins when that is free: a system ends a process that takes more than it may have, and all its
  sessions with it.

In a queue, who comes first is served first. Whoever has asked for something else meanwhile, or is
gone, leaves it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from threading import Condition, local

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from headwise.model.budget import budget, used
from headwise.viz_app.session.memory import give_back

SMALL = 48 * 2**20
"""Bytes that an ordinary page takes without asking; room for some of these is kept free."""
_KEPT_FREE = 4 * SMALL
_MODERATE = 8
"""What takes no more than the budget divided by this is moderate, and what takes more is long."""
AT_ONCE = 2
"""Pages that are made at once, of those that are not long."""
PATIENCE = 1.0
"""Seconds for which an ordinary page counts as one of these; what takes longer holds up nobody."""
PAUSE = 0.15
"""Seconds in which a browser draws the pictures that a person waits for."""
_LOOK = 0.03
"""Seconds between two looks whether a person did something meanwhile."""
_LOOKS = 0.5
"""The same for somebody who waits for a turn, and for what is free."""


class OutOfMemoryError(ValueError):
    """A computation takes more memory than there is for it; the message says how much."""


class Size(IntEnum):
    """The size of a page, by the most memory that one of its computations takes."""

    ORDINARY = 0
    MODERATE = 1
    LONG = 2


@dataclass(eq=False)
class _Page:
    """A page, or a part of one, that a thread draws."""

    turn: Size | None = None
    """The turn that it has."""
    began: float = 0.0
    """When it got that turn."""
    reserved: int = 0
    """Bytes of its largest computation, until it is drawn: it holds the result as long."""
    awaited: set[_Page] | None = None
    """Pages that may yet give memory back for which it waits, once everything else has been done.
    """


class Turns:
    """A page has one turn, and keeps it until it is drawn.

    With its first computation that is larger, it exchanges the turn for a larger one, so that two
    pages never wait for what the other one has.
    """

    def __init__(
        self,
        budget: int,
        *,
        at_once: int = AT_ONCE,
        patience: float = PATIENCE,
        used: Callable[[], int] = used,
        free: Callable[[], None] = give_back,
        every: float = _LOOKS,
    ) -> None:
        """Set up; ``free`` gives memory back, and ``every`` so many seconds it is looked at."""
        self.budget = budget
        self._at_once, self._patience = at_once, patience
        self._used, self._free, self._every = used, free, every
        self._pages: set[_Page] = set()
        self._queues: dict[Size, deque[_Page]] = {size: deque() for size in Size}
        self._base = 0
        """Bytes that were in use when the first of the present reservations was made."""
        self._changes = 0
        self._condition = Condition()
        self._own = local()
        """``page``: what the thread draws."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn of an ordinary page, which is drawn in the ``with`` block."""
        with self.page():
            self._wait(
                self._own.page,
                Size.ORDINARY,
                lambda: self._ordinary() < self._at_once,
                lambda _: stop_if_unwanted(),
            )
            yield

    @contextmanager
    def page(self) -> Iterator[None]:
        """Keep what the thread has until the end of the outermost ``with`` block."""
        if hasattr(self._own, "page"):
            yield
            return
        page = self._own.page = _Page()
        with self._condition:
            self._pages.add(page)
        try:
            yield
        finally:
            del self._own.page
            if page.turn not in (None, Size.ORDINARY):
                self._free()
            with self._condition:
                self._pages.remove(page)
                self._change()

    @contextmanager
    def stand_aside(self) -> Iterator[None]:
        """Let others have the ordinary turn of this thread, if it has one, while it waits."""
        page: _Page = getattr(self._own, "page", _Page())
        had = page.turn
        if had is Size.ORDINARY:
            self._give(page, None)
        try:
            yield
        finally:
            if had is Size.ORDINARY:
                self._give(page, had)

    @contextmanager
    def reserved(
        self,
        needed: int,
        *,
        is_there: Callable[[], bool] = lambda: False,
        on_wait: Callable[[int], None] = lambda before: None,
        make_room: Callable[[], object] = lambda: None,
    ) -> Iterator[None]:
        """Have the turn and the memory for a computation in the ``with`` block.

        Args:
            needed: how many bytes it takes at its height.
            is_there: whether its result is in memory by now, so that it takes no more.
            on_wait: is told, now and then, how many are served before this: never more than before.
            make_room: drops what is kept only to save time.

        Raises:
            OutOfMemoryError: if the memory does not get free though nothing else is computed.
        """
        if needed <= SMALL:
            yield
            return
        most = self.budget // _MODERATE
        # A moderate page has room for all that is moderate, and never asks for more.
        size, room = (Size.LONG, needed) if needed > most else (Size.MODERATE, most)
        with self.page():
            page: _Page = self._own.page
            if page.turn is None or page.turn < size or page.reserved < needed:
                size = max(size, page.turn or size)

                def begins() -> bool:
                    return self._begins(page, size, 0 if is_there() else room, make_room)

                self._wait(page, size, begins, on_wait)
            try:
                yield
            finally:
                self._free()

    def waiting(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._queues.values()))

    def _wait(
        self, page: _Page, size: Size, begins: Callable[[], bool], on_wait: Callable[[int], None]
    ) -> None:
        """Wait until a page is the first in the queue of a size, and begins."""
        queue = self._queues[size]
        with self._condition:
            if page.turn is size:  # it is being served, and asks for more memory
                queue.appendleft(page)
            else:
                queue.append(page)
                page.reserved = 0
                self._give(page, None)
        try:
            while True:
                with self._condition:
                    before = queue.index(page)
                    if not before and begins():
                        self._give(page, size)
                        return
                    before += len(self._having(size).difference(queue))
                    seen = self._changes
                on_wait(before)
                self._wait_for_change(seen)
        finally:
            with self._condition:
                queue.remove(page)
                page.awaited = None
                self._change()

    def _begins(
        self, page: _Page, size: Size, needed: int, make_room: Callable[[], object]
    ) -> bool:
        """Return whether the first in the queue of a larger size has its turn and memory now.

        Raises:
            OutOfMemoryError: if nothing is computed any more that could give memory back.
        """
        # Else moderate pages, one after another, could keep what a long one waits for.
        if size is Size.MODERATE and self._long_is_next():
            return False
        if len(self._having(size) - {page}) >= (1 if size is Size.LONG else self._at_once):
            return False
        if self._reserve(page, needed):
            return True
        drawn = self._pages.difference(*self._queues.values())
        if any(each.turn not in (None, Size.ORDINARY) for each in drawn):
            return False
        if page.awaited is None:
            make_room()
            self._free()
            page.awaited = drawn
            if self._reserve(page, needed):
                return True
        page.awaited &= drawn
        if not page.awaited or self.budget < needed + _KEPT_FREE:
            raise OutOfMemoryError(self._refusal(needed))
        return False

    def _reserve(self, page: _Page, needed: int) -> bool:
        """Reserve memory for a page if it is free; return whether it was."""
        reserved = sum(each.reserved for each in self._pages)
        if not reserved:
            self._base = self._used()
        taken = max(self._used(), self._base + reserved)
        more = max(0, needed - page.reserved)
        if more and taken + more + _KEPT_FREE > self.budget:
            return False
        page.reserved += more
        return True

    def _having(self, size: Size) -> set[_Page]:
        return {each for each in self._pages if each.turn is size}

    def _ordinary(self) -> int:
        """Return how many ordinary pages have a turn, those left out that have it for long."""
        since = time.monotonic() - self._patience
        return sum(each.began > since for each in self._having(Size.ORDINARY))

    def _long_is_next(self) -> bool:
        """Return whether a long page would begin now, or go on, if there were memory for it."""
        queue = self._queues[Size.LONG]
        return bool(queue) and self._having(Size.LONG) <= {queue[0]}

    def _give(self, page: _Page, turn: Size | None) -> None:
        with self._condition:
            page.turn, page.began = turn, time.monotonic()
            self._change()

    def _wait_for_change(self, since: int) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._changes != since, self._every)

    def _change(self) -> None:
        self._changes += 1
        self._condition.notify_all()

    def _refusal(self, needed: int) -> str:
        free = max(0, self.budget - _KEPT_FREE - self._used())
        return (
            f"this takes some {needed >> 20:,} MiB of memory, and {free >> 20:,} are free here; "
            "give a shorter sentence, or close other pages"
        )


@st.cache_resource(show_spinner=False)
def turns() -> Turns:
    """Return the turns of the process.

    (A variable of this module would be made again when Streamlit loads an edited module.)
    """
    return Turns(budget())


def stop_if_unwanted() -> None:
    """End the run of a script here if its session is gone, or asks for another page meanwhile."""
    if get_script_run_ctx(suppress_warning=True) is not None:
        "session" in st.session_state  # noqa: B015 (where Streamlit ends a run)


def let_browser_draw() -> None:
    """Wait a moment, in which the browser draws what was made so far; others have the turn.

    A browser that is sent everything at once prepares all of it before it paints any. Call this
    behind what a person waits for. If a person does something meanwhile, Streamlit ends the run.
    """
    until = time.monotonic() + PAUSE
    with turns().stand_aside():
        while time.monotonic() < until:
            time.sleep(_LOOK)
            stop_if_unwanted()
