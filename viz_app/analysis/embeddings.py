"""Embeddings: cosines and neighbours, on a plane and over a training, and groups by frequency.

``C`` checkpoints, ``V`` vocabulary, ``n`` tokens, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headwise.model.ties import NEAR, descending, first_largest
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
    """Find up to ``count`` rows of a table (V, D) with the largest cosine to row ``id``.

    ``among``, bool (V,), says from which rows to choose; the row itself is left out.
    """
    if not 0 <= id < len(table):
        raise ValueError(f"id: expected 0 to {len(table) - 1}, got {id}")
    cosine = cosine_similarity(table[id : id + 1], table)[0]
    candidates = np.flatnonzero(among)
    candidates = candidates[candidates != id]
    order = candidates[descending(cosine[candidates], NEAR)][:count]
    return Neighbours(order, cosine[order])


def nearest_by_chance(table: Floats, id: int, *, among: NDArray[np.bool_]) -> float:
    """Return the largest cosine to row ``id`` if other rows had nothing to do with it: columns of
    the rows ``among``, bool (V,), are shuffled, each by itself, with a fixed seed. NaN without
    rows.
    """
    rows = table[among]
    if not len(rows):
        return float("nan")
    shuffled = np.random.default_rng(0).permuted(rows, axis=0)
    return float(cosine_similarity(table[id : id + 1], shuffled).max())


@dataclass(frozen=True)
class SimilarPairs:
    """Pairs of rows of a table are listed by cosine, largest first; ``first`` < ``second``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    cosine: Floats


def similar_pairs(
    table: Floats, *, count: int, among: NDArray[np.bool_], block: int = 512
) -> SimilarPairs:
    """Find up to ``count`` pairs of rows of a table (V, D), among some, with the largest cosine.

    ``among`` is bool (V,). At most ``block`` × V cosines are in memory at a time.
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


@dataclass(frozen=True)
class Components:
    """Rows are projected onto their first two principal components."""

    points: Floats  # centred coordinates, (n, 2)
    shares: tuple[float, float]  # shares of the variance along the two components, each from 0 to 1
    directions: Floats  # the components as unit vectors, (D, 2); a missing one is 0


def principal_components(rows: Floats) -> Components:
    """Project rows (n, D) onto their first two principal components.

    These are eigenvectors of the covariance, in float64, which is fast for many rows; the largest
    entry of each is positive. With one row or dimension, missing ones are 0.
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
    return np.argsort(-counts, kind="stable")[:number]


def digit_counts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of digits of each count; 0 for a count of 0."""
    return np.array([len(str(count)) if count else 0 for count in counts.tolist()], np.int64)


def frequency_groups(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """Group tokens by the digits of their counts, from the rarest to the most frequent one: the
    group of each, (n,), and names. Group 0 is for tokens that never occur.
    """
    digits = digit_counts(counts)
    least, most = int(digits[digits > 0].min(initial=99)), int(digits.max())
    names = [f"{10 ** (n - 1):,} to {10**n - 1:,} times" for n in range(least, most + 1)]
    return np.where(digits > 0, digits - least + 1, 0), ["never", *names]


def sides_of_tokens(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where tokens of these counts, (n,), occur: 0 neither, 1 source, 2 both, 3 target."""
    where = np.array([[0, 3], [1, 2]])
    return np.asarray(where[(source > 0).astype(int), (target > 0).astype(int)])


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
    """Centre rows (n, D), and rotate or reflect them onto other centred rows of the same shape,
    which keeps distances and angles (orthogonal Procrustes problem, Schoenemann 1966).
    """
    from scipy.linalg import orthogonal_procrustes  # imported late: only one page needs it

    if rows.shape != onto.shape:
        raise ValueError(f"expected as many rows and dimensions, got {rows.shape} and {onto.shape}")
    centred, goal = (x.astype(np.float64) - x.mean(axis=0, dtype=np.float64) for x in (rows, onto))
    rotation, _ = orthogonal_procrustes(centred, goal)
    return np.asarray(centred @ rotation, np.float32)


def project_together(tables: Sequence[Floats], frame: Floats) -> tuple[Floats, Components]:
    """Project the rows of C tables (n, D) onto the first two principal components of ``frame``.

    Each table is first rotated onto the frame, so that their points, (C, n, 2), can be compared.
    """
    plane = principal_components(frame)
    points = np.stack([rotate_onto(table, frame) @ plane.directions for table in tables])
    return points.astype(np.float32), plane
