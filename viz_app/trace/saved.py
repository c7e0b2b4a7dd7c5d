"""Writes traces as .npz and .json files and reads them again, without pickle.

An .npz file has every array under its name in the ``Trace`` and the rest as JSON in ``about``; a
.json file has the same as one object.
"""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType
from typing import IO, Any, BinaryIO

import numpy as np
import orjson
from numpy.lib import format as npy
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind
from headwise.model.turned import PinnedRow, Turned, TurnedHead
from headwise.model.validation import check_values, validate_json
from headwise.viz_app.records.trace import (
    ARRAYS,
    LAYERS_QUERIES_KEYS,
    SPECIAL_IDS,
    Check,
    HookSummary,
    Predictions,
    StackInput,
    Statistic,
    Tokens,
    Trace,
    Word,
)

SCHEMA_VERSION = 1  # of both formats, which say "pieces" for tokens; grows with names and meanings
MOST_BYTES = 2**30  # most bytes of an .npz file, and of all that is in it
_MOST_EXPANDED = 100  # how many times the bytes of an .npz file all that is in it may have
MOST_JSON_BYTES = 2**25
MOST_JSON_VALUES = 2_500_000  # reading takes seven times as much memory as the file

_OPTIONAL = {
    *(name for name in ARRAYS if name.startswith("head_sum_norms")),  # not in the first files
    *(name for name in ARRAYS if name.endswith("_positions")),  # not of models that add none
}

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


# What a file says of itself is checked before memory is taken for what it holds


@dataclass(frozen=True)
class SavedTokens:
    """The tokens of a sequence are saved with the words that they make."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    words: tuple[Word, ...]
    special: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if len(self.pieces) != len(self.ids):
            raise ValueError(f"expected {len(self.ids)} pieces, got {len(self.pieces)}")
        ends = [0, *(word.stop for word in self.words)]
        in_order = ends == sorted(set(ends)) and ends[-1] == len(self.ids)
        if [word.start for word in self.words] != ends[:-1] or not in_order:
            raise ValueError("expected words that follow one another, from first to last piece")


@dataclass(frozen=True)
class SavedCheck:
    """A self-check is saved with whether it has passed."""

    name: str
    deviation: Statistic
    limit: float
    passed: bool


@dataclass(frozen=True)
class About:
    """All of a trace but its arrays is saved under these names."""

    schema_version: int
    run: str
    step: int
    sha256: str
    source_text: str
    target_text: str
    forced: bool
    switched_off: tuple[tuple[Kind, int, int], ...]  # heads whose strength was 0
    source: SavedTokens
    consumed: SavedTokens
    predicted: SavedTokens
    top_pieces: tuple[tuple[str, ...], ...]
    lens_pieces: tuple[tuple[tuple[str, ...], ...], ...]
    summary: tuple[HookSummary, ...]
    checks: tuple[SavedCheck, ...]
    strengths: tuple[tuple[Kind, int, int, float], ...] = ()  # of other turned heads, if any
    pinned: tuple[tuple[Kind, int, int, int, int | tuple[float, ...] | None], ...] = ()
    """Kind, layer, head and row of each pinned row, and the key, null for the mean, or weights."""

    @property
    def turned(self) -> Turned:
        """What was turned; a ``ValueError`` if that cannot be."""
        heads = [TurnedHead(Head(*head)) for head in dict.fromkeys(self.switched_off)]
        heads += [TurnedHead(Head(k, i, h), strength) for k, i, h, strength in self.strengths]
        rows = [PinnedRow(Head(k, i, h), row, onto) for k, i, h, row, onto in self.pinned]
        return Turned(tuple(heads), tuple(rows))


@dataclass(frozen=True)
class _Version:
    schema_version: Any


def read_about(values: Any) -> About:
    """Read all of a trace but its arrays from what JSON has made of it."""
    content = orjson.dumps(values)
    version = validate_json(_Version, content, extra="ignore").schema_version
    if version != SCHEMA_VERSION:
        raise ValueError(f"expected version {SCHEMA_VERSION} of the format, got {version!r:.40}")
    return validate_json(About, content)


def check_shapes(about: About, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that the arrays of a trace are all there, and fit the tokens and one another."""
    for name in ARRAYS:
        if name not in shapes and name not in _OPTIONAL:
            raise ValueError(f"{name}: there is none")
    lengths = {"S": len(about.source.ids), "T": len(about.consumed.ids)}
    for name, place in ARRAYS.items():
        axes, shape = place.axes, shapes.get(name)
        if shape is None:
            continue
        for axis, length in zip(axes.split(), shape, strict=False):
            lengths.setdefault(axis, length)
            lengths.setdefault(f"{axis}+1", length + 1)
        expected = tuple(lengths[axis] for axis in axes.split() if axis in lengths)
        if shape != expected or 0 in shape:
            raise ValueError(f"{name}: expected {axes} = {expected}, got {shape}")
    k, steps = lengths["k"], lengths["T"]
    if (
        len(about.predicted.ids) != steps
        or [len(row) for row in about.top_pieces] != [k] * steps
        or [[len(row) for row in layer] for layer in about.lens_pieces]
        != [[k] * steps] * lengths["Ld+1"]
    ):
        raise ValueError(f"expected predictions of {steps} positions, {k} pieces each")
    turned = about.turned
    for kind, layer, head in turned.heads:
        layers, heads = lengths[LAYERS_QUERIES_KEYS[kind][0]], lengths[f"H_{kind}"]
        if not (0 <= layer < layers and 0 <= head < heads):
            raise ValueError(f"there is no head {kind} {layer} {head} that could be turned")
    for pin in turned.pinned:
        keys = lengths[LAYERS_QUERIES_KEYS[pin.head.kind][2]]
        if pin.head.kind != "decoder_self" and pin.last_key >= keys:
            raise ValueError(f"{pin.described}: expected a key up to {keys}")


def read_headers(content: BinaryIO) -> dict[str, tuple[int, ...]]:
    """Read the shapes of all that is in an .npz file by name, and check types and sizes.

    ValueError if one is unknown or does not fit, zipfile.BadZipFile, OSError if it is no such
    file.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    with zipfile.ZipFile(content) as archive:
        members = archive.infolist()
        most = min(MOST_BYTES, _MOST_EXPANDED * content.seek(0, io.SEEK_END))
        if (size := sum(member.file_size for member in members)) > most:
            raise ValueError(f"expected at most {most:,} bytes in it, got {size:,}")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name not in (*ARRAYS, "about"):
                raise ValueError(f"{name!r:.40}: a trace has nothing of this name")
            if name in shapes:
                raise ValueError(f"{name}: is there twice")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name}: compressed in a way that NumPy does not write")
            with archive.open(member) as file:
                shapes[name] = _read_header(name, file, member.file_size)
    return shapes


def _read_header(name: str, file: IO[bytes], size: int) -> tuple[int, ...]:
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name}: expected version 1 or 2 of its header, got {version}")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if name == "about" and size > MOST_JSON_BYTES:
        raise ValueError(f"about: expected at most {MOST_JSON_BYTES:,} bytes, got {size:,}")
    is_text = name == "about" and dtype.kind == "U" and shape == ()
    if not is_text and (name == "about" or dtype.newbyteorder("=") != ARRAYS[name].dtype):
        wanted = "text" if name == "about" else ARRAYS[name].dtype
        raise ValueError(f"{name}: expected numbers of type {wanted}, got {dtype}")
    if file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name}: expected the shape of {size:,} bytes, got {shape}")
    return shape
