"""Marks what a process computes, so that no other process repeats what has just ended one.

A browser whose app has ended sends its page again, to the next process. What takes much memory is
marked by a small file while it is computed: whoever finds the mark of a process that has ended does
not compute the same again for some time. Processes that share the folder know of each other.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from filelock import FileLock, Timeout

CACHE = "HEADWISE_CACHE"
"""The environment variable with the folder of the marks; one in the home folder without it."""
REMEMBERED = 600.0
"""Seconds for which what a process died of is not computed again."""


_own: set[Path] = set()
"""The marks of this process."""


@atexit.register
def _remove_own() -> None:
    """Remove the marks of what a process leaves unfinished that is told to stop."""
    for mark in _own.copy():
        with suppress(OSError):
            mark.unlink(missing_ok=True)


class CrashedBeforeError(ValueError):
    """A process has ended while it computed the same."""


@contextmanager
def marked(key: object) -> Iterator[None]:
    """Mark what is computed in the ``with`` block; ``key`` is written the same by all processes.

    Where no file can be written, or another process computes the same now, there is no mark.

    Raises:
        CrashedBeforeError: if a process has ended in this block a short time ago.
    """
    folder = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "headwise") / "computing"
    mark = folder / sha256(repr(key).encode("utf-8", "surrogatepass")).hexdigest()
    lock = FileLock(f"{mark}.lock", blocking=False)  # ends with the process
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        died = mark.exists() and time.time() - mark.stat().st_mtime < REMEMBERED
        if not died:
            mark.touch()
            _own.add(mark)
    except (Timeout, OSError, RuntimeError):  # there may be no home folder
        with suppress(OSError):
            lock.release()
        yield
        return
    try:
        if died:
            raise CrashedBeforeError(
                "the app ended while it computed this, so it does not take it again for "
                f"{REMEMBERED / 60:.0f} minutes; give a shorter sentence"
            )
        try:
            yield
        finally:
            mark.unlink(missing_ok=True)
            _own.discard(mark)
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)
