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
