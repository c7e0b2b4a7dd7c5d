"""Embeddings on a plane and over a training, groups of tokens by frequency, cosines of pairs.

``C`` checkpoints, ``n`` tokens, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headwise.model.ties import first_largest
from headwise.viz_app.records.trace import Floats


@dataclass(frozen=True)
class Components:
    """Rows are projected onto their first two principal components."""

    points: Floats
    """Centred coordinates, (n, 2)."""
    shares: tuple[float, float]
    """Shares of the variance along the two components, each from 0 to 1."""
    directions: Floats
    """The components as unit vectors, (D, 2); a missing one is 0."""


def principal_components(rows: Floats) -> Components:
    """Project rows (n, D) onto their first two principal components.

    They are eigenvectors of the covariance (D, D), computed in float64: the same as by a singular
    value decomposition, but fast for many rows. Signs are chosen so that the largest entry of a
    component is positive. With only one row or dimension, missing components are 0.
    """
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred)  # the largest last
    values, vectors = values[::-1][:2].clip(0), vectors[:, ::-1][:, :2]  # (2,), (D, 2)
    largest = first_largest(np.abs(vectors).T)
    vectors = vectors * np.sign(vectors[largest, range(vectors.shape[1])])
    directions = np.zeros((rows.shape[1], 2), np.float32)
    directions[:, : vectors.shape[1]] = vectors
    points = np.zeros((len(rows), 2), np.float32)
    points[:, : vectors.shape[1]] = centred @ vectors
    total = float((centred**2).sum())
    shares = [float(value) / total if total else 0.0 for value in values]
    return Components(points, (shares[0], shares[1] if len(shares) > 1 else 0.0), directions)


def most_frequent(counts: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Return the ids of the ``number`` most frequent tokens, most frequent first, ties by id."""
    order: NDArray[np.int64] = np.argsort(-counts, kind="stable")[:number]
    return order


def digit_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of digits of each count; 0 for a count of 0."""
    return np.array([len(str(count)) if count else 0 for count in counts.tolist()], np.int64)


def frequency_groups(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Group tokens by the number of digits of their counts.

    Group 0 is for tokens that never occur. Groups begin at the rarest token and end at the most
    frequent one, so that colours differ as much as possible.

    Returns:
        The group of each token, (n,), and the names of the groups.
    """
    digits = digit_counts(counts)
    least, most = int(digits[digits > 0].min(initial=99)), int(digits.max())
    names = [f"{10 ** (n - 1):,} to {10**n - 1:,} times" for n in range(least, most + 1)]
    return np.where(digits > 0, digits - least + 1, 0), ["never", *names]


def sides_of_tokens(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return on which side each token occurs: 0 neither, 1 source, 2 both, 3 target.

    Args:
        source, target: counts of the tokens on each side, (n,).
    """
    where = np.array([[0, 3], [1, 2]])
    found: NDArray[np.int64] = where[(source > 0).astype(int), (target > 0).astype(int)]
    return found


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
