"""Memory of the process, and how it is given back; ``model/budget.py`` has its budget.

A system ends a process that takes more than it may have, and all its sessions with it; so large
computations wait for their turn (``turns.py``). Freed memory does not go back to the system
by itself.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from threading import Thread

from streamlit.runtime import exists, get_instance

from headwise.model.budget import used

_SWEEP = 30.0
"""Seconds after which it is looked whether there is memory to give back."""
_IDLE = 3
"""Sweeps at which nobody is connected until all that is kept goes."""
_GROWTH = 32 * 2**20
"""Bytes by which the process has grown when it is: much of that is nothing that is still used."""
_ARENAS, _MAPPED = -8, -3
"""Names of glibc for the number of arenas, and for the size from which on memory is its own map."""


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
    sessions = _sessions()
    storage = getattr(getattr(sessions, "_session_storage", None), "_cache", None)
    expire = getattr(storage, "expire", None)
    with getattr(sessions, "_storage_lock", nullcontext()):  # Streamlit's thread stores others
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
    Between what stays, holes are left that the next array does not fit into: passes over a sentence
    of 1,000 tokens without each of its words left 0.6 MiB a word, and half as much so.
    """
    if set_option := getattr(_libc(), "mallopt", None):
        set_option(_ARENAS, 2)
        set_option(_MAPPED, 2**17)


def _nobody_is_connected() -> bool:
    """Return whether no browser is connected."""
    active = getattr(_sessions(), "num_active_sessions", None)
    return active is not None and active() == 0


class Sweep:
    """Gives memory back, each time that it is called, if there may be any."""

    def __init__(self, drop_kept: Callable[[bool], bool]) -> None:
        """Set up.

        ``drop_kept`` drops what is kept only to save time, with True all of it, and returns whether
        there was anything.
        """
        self._drop_kept = drop_kept
        self._least = used()
        """The least that the process has had since memory was given back."""
        self._idle = 0
        """How often nobody has been connected, up to now."""

    def __call__(self) -> None:
        """Give memory back if the process has grown, or if sessions have ended.

        What is kept for others goes if nobody is connected; if that lasts, all of it.
        """
        ended = _drop_ended_sessions()
        self._idle = self._idle + 1 if _nobody_is_connected() else 0
        dropped = self._idle > 0 and self._drop_kept(self._idle >= _IDLE)
        if ended or dropped or used() > self._least + _GROWTH:
            give_back()  # not each time, since Python's collector would hold up pages
            self._least = used()
        self._least = min(self._least, used())


def sweep_for_ever(drop_kept: Callable[[bool], bool]) -> None:
    """Start a thread that sweeps now and then."""
    sweep = Sweep(drop_kept)

    def run() -> None:
        while True:
            time.sleep(_SWEEP)
            sweep()

    Thread(target=run, daemon=True, name="memory").start()
