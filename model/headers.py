"""Headers of safetensors files, read before any library maps a file or takes memory for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.model.files import CheckpointError, open_regular, parse_json

_MOST_OF_HEADER = 2**20
"""Bytes: some 10,000 tensors. (The library takes 100 MB.)"""


def read_header(
    path: Path, *, within: Path | None = None
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the length of a file's header, what it says of each tensor, and its metadata.

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
        tensors = parse_json(content)
        metadata = dict(tensors.pop("__metadata__", {}))
        return length, {n: of for n, of in tensors.items() if n[:2] != "__"}, metadata
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"{path}: truncated, or not safetensors ({error}); restore the file or remove it"
        ) from error


def shapes_of(path: Path, *, within: Path | None = None) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a file, by its name.

    Raises:
        CheckpointError: as ``read_header``, or if it says no shape.
    """
    try:
        tensors = read_header(path, within=within)[1]
        return {name: tuple(map(int, tensor["shape"])) for name, tensor in tensors.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            f"{path}: truncated, or not safetensors ({error!r}); restore the file or remove it"
        ) from error


def is_whole(path: Path, *, within: Path | None = None) -> bool:
    """Return whether a file is as long as its header says.

    Raises:
        CheckpointError: as ``read_header``.
    """
    length, tensors, _ = read_header(path, within=within)
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
