"""Embeddings along a training: how pairs come together, and where tokens move.

``C`` checkpoints, ``n`` tokens, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from viz_app.analysis.projection import Components, principal_components
from viz_app.records import Floats


def pairs_of(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Every two different ids, in their order."""
    return list(combinations(dict.fromkeys(ids), 2))


def pair_cosines(tables: Sequence[Floats], pairs: Sequence[tuple[int, int]]) -> Floats:
    """Cosines of pairs of rows in each of C tables (V, D): (C, pairs); of a zero row, 0."""
    cosines = np.zeros((len(tables), len(pairs)), np.float32)
    for table, row in zip(tables, cosines, strict=True):
        for place, pair in enumerate(pairs):
            first, second = table[list(pair)].astype(np.float64)
            length = float(np.linalg.norm(first) * np.linalg.norm(second))
            row[place] = first @ second / length if length else 0.0
    return cosines


def turned_onto(rows: Floats, onto: Floats) -> Floats:
    """Centred rows (n, D), turned as a whole so that they come closest to other centred rows.

    The orthogonal matrix R with the least sum of squares of (rows R - onto), by a singular value
    decomposition (orthogonal Procrustes problem, Schoenemann 1966); nothing is stretched, so that
    all distances and angles between rows stay as they are.

    Raises:
        ValueError: if the two are not of one shape.
    """
    if rows.shape != onto.shape:
        raise ValueError(f"expected as many rows and dimensions, got {rows.shape} and {onto.shape}")
    centred, goal = (x.astype(np.float64) - x.mean(axis=0, dtype=np.float64) for x in (rows, onto))
    left, _, right = np.linalg.svd(centred.T @ goal)
    turned: Floats = (centred @ (left @ right)).astype(np.float32)
    return turned


def in_one_frame(tables: Sequence[Floats], frame: Floats) -> tuple[Floats, Components]:
    """Rows of C tables (n, D) in the plane of one of them: (C, n, 2), and that plane.

    The plane is that of the frame's first two principal components; each table is turned onto the
    frame before it is seen in it.
    """
    plane = principal_components(frame)
    points = np.stack([turned_onto(table, frame) @ plane.directions for table in tables])
    return points.astype(np.float32), plane
