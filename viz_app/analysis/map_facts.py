"""Facts of attention maps in numbers: where the largest weight is, and how much is on what.

``Q`` queries, ``M`` keys. Rows with only one allowed key do not count: their weight is always 1.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.attention import rows_with_several_keys
from headwise.viz_app.records.trace import Floats, Tokens

ALMOST_EVEN = 0.97
"""Smallest evenness of a map that is called almost even."""


@dataclass(frozen=True)
class MapFacts:
    """These are the facts of a map whose rows sum to 1; shares are means over its rows."""

    largest: float
    row: int
    """The query of the largest weight."""
    column: int
    """The key of the largest weight."""
    evenness: float
    """Mean entropy of a row, divided by the largest possible: 1 is the same weight for all keys."""
    even_weight: float
    """Weight that each key would have on average if every row were even."""
    special: float
    """Share of the weight on special tokens, such as ``</s>``."""
    punctuation: float | None
    """Share of the weight on punctuation marks; None if there are none."""
    itself: float | None
    """Share of the weight on the query's own token; None where keys are other tokens."""


def map_facts(
    weights: Floats, keys: Tokens, *, allowed: NDArray[np.bool_] | None, own_keys: bool
) -> MapFacts | None:
    """Compute the facts of a map of single tokens; None if no row has two allowed keys.

    Args:
        weights: (Q, M); rows sum to 1.
        keys: the M tokens of the columns.
        allowed: bool (Q, M), False where the mask forbids; None if it allows all.
        own_keys: whether key i is the token of query i, as in self-attention.
    """
    may = np.ones(weights.shape, bool) if allowed is None else allowed
    count = may.sum(axis=1)
    rows = np.flatnonzero(count > 1)
    if not len(rows):
        return None
    shown = weights[rows].astype(np.float64)  # (rows, M)
    row, column = np.unravel_index(first_largest(shown.ravel()), shown.shape)
    logarithms = np.log(shown, out=np.zeros_like(shown), where=shown > 0)
    entropy = -(shown * logarithms).sum(axis=1)
    special = np.isin(keys.ids, list(keys.special_ids))
    marks = _punctuation(keys)
    return MapFacts(
        largest=float(shown.max()),
        row=int(rows[row]),
        column=int(column),
        evenness=float((entropy / np.log(count[rows])).mean()),
        even_weight=float((1 / count[rows]).mean()),
        special=_share(shown, special),
        punctuation=_share(shown, marks) if marks.any() else None,
        itself=float(weights[rows, rows].mean()) if own_keys else None,
    )


def most_on_punctuation(
    attention: Mapping[Kind, Floats], keys_of: Callable[[Kind], Tokens]
) -> tuple[Head, float] | None:
    """Return the head that rests most on punctuation marks, and its share of the weight there.

    The share is a mean over rows, also over those in which the mask forbids every mark.

    Args:
        attention: kind → maps of all heads, (L, H, Q, M).
        keys_of: returns the M tokens at the columns of a kind's maps.

    Returns:
        None if there is no punctuation mark.
    """
    shares: dict[Head, float] = {}
    for kind, maps in attention.items():
        causal = np.tri(maps.shape[-1], dtype=bool) if kind == "decoder_self" else None
        rows, marks = rows_with_several_keys(maps.shape, causal), _punctuation(keys_of(kind))
        if rows.any() and marks.any():
            for layer, head in np.ndindex(*maps.shape[:2]):
                shares[Head(kind, layer, head)] = _share(maps[layer, head][rows], marks)
    return list(shares.items())[int(first_largest(list(shares.values())))] if shares else None


def _share(weights: NDArray[np.floating], columns: NDArray[np.bool_]) -> float:
    return float(weights[:, columns].sum(axis=1).mean())


def _punctuation(tokens: Tokens) -> NDArray[np.bool_]:
    """Return which tokens are punctuation marks, and no special tokens."""
    marks = np.array([_is_punctuation(text) for text in tokens.texts])
    return marks & ~np.isin(tokens.ids, list(tokens.special_ids))


def _is_punctuation(token: str) -> bool:
    text = token.removeprefix(" ")
    return bool(text) and all(unicodedata.category(letter)[0] == "P" for letter in text)
