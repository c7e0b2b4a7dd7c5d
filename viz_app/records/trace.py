"""A trace and its parts: the arrays of one forward pass, without the model.

``S`` source length, ``T`` target steps, ``L`` layers, ``H`` heads, ``D`` = d_model, ``K`` = d_k,
``Q`` and ``M`` the query and key lengths of an attention map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import nan
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from headwise.model.interface import KINDS, Head, Kind
from headwise.model.turned import Turned

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
OfKinds = Mapping[Kind, Floats]
Statistic = Annotated[float, BeforeValidator(lambda value: nan if value is None else value)]
"""A number that files may have as null, which is NaN."""
SPECIAL_IDS = frozenset({0, 2, 3})
"""``<pad>``, ``<s>`` and ``</s>`` of our runs; ``<unk>`` replaces a word."""


def shorten(text: str, longest: int = 60) -> str:
    """Cut a text off where it has more than ``longest`` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def shorten_all(texts: Sequence[str], longest: int = 40, most: int = 12) -> list[str]:
    """Cut texts, and leave out those after the first ``most``, whose number is said at the end."""
    more = len(texts) - most
    said = [f"{more:,} more"] if more > 0 else []
    return [*(shorten(text, longest) for text in texts[:most]), *said]


@dataclass(frozen=True)
class Word:
    """A word consists of the tokens from ``start`` to ``stop`` (exclusive) of a sequence."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Tokens:
    """A sequence of tokens is held with their ids, texts and the words that they make."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    words: tuple[Word, ...]
    special_ids: frozenset[int] = SPECIAL_IDS  # ids of the vocabulary that stand for no text

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class HookSummary:
    """The tensor at a hook point is summarised by its shape and three statistics."""

    name: str
    shape: tuple[int, ...]
    mean: Statistic
    standard_deviation: Statistic
    norm: Statistic  # mean Euclidean norm along the last axis


ROWS_OF_WEIGHTS = "each row of attention weights sums to 1"
ROWS_OF_HALVES = f"{ROWS_OF_WEIGHTS}, in the decoder over target and source together"

AS_TRANSFORMERS = "maps and logits are those that transformers itself computes"


@dataclass(frozen=True)
class Check:
    """A self-check compares a trace with a property that every correct trace has."""

    name: str
    deviation: float  # largest absolute deviation from the property
    limit: float  # largest deviation that passes

    @property
    def passed(self) -> bool:
        """Whether the deviation is at most the limit; NaN does not pass."""
        return bool(self.deviation <= self.limit)


@dataclass(frozen=True)
class StackInput:
    """The input of a stack: ``tokens`` + any ``positions`` = ``total``, each (S, D) or (T, D)."""

    tokens: Floats
    positions: Floats | None
    total: Floats


@dataclass(frozen=True)
class Predictions:
    """The decoder's predictions are recorded for each of T steps; logarithms are natural."""

    log_probability: Annotated[Floats, "T"]  # log-probability of the actual next token, (T,)
    rank: Annotated[Ints, "T"]  # of the actual next token, from 1, shared by equals, (T,)
    entropy: Annotated[Floats, "T"]  # entropy of the predicted distribution in nats, (T,)
    top_ids: Annotated[Ints, "T k"]  # ids of the k likeliest tokens, likeliest first, (T, k)
    top_log_probability: Annotated[Floats, "T k"]  # log-probabilities of ``top_ids``, (T, k)
    lens_ids: Annotated[Ints, "Ld+1 T k"]
    """Ids of the k likeliest tokens when the decoder's input (first) or the stream after each layer
    is unembedded, (L + 1, T, k)."""
    lens_log_probability: Annotated[Floats, "Ld+1 T k"]  # of ``lens_ids``


@dataclass(frozen=True, repr=False, eq=False)
class Trace:
    """A trace holds all arrays of one teacher-forced pass over a (source, target) pair, read-only.

    Two traces are equal if all that they hold is, arrays to the bit.

    Row t of ``decoder_self`` and ``cross`` consumes ``consumed[t]`` and predicts ``predicted[t]``.
    The keys of ``encoder_self`` and ``cross`` are the source, those of ``decoder_self`` the
    consumed tokens. Rows sum to 1.

    The axes of arrays stand in the annotations, for all parts of a field; ``ARRAYS`` and the files
    follow from them. ``Le`` and ``Ld`` are the layers of encoder and decoder, ``De`` and ``Dd``
    their d_model.
    """

    run: str
    step: int
    sha256: str
    """The sha256 of the model's weights."""
    source_text: str
    target_text: str
    forced: bool
    """Whether the target was given (True) or generated by the model (False)."""
    source: Tokens
    consumed: Tokens
    predicted: Tokens
    attention: Annotated[OfKinds, "L H Q M"]
    """Attention weights, (L, H, Q, M)."""
    value_norms: Annotated[OfKinds, "L H M"]
    """‖v W_O‖ of each key: how long its value is after the output projection, (L, H, M)."""
    head_sum_norms: Annotated[OfKinds, "L Q M"]
    """‖Σ_h α_h v_h W_O‖: how long the vector is that all heads of a layer, at their strengths, add
    to a query's output for a key, (L, Q, M). Empty in traces saved before it was recorded."""
    queries: Annotated[OfKinds, "L H Q K"]
    keys: Annotated[OfKinds, "L H M K"]
    values: Annotated[OfKinds, "L H M K"]
    source_embedding: Annotated[StackInput, "S De"]
    target_embedding: Annotated[StackInput, "T Dd"]
    encoder_stream: Annotated[Floats, "Le+1 S De"]
    """The encoder's input and the output of each layer, (L + 1, S, D)."""
    decoder_stream: Annotated[Floats, "Ld+1 T Dd"]
    """The decoder's input and the output of each layer, (L + 1, T, D)."""
    predictions: Predictions
    top_tokens: tuple[tuple[str, ...], ...]
    """Texts of ``predictions.top_ids``."""
    lens_tokens: tuple[tuple[tuple[str, ...], ...], ...]
    """Texts of ``predictions.lens_ids``."""
    summary: tuple[HookSummary, ...]
    """Summaries of all hook points."""
    checks: tuple[Check, ...]
    """Results of the self-checks."""
    turned: Turned
    """Heads that were turned, and rows that were pinned, during the pass."""

    def __repr__(self) -> str:
        of = f" of {self.run}, step {self.step:,}" if self.run else ""
        count = len(self.turned.heads)
        how = "off" if len(self.turned.are_off) == count else "turned"
        off = f", {count} head{'s' * (count > 1)} {how}" if count else ""
        return (
            f"<Trace{of}: {shorten(self.source_text)!r} → {shorten(self.target_text)!r}, "
            f"{len(self.source)} and {len(self.predicted)} tokens{off}>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        mine, others = dict(self.arrays()), dict(other.arrays())
        return mine.keys() == others.keys() and (
            all(getattr(self, name) == getattr(other, name) for name in _WITHOUT_ARRAYS)
            and all(np.array_equal(mine[name], others[name], equal_nan=True) for name in mine)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def target_ids(self) -> tuple[int, ...]:
        """Ids of the whole target: ``<s>`` and all predicted tokens."""
        return (*self.consumed.ids[:1], *self.predicted.ids)

    @property
    def shapes(self) -> dict[Kind, tuple[int, int]]:
        """Numbers of layers, and of heads in each, of every kind of attention."""
        return {kind: (len(maps), maps.shape[1]) for kind, maps in self.attention.items()}

    @property
    def heads(self) -> list[Head]:
        """Every head, kind by kind, layer by layer."""
        return [
            Head(kind, layer, head)
            for kind, (layers, heads) in self.shapes.items()
            for layer in range(layers)
            for head in range(heads)
        ]

    def step_of(self, at: int | str) -> int:
        """Return the row of the decoder, from 0, that predicts a token: by its place, or its text.

        ValueError if there is no such place, from 1, or not one token with this text.
        """
        texts = [text.strip() for text in self.predicted.texts]
        if isinstance(at, str):
            if texts.count(at.strip()) == 1:
                return texts.index(at.strip())
            raise ValueError(f"at: expected one token of {' '.join(texts)}, got {at!r:.60}")
        if 1 <= at <= len(texts):
            return at - 1
        raise ValueError(f"at: expected 1 to {len(texts)}, the tokens of the target, got {at}")

    def queries_of(self, kind: Kind) -> Tokens:
        """Return the tokens at the rows of the maps of a kind: source or consumed tokens."""
        return self.source if kind == "encoder_self" else self.consumed

    def keys_of(self, kind: Kind) -> Tokens:
        """Return the tokens at the columns of the maps of a kind: source or consumed tokens."""
        return self.consumed if kind == "decoder_self" else self.source

    def arrays(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Yield every array with its name in exported files, such as ``attention_cross``."""
        for name, place in ARRAYS.items():
            found = getattr(self, place.field)
            if place.part:
                of_part = found.get if isinstance(found, Mapping) else vars(found).get
                found = of_part(place.part)
            if found is not None:
                yield name, found


@dataclass(frozen=True)
class ArrayPlace:
    """Where an array is in a ``Trace``, with its axes and type."""

    field: str
    part: str  # kind of attention, or field of the record; "" if it is the field
    axes: str  # such as ``Ld H_cross T S``; those of one name are of one length
    dtype: np.dtype[Any]


LAYERS_QUERIES_KEYS: dict[Kind, tuple[str, str, str]] = {
    "encoder_self": ("Le", "S", "S"),
    "decoder_self": ("Ld", "T", "T"),
    "cross": ("Ld", "T", "S"),
}
"""Axes of each kind of attention; those of heads and of their width are ``H_kind``, ``K_kind``."""


def _places() -> Iterator[tuple[str, ArrayPlace]]:
    """Yield each array's name in files, and its place, as the annotations declare them."""
    for field, hint in get_type_hints(Trace, include_extras=True).items():
        of, axes = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, "")
        if of is OfKinds:
            for kind in KINDS:
                names = dict(zip("LQM", LAYERS_QUERIES_KEYS[kind], strict=True))
                own = " ".join(names.get(axis, f"{axis}_{kind}") for axis in axes.split())
                yield f"{field}_{kind}", ArrayPlace(field, kind, own, np.dtype(np.float32))
        elif of is StackInput:
            for part in get_type_hints(of):
                yield f"{field}_{part}", ArrayPlace(field, part, axes, np.dtype(np.float32))
        elif of is Predictions:
            for part, its in get_type_hints(of, include_extras=True).items():
                dtype = np.dtype(np.int64 if get_args(its)[0] == Ints else np.float32)
                yield part, ArrayPlace(field, part, get_args(its)[1], dtype)
        elif axes:
            yield field, ArrayPlace(field, "", axes, np.dtype(np.float32))


ARRAYS = dict(_places())  # all arrays that a trace may have, by their names in files
_WITHOUT_ARRAYS = {field.name for field in fields(Trace)} - {p.field for p in ARRAYS.values()}
