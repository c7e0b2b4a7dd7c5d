"""Headers of safetensors files, read before any library maps a file or takes memory for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.model.files import CheckpointError, open_regular, parse_json

_MOST_OF_HEADER = 2**20
"""Bytes: some 10,000 tensors. (The library takes 100 MB.)"""


def read_header(path: Path, *, within: Path | None = None) -> tuple[int, dict[str, Any]]:
    """Return the length of a file's header, and what it says of each tensor.

    Raises:
        CheckpointError: if the file cannot be read, leads out of ``within``, or its header is too
            long, or none.
    """
    with open_regular(path, within=within) as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MOST_OF_HEADER:
            raise CheckpointError(
                f"{path}: truncated, or not safetensors: expected a header of at most "
                f"{_MOST_OF_HEADER:,} bytes, got {length:,}; restore the file"
            )
        content = file.read(length)
    try:
        return length, {n: of for n, of in parse_json(content).items() if n[:2] != "__"}
    except (ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: truncated, or not safetensors ({error}); restore the file or remove it"
        ) from error


def is_whole(path: Path, *, within: Path | None = None) -> bool:
    """Return whether a file is as long as its header says.

    Raises:
        CheckpointError: as ``read_header``.
    """
    length, tensors = read_header(path, within=within)
    try:
        ends = [tensor["data_offsets"][1] for tensor in tensors.values()]
        return path.stat().st_size == 8 + length + max(ends, default=0)
    except (OSError, KeyError, TypeError, IndexError):
        return False


def require_whole(path: Path, *, within: Path | None = None) -> None:
    """Raise a CheckpointError if a file is not as long as its header says."""
    if not is_whole(path, within=within):
        raise CheckpointError(
            f"{path}: truncated, or not safetensors; restore the file or remove it"
        )
