"""Cosine similarities of embeddings and the neighbours they give. ``D`` = d_model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viz_app.records import Floats


def cosine_similarity(a: Floats, b: Floats) -> Floats:
    """Cosines between rows: (n, D), (m, D) → (n, m); 0 where a row is zero."""
    similarity: Floats = (_unit(a) @ _unit(b).T).astype(np.float32)
    return np.clip(similarity, -1.0, 1.0)


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    unit: Floats = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return unit


@dataclass(frozen=True)
class Neighbours:
    """Rows of a table nearest to one of them, nearest first."""

    ids: NDArray[np.int64]
    cosine: Floats


def nearest_neighbours(
    table: Floats, id: int, *, count: int, among: NDArray[np.bool_]
) -> Neighbours:
    """The ``count`` rows of (V, D) with the largest cosine to row ``id``, itself left out.

    Args:
        table: embeddings (V, D).
        id: the row whose neighbours are wanted.
        count: how many, at most.
        among: bool (V,), the rows to choose from.

    Raises:
        ValueError: if there is no such row.
    """
    if not 0 <= id < len(table):
        raise ValueError(f"id: expected 0 to {len(table) - 1}, got {id}")
    cosine = cosine_similarity(table[id : id + 1], table)[0]
    candidates = np.flatnonzero(among)
    candidates = candidates[candidates != id]
    order = candidates[np.argsort(-cosine[candidates], kind="stable")][:count]
    return Neighbours(order, cosine[order])


@dataclass(frozen=True)
class Pairs:
    """Pairs of a table's rows, those with the largest cosine first; ``first`` < ``second``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    cosine: Floats


def similar_pairs(
    table: Floats, *, count: int, among: NDArray[np.bool_], block: int = 512
) -> Pairs:
    """The ``count`` pairs of rows of (V, D) with the largest cosine, each pair once.

    Never more than ``block`` × V cosines are held at a time.

    Args:
        table: embeddings (V, D).
        count: how many, at most.
        among: bool (V,), the rows to choose from.
        block: rows that are compared with all others at once.
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
            least = max(least, np.partition(cosine, -count, axis=None)[-count])
        rows, columns = np.nonzero(cosine >= least)
        first = np.concatenate([first, ids[start + rows]])
        second = np.concatenate([second, ids[start + columns]])
        best = np.concatenate([best, cosine[rows, columns]])
        order = np.lexsort((second, first, -best))[:count]
        first, second, best = first[order], second[order], best[order]
        if best.size == count:
            least = best[-1]
    return Pairs(first, second, best)


def mean_between(similarity: Floats) -> float:
    """The mean cosine (n, n) of two different rows; not a number of fewer than two."""
    different = ~np.eye(len(similarity), dtype=bool)
    return float(similarity[different].mean()) if len(similarity) > 1 else float("nan")
