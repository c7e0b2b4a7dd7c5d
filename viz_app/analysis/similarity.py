"""Cosine similarities of embeddings: neighbours and most similar pairs.

``V`` vocabulary, ``D`` = d_model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.ties import NEAR, descending
from headwise.viz_app.records.trace import Floats


def cosine_similarity(a: Floats, b: Floats) -> Floats:
    """Compute cosines between rows: (n, D), (m, D) → (n, m); 0 for a zero row."""
    similarity: Floats = (_unit(a) @ _unit(b).T).astype(np.float32)
    return np.clip(similarity, -1.0, 1.0)


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Floats = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return unit


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of a table to one of its rows are listed by cosine, largest first."""

    ids: NDArray[np.int64]
    cosine: Floats


def nearest_neighbours(
    table: Floats, id: int, *, count: int, among: NDArray[np.bool_]
) -> Neighbours:
    """Find the rows of a table with the largest cosine to row ``id``, without that row.

    Args:
        table: embeddings (V, D).
        id: the row whose neighbours are wanted.
        count: most rows to return.
        among: the rows to choose from, bool (V,).

    Raises:
        ValueError: if there is no such row.
    """
    if not 0 <= id < len(table):
        raise ValueError(f"id: expected 0 to {len(table) - 1}, got {id}")
    cosine = cosine_similarity(table[id : id + 1], table)[0]
    candidates = np.flatnonzero(among)
    candidates = candidates[candidates != id]
    order = candidates[descending(cosine[candidates], NEAR)][:count]
    return Neighbours(order, cosine[order])


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs of rows of a table are listed by cosine, largest first; ``first`` < ``second``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    cosine: Floats


def similar_pairs(
    table: Floats, *, count: int, among: NDArray[np.bool_], block: int = 512
) -> SimilarPairs:
    """Find the pairs of rows of a table with the largest cosine, each pair once.

    At most ``block`` × V cosines are in memory at a time.

    Args:
        table: embeddings (V, D).
        count: most pairs to return.
        among: the rows to choose from, bool (V,).
        block: number of rows that are compared with all others at once.
    """
    ids = np.flatnonzero(among)
    unit = _unit(table[ids])
    first, second = np.empty(0, np.int64), np.empty(0, np.int64)
    best, least = np.empty(0, np.float32), np.float32(-1)
    for start in range(0, len(ids), block):
        cosine = unit[start : start + block] @ unit[start:].T  # (block, rest)
        cosine.clip(-1, 1, out=cosine)
        cosine[np.tril_indices(len(cosine), 0, cosine.shape[1])] = -2  # below any cosine
        if best.size < count < cosine.size:
            # Else the first block would leave all of its pairs to be sorted.
            least = max(least, np.partition(cosine, -count, axis=None)[-count] - np.float32(NEAR))
        rows, columns = np.nonzero(cosine >= least)
        first = np.concatenate([first, ids[start + rows]])
        second = np.concatenate([second, ids[start + columns]])
        best = np.concatenate([best, cosine[rows, columns]])
        pairs = np.lexsort((second, first))
        order = pairs[descending(best[pairs], NEAR)[:count]]
        first, second, best = first[order], second[order], best[order]
        if best.size == count:
            least = best[-1]
    return SimilarPairs(first, second, best)


def mean_pairwise_similarity(similarity: Floats) -> float:
    """Average the similarities (n, n) of distinct rows; NaN for fewer than two rows."""
    different = ~np.eye(len(similarity), dtype=bool)
    return float(similarity[different].mean()) if len(similarity) > 1 else float("nan")
