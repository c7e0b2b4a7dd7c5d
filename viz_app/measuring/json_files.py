"""JSON files of what was measured: a dataclass with a line a field, so that changes can be read.

Numbers have five decimals, and null is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import nan
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import orjson
from pydantic import AfterValidator, Field, GetPydanticSchema, WrapValidator

from headwise.model.files import CheckpointError, make_folder, read_bytes, write_bytes
from headwise.model.validation import format_version, validate_json
from headwise.viz_app.records.trace import Floats

File = TypeVar("File")
Record = TypeVar("Record")
_LARGEST = float(np.finfo(np.float32).max)
Finite = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]
Number = Annotated[Finite, WrapValidator(lambda value, read: nan if value is None else read(value))]
"""A number that may be NaN."""


def _array(rows: list[list[float | None]]) -> Floats:
    array: Floats = np.array(rows, dtype=np.float32)  # null becomes NaN
    if array.ndim != 2:
        raise ValueError(f"expected values by layer and head, got shape {array.shape}")
    array.flags.writeable = False
    return array


_Rows = Annotated[list[list[Finite | None]], AfterValidator(_array)]
Table = Annotated[Floats, GetPydanticSchema(lambda _, read: read.generate_schema(_Rows))]
"""Values by layer and head, (L, H); they cannot be changed."""


def write_json(path: Path, file: Any, *, items_apart: bool = False) -> None:
    """Write a dataclass; the folder is made. A field that is empty and has a default is left out;
    ``items_apart`` gives a line to each item of a list. CheckpointError if it cannot be written.
    """
    make_folder(path.parent)
    optional = {
        field.name
        for field in fields(file)
        if (field.default, field.default_factory) != (MISSING, MISSING)
    }
    lines = []
    for name, value in vars(file).items():
        if value or name not in optional:
            text = orjson.dumps(found := _plain(value))
            if items_apart and isinstance(found, list) and found:
                text = b"[\n" + b",\n".join(map(orjson.dumps, found)) + b"\n]"
            lines.append(orjson.dumps(name) + b":" + text)
    write_bytes(path, b"{" + b",\n".join(lines) + b"}\n")


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, with rounded numbers."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return round(value, 5) + 0.0  # no -0.0
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return value


def read_json(
    path: Path,
    file: type[File],
    make: Callable[[File], Record],
    *,
    what: str,
    version: int,
    within: Path | None = None,
) -> Record:
    """Read a file that says its ``format_version``, and ``make`` a record of the dataclass in it.

    ``what`` names its content in errors; a link must not leave the folder ``within``.
    CheckpointError if the file is damaged, foreign or of another version: also if ``make`` raises
    ValueError or KeyError.
    """
    try:
        content = read_bytes(path, within=within)
        found = format_version(content)
        if found == version:
            return make(validate_json(file, content))
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{path}: not {what}, or damaged ({error}); measure again") from error
    raise CheckpointError(
        f"{path}: format version {found!r}, this program reads {version}; measure again"
    )
