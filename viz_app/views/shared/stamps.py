"""Tell whether a file has changed since it was read, by its time and size."""

from __future__ import annotations

from pathlib import Path

from headwise.model.files import CheckpointError

Stamp = tuple[int, int]
"""Time of the last change in nanoseconds, and size in bytes."""


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file.

    Raises:
        CheckpointError: if there is no such file, or the system does not give its status.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror})") from error
    return status.st_mtime_ns, status.st_size


def stamp_if_there(path: Path) -> Stamp | None:
    """Return the stamp of a file, or None if there is no such file."""
    try:
        return stamp_of(path)
    except CheckpointError:
        return None
