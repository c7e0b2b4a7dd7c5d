"""The plain data that traces, analyses, figures and pages share.

``S`` source length, ``T`` target steps, ``L`` layers, ``H`` heads, ``D`` = d_model, ``K`` = d_k,
``Q`` and ``M`` the query and key lengths of an attention map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Kind = Literal["encoder_self", "decoder_self", "cross"]
Head = tuple[Kind, int, int]
"""Kind, layer and head, these two from 0."""
KINDS: tuple[Kind, ...] = ("encoder_self", "decoder_self", "cross")


@dataclass(frozen=True)
class Word:
    """A written word: its text, and its pieces ``start`` to ``stop`` (exclusive)."""

    text: str
    start: int
    stop: int


@dataclass(frozen=True)
class Tokens:
    """A sequence of pieces and the words they make."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    words: tuple[Word, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class HookSummary:
    """A hook point's tensor in numbers; ``norm`` is the mean Euclidean norm of its last axis."""

    name: str
    shape: tuple[int, ...]
    mean: float
    standard_deviation: float
    norm: float


@dataclass(frozen=True)
class Check:
    """A property that every true trace has; ``deviation`` is the largest departure from it."""

    name: str
    deviation: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the deviation is within the limit (a NaN is not)."""
        return bool(self.deviation <= self.limit)


@dataclass(frozen=True)
class InputEmbedding:
    """What enters a stack: ``tokens`` + ``positions`` = ``total``, each (·, D)."""

    tokens: Floats
    positions: Floats
    total: Floats


@dataclass(frozen=True)
class Predictions:
    """What the decoder said at each of T steps; logarithms are natural."""

    log_probability: Floats
    """Of the actual next piece, (T,)."""
    rank: NDArray[np.int64]
    """Of the actual next piece, 1 = likeliest, (T,)."""
    entropy: Floats
    """In nats, (T,)."""
    top_ids: NDArray[np.int64]
    """(T, k), likeliest first."""
    top_log_probability: Floats
    """(T, k)."""
    lens_ids: NDArray[np.int64]
    """Top k read from the decoder's input and after each layer, (L + 1, T, k)."""
    lens_log_probability: Floats
    """(L + 1, T, k)."""


@dataclass(frozen=True)
class Trace:
    """All arrays of one teacher-forced pass over one (source, target) pair, read-only.

    Row t of ``decoder_self`` and ``cross`` consumed ``consumed[t]`` and predicts ``predicted[t]``.
    The keys of ``encoder_self`` and ``cross`` are the source, those of ``decoder_self`` the
    consumed pieces. Rows sum to 1.
    """

    run: str
    step: int
    sha256: str
    """Of the weights."""
    source_text: str
    target_text: str
    forced: bool
    """Whether the target was given, not generated."""
    source: Tokens
    consumed: Tokens
    predicted: Tokens
    attention: Mapping[Kind, Floats]
    """(L, H, Q, M)."""
    value_norms: Mapping[Kind, Floats]
    """‖v W_O‖ of each key, (L, H, M)."""
    queries: Mapping[Kind, Floats]
    """(L, H, Q, K)."""
    keys: Mapping[Kind, Floats]
    """(L, H, M, K)."""
    values: Mapping[Kind, Floats]
    """(L, H, M, K)."""
    source_embedding: InputEmbedding
    target_embedding: InputEmbedding
    encoder_stream: Floats
    """The encoder's input and what each layer made of it, (L + 1, S, D)."""
    decoder_stream: Floats
    """Likewise of the decoder, (L + 1, T, D)."""
    predictions: Predictions
    top_pieces: tuple[tuple[str, ...], ...]
    """Pieces of ``predictions.top_ids``."""
    lens_pieces: tuple[tuple[tuple[str, ...], ...], ...]
    """Pieces of ``predictions.lens_ids``."""
    summary: tuple[HookSummary, ...]
    checks: tuple[Check, ...]
    switched_off: tuple[Head, ...]
    """Heads that were off."""

    @property
    def target_ids(self) -> tuple[int, ...]:
        """The whole target: ``<s>`` and all that was predicted."""
        return (*self.consumed.ids[:1], *self.predicted.ids)

    def queries_of(self, kind: Kind) -> Tokens:
        """The consumed tokens at the rows of a kind of map."""
        return self.source if kind == "encoder_self" else self.consumed

    def keys_of(self, kind: Kind) -> Tokens:
        """The tokens at the columns of a kind of map."""
        return self.consumed if kind == "decoder_self" else self.source

    def arrays(self) -> Iterator[tuple[str, NDArray[np.generic]]]:
        """Every array with its flat name, as exports use them."""
        for name in ("attention", "value_norms", "queries", "keys", "values"):
            for kind, array in getattr(self, name).items():
                yield f"{name}_{kind}", array
        for side in ("source", "target"):
            for part, array in vars(getattr(self, f"{side}_embedding")).items():
                yield f"{side}_embedding_{part}", array
        yield "encoder_stream", self.encoder_stream
        yield "decoder_stream", self.decoder_stream
        yield from vars(self.predictions).items()
