"""Checks what a file of a trace says of itself, before memory is taken for what it holds.

``S`` source length, ``T`` target steps; ``Le`` and ``Ld`` layers of encoder and decoder, ``De`` and
``Dd`` their d_model; ``k`` how many of the likeliest tokens are named.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

import orjson
from numpy.lib import format as npy

from headwise.model.interface import Head, Kind
from headwise.model.turned import PinnedRow, Turned, TurnedHead
from headwise.model.validation import validate_json
from headwise.viz_app.records.trace import ARRAYS, LAYERS_QUERIES_KEYS, HookSummary, Statistic, Word

SCHEMA_VERSION = 1  # of both formats, which say "pieces" for tokens; grows with names and meanings
MOST_BYTES = 2**30  # most bytes of an .npz file, and of all that is in it
_MOST_EXPANDED = 100  # how many times the bytes of an .npz file all that is in it may have
MOST_JSON_BYTES = 2**25
MOST_JSON_VALUES = 2_500_000  # reading takes seven times as much memory as the file

_OPTIONAL = {
    *(name for name in ARRAYS if name.startswith("head_sum_norms")),  # not in the first files
    *(name for name in ARRAYS if name.endswith("_positions")),  # not of models that add none
}


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
