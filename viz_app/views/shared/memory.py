"""Memory: what would pass the budget of the process waits, and is refused where it cannot fit.

A system ends a process that takes more than it may have, and all its sessions with it. So every
large computation says before it begins how much it will take (``viz_app/trace/memory.py``), and
begins when that is free. Those that wait are served in the order in which they came; small ones
never wait. Freed memory goes back to the system, which it does not do by itself.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Thread

import streamlit as st
from streamlit.runtime import exists, get_instance

MEMORY = "HEADWISE_MEMORY"
"""The environment variable with the budget: bytes, or a number and KiB, MiB or GiB."""
SMALL = 48 * 2**20
"""Bytes that are given without waiting; room for some of these is kept free."""
_KEPT_FREE = 4 * SMALL
_WITHOUT_LIMIT = 2**60
"""Bytes; what has this limit, or a larger one, has none (cgroup v1 says 2^63 for none)."""
_LEAST = 512 * 2**20
"""Bytes of the smallest budget; with less, not even one page can be made."""
_LOOKS = 0.5
"""Seconds between two looks at what is free."""
_PATIENCE = 15.0
"""Seconds for which what is first in the queue waits for pages that are being drawn, which have no
reservation, to give memory back."""
_SWEEP = 30.0
"""Seconds after which memory of sessions that have ended is given back."""
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much a container may have: cgroup v2, v1."""
_ARENAS, _MAPPED = -8, -3
"""Names of glibc for the number of arenas, and for the size from which on memory is its own map."""


class OutOfMemoryError(ValueError):
    """A computation takes more memory than there is for it; the message says how much."""


def parse_bytes(text: str) -> int:
    """Read an amount of memory, such as ``2GiB``, ``1536 MiB`` or ``2147483648``.

    Raises:
        ValueError: if it is none, or less than 512 MiB.
    """
    found = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,6})?) *([kmg]?)(?:i?b)?", text.strip().lower())
    amount = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if amount < _LEAST:
        raise ValueError(
            f"{MEMORY}: expected an amount of memory of at least {_LEAST >> 20} MiB, such as 2GiB, "
            f"got {text!r:.40}"
        )
    return amount


def budget() -> int:
    """Return how many bytes the process may take.

    That is what the environment says or, without it, the limit of the container, or else the memory
    of the machine.

    Raises:
        ValueError: if the environment says no amount.
    """
    if given := os.environ.get(MEMORY):
        return parse_bytes(given)
    limits = [limit for path in _LIMITS if (limit := _read_limit(Path(path))) is not None]
    return max(_LEAST, min([*limits, _of_machine()]))


def _read_limit(path: Path) -> int | None:
    """Return a limit in bytes; None where the system has no such file, or sets no limit."""
    with suppress(OSError, ValueError):
        limit = int(path.read_text())
        return limit if limit < _WITHOUT_LIMIT else None
    return None


def _of_machine() -> int:
    """Return the bytes of the machine's memory; on systems that do not say, no limit."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _WITHOUT_LIMIT


def used() -> int:
    """Return the bytes that the process has in memory; 0 on systems that have no ``/proc``."""
    with suppress(OSError, ValueError, AttributeError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def give_back() -> None:
    """Give memory that nothing uses back to the system.

    Sessions of browsers that went away are kept by Streamlit for two minutes, and dropped only when
    another session ends; objects that refer to each other wait for Python's collector; and glibc
    keeps freed memory.
    """
    _drop_ended_sessions()
    gc.collect()
    if trim := getattr(_libc(), "malloc_trim", None):
        trim(0)


def _drop_ended_sessions() -> bool:
    """Drop the sessions of browsers that went away long enough ago; return whether it did."""
    storage = getattr(getattr(_sessions(), "_session_storage", None), "_cache", None)
    expire = getattr(storage, "expire", None)
    return bool(expire and expire())


def _sessions() -> object:
    """Return what Streamlit has of its sessions, for which it has no public function."""
    return getattr(get_instance(), "_session_mgr", None) if exists() else None


def _libc() -> ctypes.CDLL | None:
    """Return the C library of Linux; None on other systems, which have nothing to be told."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None


def use_few_arenas() -> None:
    """Have glibc keep little freed memory: two arenas, and large arrays as maps of their own.

    Each thread would have an arena, of which nothing is given back while a byte at its end is used.
    """
    if set_option := getattr(_libc(), "mallopt", None):
        set_option(_ARENAS, 2)
        set_option(_MAPPED, 2**20)


def _nobody_is_connected() -> bool:
    """Return whether no browser is connected."""
    active = getattr(_sessions(), "num_active_sessions", None)
    return active is not None and active() == 0


def sweep(drop_kept: Callable[[], bool]) -> None:
    """Give memory back if sessions have ended, and what is kept for others if there are none.

    ``drop_kept`` drops what is kept only to save time, and returns whether there was anything.
    """
    ended = _drop_ended_sessions()
    if (_nobody_is_connected() and drop_kept()) or ended:
        give_back()  # not each time, since Python's collector would hold up pages


def sweep_for_ever(drop_kept: Callable[[], bool]) -> None:
    """Start a thread that sweeps now and then."""

    def run() -> None:
        while True:
            time.sleep(_SWEEP)
            sweep(drop_kept)

    Thread(target=run, daemon=True, name="memory").start()


@st.cache_resource(show_spinner=False)
def memory() -> Memory:
    """Return the memory of the process.

    (A variable of this module would be made again when Streamlit loads an edited module.)
    """
    return Memory(budget())


class Memory:
    """Reservations are given in the order in which they are asked for, as far as memory is free."""

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
        self._waiting: deque[object] = deque()
        self._condition = Condition()

    @contextmanager
    def reserved(
        self,
        needed: int,
        *,
        on_wait: Callable[[int], None] = lambda before: None,
        make_room: Callable[[], object] = lambda: None,
    ) -> Iterator[None]:
        """Reserve bytes for the time of the ``with`` block.

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
        self._wait(needed, on_wait, make_room)
        try:
            yield
        finally:
            with self._condition:
                self._reserved -= needed
                self._condition.notify_all()
            self._free()

    def waiting(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def _wait(
        self, needed: int, on_wait: Callable[[int], None], make_room: Callable[[], object]
    ) -> None:
        ticket = object()
        with self._condition:
            self._waiting.append(ticket)
        until: float | None = None
        try:
            while True:
                with self._condition:
                    before = self._waiting.index(ticket)
                    if before == 0 and self._fits(needed):
                        self._reserved += needed
                        return
                    alone = before == 0 and not self._reserved
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
