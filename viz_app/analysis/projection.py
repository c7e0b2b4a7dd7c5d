"""A vocabulary in two dimensions by its principal components. ``D`` = d_model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viz_app.records import Floats


@dataclass(frozen=True)
class Components:
    """Rows on their first two principal components."""

    points: Floats
    """(n, 2), around 0."""
    shares: tuple[float, float]
    """Of the variance, from 0 to 1."""
    directions: Floats
    """The two unit vectors, (D, 2); what is missing is 0."""


def principal_components(rows: Floats) -> Components:
    """Rows (n, D), centred, on the two directions in which they vary most.

    By the eigenvectors of their covariance (D, D), in double precision: the same as by a singular
    value decomposition, and quick for many rows. The sign of a direction, which is free, is such
    that its largest part is positive. With one dimension or row, what is missing is 0.
    """
    centred = rows.astype(np.float64) - rows.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred)  # the largest last
    values, vectors = values[::-1][:2].clip(0), vectors[:, ::-1][:, :2]  # (2,), (D, 2)
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, range(vectors.shape[1])])
    directions = np.zeros((rows.shape[1], 2), np.float32)
    directions[:, : vectors.shape[1]] = vectors
    points = np.zeros((len(rows), 2), np.float32)
    points[:, : vectors.shape[1]] = centred @ vectors
    total = float((centred**2).sum())
    shares = [float(value) / total if total else 0.0 for value in values]
    return Components(points, (shares[0], shares[1] if len(shares) > 1 else 0.0), directions)


def most_frequent(counts: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Ids of the so many tokens that occur most, the most frequent first, equal ones by id."""
    order: NDArray[np.int64] = np.argsort(-counts, kind="stable")[:number]
    return order


def decades(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many digits a count has: 0 for none, 1 to 9 is 1, 10 to 99 is 2, and so on."""
    return np.array([len(str(count)) if count else 0 for count in counts.tolist()], np.int64)


def frequency_groups(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[str]]:
    """To which group of frequency each of some tokens belongs, (n,), and the groups' names.

    The first group is of those that never occur; of the others there are only those from the rarest
    to the most frequent, so that their shades differ as much as they can.
    """
    digits = decades(counts)
    least, most = int(digits[digits > 0].min(initial=99)), int(digits.max())
    names = [f"{10 ** (n - 1):,} to {10**n - 1:,} times" for n in range(least, most + 1)]
    return np.where(digits > 0, digits - least + 1, 0), ["never", *names]


def sides(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.int64]:
    """On which side tokens occur, from their counts: 0 neither, 1 source, 2 both, 3 target."""
    where = np.array([[0, 3], [1, 2]])
    found: NDArray[np.int64] = where[(source > 0).astype(int), (target > 0).astype(int)]
    return found
