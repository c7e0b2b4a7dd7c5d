"""Files of tensors that were measured of a checkpoint, in safetensors.

The header says which checkpoint, on what it was measured, and has a checksum of all that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import orjson
import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from headwise.model.files import CheckpointError, make_folder, read_bytes, write_bytes
from headwise.model.validation import validate_json
from headwise.viz_app.records.measures import CorpusSummary

MOST_OF_TENSORS = 48 * 2**20
"""Bytes of a file; resamples of the 1,152 heads of a large model have 27 million."""
Record = TypeVar("Record")


@dataclass(frozen=True)
class Header:
    """What the header of a file says, as JSON, besides the names and shapes of its tensors."""

    format_version: int
    run: str
    step: int
    sha256: str
    corpus: CorpusSummary


def write_tensors(path: Path, header: Header, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, in this order, with what they are; the folder is made.

    Raises:
        CheckpointError: if they cannot be written.
    """
    make_folder(path.parent)
    about = orjson.dumps(asdict(header)).decode()
    metadata = {"about": about, "sha256": _sha256(about, tensors)}
    write_bytes(path, safetensors.torch.save(dict(tensors), metadata))


def read_tensors(
    path: Path,
    what: str,
    step: int,
    make: Callable[[Header, dict[str, Tensor]], Record],
    *,
    version: int,
    names: Sequence[str],
) -> Record | None:
    """Read the file of a step; None if there is none.

    Args:
        path: of the file.
        what: the tensors, as an error names them.
        step: of which checkpoint they should be.
        make: makes the record of them, or raises a ValueError if they are not as they should be.
        version: of the format.
        names: of the tensors, in the order in which they were written.

    Raises:
        CheckpointError: if the file is damaged, foreign or of another version.
    """
    if not path.exists():
        return None
    try:
        content = read_bytes(path, most=MOST_OF_TENSORS)
        tensors = safetensors.torch.load(content)
        metadata = _metadata(content)
        header = validate_json(Header, metadata["about"])
        if (header.format_version, header.step) != (version, step):
            raise ValueError(
                f"expected format version {version} and step {step}, got "
                f"{header.format_version} and {header.step}"
            )
        if set(tensors) != set(names):
            raise ValueError(
                f"expected tensors {', '.join(names)}, got {', '.join(sorted(tensors))}"
            )
        record = make(header, tensors)
        ordered = {name: tensors[name] for name in names}
        if metadata.get("sha256") != _sha256(metadata["about"], ordered):
            raise ValueError("its sha256 is not that of its content")
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path}: not the {what} of step {step:,}, or damaged ({error}); measure again"
        ) from error
    return record


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
