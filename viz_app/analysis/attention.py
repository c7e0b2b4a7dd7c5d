"""Attention maps: heads put together, pieces put together to words, maps made small.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from viz_app.records import Floats, Word

Aggregate = Literal["head", "mean", "max", "rollout"]


def aggregate_heads(layer: Floats, how: Aggregate, head: int = 0) -> Floats:
    """One map of a layer's heads: (H, Q, M) → (Q, M).

    Rows of a head and of the mean sum to 1; those of the maximum to 1 or more.

    Raises:
        ValueError: on another ``how``, or a head that is not there.
    """
    if how == "mean":
        return layer.mean(axis=0)
    if how == "max":
        return layer.max(axis=0)
    if how != "head" or not 0 <= head < len(layer):
        raise ValueError(
            f"expected mean, max, or a head from 0 to {len(layer) - 1}, got {how} {head}"
        )
    return layer[head]


def to_words(weights: Floats, queries: Sequence[Word], keys: Sequence[Word]) -> Floats:
    """Maps between words from maps between pieces: (…, Q, M) → (…, query words, key words).

    Weights are summed over the pieces of a key word and averaged over those of a query word, so
    that rows still sum to 1 (Clark et al. 2019, section 3.1).
    """
    _require_cover(queries, weights.shape[-2], "query")
    _require_cover(keys, weights.shape[-1], "key")
    by_key = np.add.reduceat(weights, [word.start for word in keys], axis=-1)
    summed = np.add.reduceat(by_key, [word.start for word in queries], axis=-2)
    sizes = np.array([word.stop - word.start for word in queries], dtype=np.float32)
    words: Floats = (summed / sizes[:, None]).astype(np.float32)
    return words


def _require_cover(words: Sequence[Word], length: int, axis: str) -> None:
    edges = [0, *(word.stop for word in words)]
    if [word.start for word in words] != edges[:-1] or edges[-1] != length:
        raise ValueError(f"{axis} words must cover {length} pieces in order, without gaps")


def causal_words(queries: Sequence[Word], keys: Sequence[Word]) -> np.ndarray:
    """Which key words each query word may see in masked self-attention: bool (queries, keys)."""
    last_query = np.array([word.stop - 1 for word in queries])
    first_key = np.array([word.start for word in keys])
    allowed: np.ndarray = first_key[None, :] <= last_query[:, None]
    return allowed


def max_pool(maps: Floats, most: int = 40) -> Floats:
    """Maps of at most ``most`` cells a side: (…, Q, M) → (…, ≤ most, ≤ most).

    Each cell is the maximum over a block of equal size (the last may be smaller); a map that fits
    is returned as it is.

    Raises:
        ValueError: if ``most`` is below 1.
    """
    if most < 1:
        raise ValueError(f"most: expected 1 or more, got {most}")
    for axis in (-2, -1):
        size = math.ceil(maps.shape[axis] / most)
        if size > 1:
            maps = np.maximum.reduceat(maps, range(0, maps.shape[axis], size), axis=axis)
    return maps
