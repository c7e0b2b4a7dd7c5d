"""Memory of the process: how much it may take, how much it has, and how it is given back.

A system ends a process that takes more than it may have, and all its sessions with it; so large
computations wait for their turn (``turns.py``). Freed memory does not go back to the system
by itself.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Thread

from streamlit.runtime import exists, get_instance

MEMORY = "HEADWISE_MEMORY"
"""The environment variable with the budget: bytes, or a number and KiB, MiB or GiB."""
_WITHOUT_LIMIT = 2**60
"""Bytes; what has this limit, or a larger one, has none (cgroup v1 says 2^63 for none)."""
_LEAST = 512 * 2**20
"""Bytes of the smallest budget; with less, not even one page can be made."""
_SWEEP = 30.0
"""Seconds after which it is looked whether there is memory to give back."""
_GROWTH = 32 * 2**20
"""Bytes by which the process has grown when it is: much of that is nothing that is still used."""
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much a container may have: cgroup v2, v1."""
_ARENAS, _MAPPED = -8, -3
"""Names of glibc for the number of arenas, and for the size from which on memory is its own map."""


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
        set_option(_MAPPED, 2**18)


def _nobody_is_connected() -> bool:
    """Return whether no browser is connected."""
    active = getattr(_sessions(), "num_active_sessions", None)
    return active is not None and active() == 0


def sweep(drop_kept: Callable[[], bool], least: int) -> int:
    """Give memory back if the process has grown, or if sessions have ended.

    What is kept for others goes if nobody is connected.

    Args:
        drop_kept: drops what is kept only to save time, and returns whether there was anything.
        least: bytes that the process had at the end of an earlier sweep.

    Returns:
        The least that it has had since memory was given back.
    """
    ended = _drop_ended_sessions()
    dropped = _nobody_is_connected() and drop_kept()
    if not (ended or dropped or used() > least + _GROWTH):
        return min(least, used())
    give_back()  # not each time, since Python's collector would hold up pages
    return used()


def sweep_for_ever(drop_kept: Callable[[], bool]) -> None:
    """Start a thread that sweeps now and then."""

    def run() -> None:
        least = used()
        while True:
            time.sleep(_SWEEP)
            least = sweep(drop_kept, least)

    Thread(target=run, daemon=True, name="memory").start()
