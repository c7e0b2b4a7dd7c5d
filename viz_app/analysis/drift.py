"""Embeddings over a training: cosines of pairs of tokens, and projections onto one plane.

``C`` checkpoints, ``n`` tokens, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from viz_app.analysis.projection import Components, principal_components
from viz_app.records.trace import Floats


def all_pairs(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Return all pairs of distinct ids, in order of first occurrence."""
    return list(combinations(dict.fromkeys(ids), 2))


def pair_cosines(tables: Sequence[Floats], pairs: Sequence[tuple[int, int]]) -> Floats:
    """Compute cosines of pairs of rows in each of C tables (V, D): (C, pairs); 0 for a zero row."""
    cosines = np.zeros((len(tables), len(pairs)), np.float32)
    for table, row in zip(tables, cosines, strict=True):
        for place, pair in enumerate(pairs):
            first, second = table[list(pair)].astype(np.float64)
            length = float(np.linalg.norm(first) * np.linalg.norm(second))
            row[place] = first @ second / length if length else 0.0
    return cosines


def rotate_onto(rows: Floats, onto: Floats) -> Floats:
    """Centre rows (n, D) and rotate or reflect them onto other centred rows of the same shape.

    The orthogonal matrix R minimises ‖rows R − onto‖ (orthogonal Procrustes problem, Schoenemann
    1966). Distances and angles between rows do not change.

    Raises:
        ValueError: if the shapes differ.
    """
    from scipy.linalg import orthogonal_procrustes  # imported late: only one page needs it

    if rows.shape != onto.shape:
        raise ValueError(f"expected as many rows and dimensions, got {rows.shape} and {onto.shape}")
    centred, goal = (x.astype(np.float64) - x.mean(axis=0, dtype=np.float64) for x in (rows, onto))
    rotation, _ = orthogonal_procrustes(centred, goal)
    rotated: Floats = (centred @ rotation).astype(np.float32)
    return rotated


def project_together(tables: Sequence[Floats], frame: Floats) -> tuple[Floats, Components]:
    """Project the rows of C tables (n, D) onto the first two principal components of ``frame``.

    Each table is first rotated onto the frame, so that their points can be compared.

    Returns:
        The points, (C, n, 2), and the principal components of the frame.
    """
    plane = principal_components(frame)
    points = np.stack([rotate_onto(table, frame) @ plane.directions for table in tables])
    return points.astype(np.float32), plane
