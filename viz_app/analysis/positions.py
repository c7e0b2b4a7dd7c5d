"""Sinusoidal positions and what they measure: section 3.5 of the paper. ``D`` = d_model."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viz_app.records import Floats


def wavelength(dimension: int, d_model: int) -> float:
    """Positions after which a dimension repeats: 2π · 10000^(2i/D) for 2i and 2i + 1."""
    return 2 * math.pi * divisor(dimension, d_model)


def divisor(dimension: int, d_model: int) -> float:
    """By what a position is divided before its sine or cosine is taken: 10000^(2i/D).

    Raises:
        ValueError: if there is no such dimension.
    """
    if not 0 <= dimension < d_model:
        raise ValueError(f"dimension: expected 0 to {d_model - 1}, got {dimension}")
    return float(10_000.0 ** (dimension // 2 * 2 / d_model))


def _divisors(d_model: int) -> NDArray[np.float64]:
    return np.array([divisor(dimension, d_model) for dimension in range(0, d_model, 2)])


def encodings(positions: ArrayLike, d_model: int) -> Floats:
    """Encodings (n, D) of n positions, of those between two whole ones too."""
    angle = np.asarray(positions)[:, None] / _divisors(d_model)  # (n, D / 2)
    both: Floats = np.stack([np.sin(angle), np.cos(angle)], axis=-1).astype(np.float32)
    return both.reshape(-1, d_model)


def similarity_by_distance(length: int, d_model: int) -> NDArray[np.float64]:
    """PE(p) · PE(p + k) for k from 0 to length - 1: Σ cos(k / 10000^(2i/D)), the same for every p.

    (sin a sin b + cos a cos b = cos(a - b), for each pair of dimensions; at 0 it is D / 2.)
    """
    similarity: NDArray[np.float64] = np.cos(
        np.arange(length)[:, None] / _divisors(d_model)  # (length, D / 2)
    ).sum(axis=-1)
    return similarity


def departure(encoded: Floats) -> float:
    """How far any product of two encodings (length, D), of 0 on, is from that of their distance."""
    length, d_model = encoded.shape
    rows = encoded.astype(np.float64)
    position = np.arange(length)
    distance = np.abs(position[:, None] - position)  # (length, length)
    expected = similarity_by_distance(length, d_model)[distance]
    return float(np.abs(rows @ rows.T - expected).max())


def spread_dimensions(d_model: int) -> list[int]:
    """A few dimensions from the shortest waves to long ones: a pair, and sines beyond it."""
    return sorted({0, 1, *(d_model // part // 2 * 2 for part in (8, 4, 2))})
