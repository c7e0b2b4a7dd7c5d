"""Operations on attention maps: combining heads, merging tokens into words, and pooling.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.records.trace import Floats, Word

Aggregate = Literal["head", "mean", "max", "rollout"]
"""What a map shows of the heads; rollout needs all layers (``rollout.py``), the others one."""


def aggregate_heads(layer: Floats, how: Aggregate, head: int = 0) -> Floats:
    """Combine the heads of a layer into one map, or choose one head: (H, Q, M) → (Q, M).

    Rows of a head and of the mean sum to 1; rows of the maximum to 1 or more.

    Raises:
        ValueError: if ``how`` is not ``head``, ``mean`` or ``max``, or there is no such head.
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
    """Turn maps between tokens into maps between words: (…, Q, M) → (…, query words, key words).

    Weights are summed over the tokens of a key word and averaged over the tokens of a query word,
    so that rows still sum to 1 (Clark et al. 2019, section 3.1).

    Raises:
        ValueError: if the words do not cover all tokens in order.
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
        raise ValueError(f"{axis} words must cover {length} tokens in order, without gaps")


def rows_with_several_keys(
    shape: Sequence[int], allowed: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Return which rows of a map have more than one allowed key: bool (Q,).

    The weight of a single key is always 1, so that its row says nothing about a head.

    Args:
        shape: that of the map, (…, Q, M).
        allowed: bool (Q, M), False where the mask forbids; None if it allows all.
    """
    queries, keys = shape[-2:]
    if allowed is None:
        return np.full(queries, keys > 1)
    several: NDArray[np.bool_] = allowed.sum(axis=1) > 1
    return several


def causal_word_mask(queries: Sequence[Word], keys: Sequence[Word]) -> np.ndarray:
    """Return which key words a query word may attend to under a causal mask: bool (queries, keys).

    A query word may attend to a key word if its last token may attend to the key's first token.
    """
    last_query = np.array([word.stop - 1 for word in queries])
    first_key = np.array([word.start for word in keys])
    allowed: np.ndarray = first_key[None, :] <= last_query[:, None]
    return allowed


def max_pool(maps: Floats, most: int = 40) -> Floats:
    """Shrink maps to at most ``most`` cells a side: (…, Q, M) → (…, ≤ most, ≤ most).

    Each cell is the maximum over a block; blocks are of equal size, the last may be smaller. A map
    that is small enough is returned unchanged.

    Raises:
        ValueError: if ``most`` is below 1.
    """
    if most < 1:
        raise ValueError(f"most: expected 1 or more, got {most}")
    height, width = (math.ceil(cells / most) for cells in maps.shape[-2:])
    return max_of_blocks(maps, height, width)


def pool_mask(allowed: NDArray[np.bool_] | None, most: int = 40) -> NDArray[np.bool_] | None:
    """Shrink a mask, bool (Q, M), as ``max_pool`` does: a cell is allowed if any in its block is.

    None, which allows all, stays None.
    """
    return None if allowed is None else max_pool(allowed.astype(np.float32), most) > 0


def max_of_blocks(maps: Floats, height: int, width: int) -> Floats:
    """Take the maximum of each block of height × width cells.

    (…, Q, M) → (…, ⌈Q/height⌉, ⌈M/width⌉); the last blocks may be smaller.
    """
    for axis, size in ((-2, height), (-1, width)):
        if size > 1:
            maps = np.maximum.reduceat(maps, range(0, maps.shape[axis], size), axis=axis)
    return maps
