"""Writes traces as .npz and .json files and reads them again, without pickle.

An .npz file has every array under its name in the ``Trace`` and the rest as JSON in ``about``; a
.json file has the same as one object.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from headwise.model.turned import Turned
from headwise.model.validation import check_values
from headwise.viz_app.records.trace import (
    ARRAYS,
    SPECIAL_IDS,
    Check,
    Predictions,
    StackInput,
    Tokens,
    Trace,
)
from headwise.viz_app.trace.saved_format import (
    MOST_BYTES,
    MOST_JSON_BYTES,
    MOST_JSON_VALUES,
    SCHEMA_VERSION,
    About,
    SavedTokens,
    check_shapes,
    read_about,
    read_headers,
)

_READ_ERRORS = (
    *(ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError, EOFError),
    *(OverflowError, MemoryError, zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
_ROUNDING = 0.01  # how much more than a whole a share may be, of numbers that have few digits
_PLAIN = ("run", "step", "sha256", "source_text", "target_text", "forced")
"""What files have as a ``Trace`` has it, under the same names."""


_RECORDS = {"predictions": Predictions} | dict.fromkeys(
    ("source_embedding", "target_embedding"), StackInput
)


def metadata(trace: Trace) -> dict[str, Any]:
    """Return all of a trace but its arrays, as plain JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(trace, name) for name in _PLAIN},
        **_turned_as_json(trace.turned),
        **{
            side: _tokens_as_json(getattr(trace, side))
            for side in ("source", "consumed", "predicted")
        },
        "top_pieces": trace.top_tokens,
        "lens_pieces": trace.lens_tokens,
        "summary": [asdict(summary) for summary in trace.summary],
        "checks": [{**asdict(check), "passed": check.passed} for check in trace.checks],
    }


def _turned_as_json(turned: Turned) -> dict[str, Any]:
    """Write what was turned; only heads that are off have a name in the first files."""
    strengths = [[*head, strength] for head, strength in turned.strengths if strength]
    pinned = [[*pin.head, pin.row, pin.onto] for pin in turned.pinned]
    named = {"strengths": strengths, "pinned": pinned}
    return {"switched_off": [list(head) for head in turned.are_off]} | {
        name: rows for name, rows in named.items() if rows
    }


def _tokens_as_json(tokens: Tokens) -> dict[str, Any]:
    words = [asdict(word) for word in tokens.words]
    special = {} if tokens.special_ids == SPECIAL_IDS else {"special": sorted(tokens.special_ids)}
    return {"ids": tokens.ids, "pieces": tokens.texts, "words": words, **special}


def to_npz(trace: Trace) -> bytes:
    """Return a trace as the content of an .npz file, which can be read without pickle."""
    about = {"about": np.array(orjson.dumps(metadata(trace)).decode())}
    return npz_of(about | dict(trace.arrays()))


def npz_of(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return named arrays as the content of an .npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def to_json(trace: Trace) -> bytes:
    """Return a trace as the content of a .json file; infinities become null."""
    values = {**metadata(trace), **dict(trace.arrays())}
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def read_trace(path: Path | str) -> Trace:
    """Read a trace that was saved. OSError if the file cannot be read. ValueError if it is not a
    saved trace, of another version, too large, or damaged.
    """
    path = Path(path)
    readers = {".npz": (_read_npz, MOST_BYTES), ".json": (_read_json, MOST_JSON_BYTES)}
    if path.suffix not in readers:
        raise ValueError(f"{path}: expected a name that ends in .npz or .json")
    read, most = readers[path.suffix]
    if (size := path.stat().st_size) > most:
        instead = "; save it as .npz, which may have more" if path.suffix == ".json" else ""
        raise ValueError(f"{path}: expected at most {most:,} bytes, got {size:,}{instead}")
    if not path.is_file():
        raise ValueError(f"{path}: expected a regular file")
    try:
        with path.open("rb") as file:
            return _rebuild(*read(file))
    except _READ_ERRORS as error:
        raise ValueError(f"{path}: not a saved trace, or a broken one ({error})") from error


def _read_npz(file: BinaryIO) -> tuple[About, dict[str, NDArray[Any]]]:
    shapes = read_headers(file)
    del shapes["about"]
    file.seek(0)
    with np.load(file, allow_pickle=False) as members:
        about = read_about(orjson.loads(str(members["about"])))
        check_shapes(about, shapes)
        return about, {n: np.ascontiguousarray(members[n], ARRAYS[n].dtype) for n in shapes}


def _read_json(file: BinaryIO) -> tuple[About, dict[str, NDArray[Any]]]:
    content = file.read()
    check_values(content, MOST_JSON_VALUES)
    values = orjson.loads(content)
    nested = {name: values.pop(name) for name in ARRAYS if name in values}
    about = read_about(values)
    arrays = {name: _to_array(name, value) for name, value in nested.items()}
    check_shapes(about, {name: array.shape for name, array in arrays.items()})
    return about, arrays


def _to_array(name: str, nested: Any) -> NDArray[Any]:
    """Make an array of nested lists of numbers; null becomes NaN among fractions. ValueError if
    they are not numbers in one shape, OverflowError for integers of more than 64 bits.
    """
    array, dtype = np.array(nested, dtype=object), ARRAYS[name].dtype
    allowed = {int} if dtype.kind == "i" else {int, float, NoneType}
    if odd := set(map(type, array.flat)) - allowed:
        raise ValueError(
            f"{name}: expected numbers in rows of one length, got {odd.pop().__name__}"
        )
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def _rebuild(about: About, arrays: Mapping[str, NDArray[Any]]) -> Trace:
    def array(name: str) -> NDArray[Any]:
        if name not in arrays:
            raise ValueError(f"{name}: there is none")
        read = arrays[name]
        if read.dtype.kind == "f":
            # JSON has no infinities, and nothing else of a trace is no number.
            read[np.isnan(read)] = -np.inf
        if name.startswith("attention") and not (read.min() >= 0 and read.max() <= 1 + _ROUNDING):
            raise ValueError(f"{name}: expected weights from 0 to 1")
        if name.endswith("log_probability") and read.max() > _ROUNDING:
            raise ValueError(f"{name}: expected logarithms of at most 0")
        read.flags.writeable = False
        return read

    lacking = set()
    # The first files have no sums over heads, nor the weights from which these follow.
    if not any(name.startswith("head_sum_norms") for name in arrays):
        lacking.add("head_sum_norms")
    hook_points = {summary.name for summary in about.summary}
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        if f"{stack}.embedding.positions" not in hook_points:  # some models add no positions
            lacking.add(f"{side}_embedding_positions")
    parts: dict[str, Any] = {place.field: {} for place in ARRAYS.values()}
    for name, place in ARRAYS.items():
        if not place.part:
            parts[place.field] = array(name)
        elif place.field not in lacking:
            parts[place.field][place.part] = None if name in lacking else array(name)
    for field, record in _RECORDS.items():
        parts[field] = record(**parts[field])

    return Trace(
        **{name: getattr(about, name) for name in _PLAIN},
        source=_tokens(about.source),
        consumed=_tokens(about.consumed),
        predicted=_tokens(about.predicted),
        **parts,
        top_tokens=about.top_pieces,
        lens_tokens=about.lens_pieces,
        summary=about.summary,
        checks=tuple(Check(each.name, each.deviation, each.limit) for each in about.checks),
        turned=about.turned,
    )


def _tokens(saved: SavedTokens) -> Tokens:
    special = SPECIAL_IDS if saved.special is None else saved.special
    return Tokens(saved.ids, saved.pieces, saved.words, special)
