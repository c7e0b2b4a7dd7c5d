"""Tensors with a description of them in one safetensors file, and a checksum of both."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
import safetensors.torch
from torch import Tensor

from headwise.model.files import make_folder, write_bytes


def write_tensors(path: Path, about: str, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, in this order, with what they are in JSON; the folder is made.

    Raises:
        CheckpointError: if they cannot be written.
    """
    make_folder(path.parent)
    metadata = {"about": about, "sha256": _sha256(about, tensors)}
    write_bytes(path, safetensors.torch.save(dict(tensors), metadata))


def read_tensors(content: bytes) -> tuple[str, dict[str, Tensor]]:
    """Return what the description says, and the tensors; their checksum is not looked at yet."""
    tensors = safetensors.torch.load(content)
    return _metadata(content)["about"], tensors


def require_checksum(content: bytes, tensors: Mapping[str, Tensor], names: Sequence[str]) -> None:
    """Raise a ValueError if the tensors, in the order of these names, are not those written."""
    metadata = _metadata(content)
    wanted = {name: tensors[name] for name in names}
    if metadata.get("sha256") != _sha256(metadata["about"], wanted):
        raise ValueError("its sha256 is not that of its content")


def _metadata(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = orjson.loads(content[8 : 8 + length])["__metadata__"]
    return found


def _sha256(about: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(about.encode())
    for tensor in tensors.values():
        array = tensor.numpy()
        digest.update(repr(array.shape).encode())
        digest.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
