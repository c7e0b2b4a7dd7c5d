"""How much memory the process may take, and whether what is asked for fits into it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

MEMORY = "HEADWISE_MEMORY"
"""The environment variable with the budget: bytes, or a number and KiB, MiB or GiB."""
_WITHOUT_LIMIT = 2**60
"""Bytes; what has this limit, or a larger one, has none (cgroup v1 says 2^63 for none)."""
_LEAST = 512 * 2**20
"""Bytes of the smallest budget; with less, not even one page can be made."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much a container may have: cgroup v2, v1."""


def parse_bytes(text: str) -> int:
    """Read an amount such as ``2GiB`` or ``1536 MiB``; a ValueError if none, or below 512 MiB."""
    found = re.fullmatch(r"([0-9]{1,20}(?:\.[0-9]{1,6})?) *([kmg]?)(?:i?b)?", text.strip().lower())
    amount = int(float(found[1]) * 1024 ** " kmg".index(found[2] or " ")) if found else 0
    if amount < _LEAST:
        raise ValueError(
            f"{MEMORY}: expected an amount of memory of at least {_LEAST >> 20} MiB, such as 2GiB, "
            f"got {text!r:.40}"
        )
    return amount


def budget() -> int:
    """Return how many bytes the process may take.

    That is what the environment says or, without it, the limit of the container, or else the memory
    of the machine. What is no amount is a ValueError.
    """
    if given := os.environ.get(MEMORY):
        return parse_bytes(given)
    limits = [_of_machine()]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # there is no such file, or no number in it
            limits.append(int(Path(path).read_text()))
    return max(_LEAST, min(limits))


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


def require_memory(needed: int) -> None:
    """Refuse, by a ValueError, a text that would take more than the process may still have."""
    free = max(0, budget() - used())
    if needed > free:
        raise ValueError(
            f"this takes some {needed >> 20:,} MiB of memory, and {free >> 20:,} are free here; "
            f"give a shorter text, or more memory by {MEMORY}, such as {MEMORY}=8GiB"
        )


def why_too_large(needed: int) -> str | None:
    """Say why a file is not read that would take more than the process may have at all.

    (What it has in memory now does not count: caches give way, and a file is read again later.)
    """
    if needed <= (most := budget()):
        return None
    return (
        f"reading it takes some {needed >> 20:,} MiB of memory, and this process may have "
        f"{most >> 20:,}; give it more by {MEMORY}, such as {MEMORY}=8GiB, or take a smaller model"
    )
