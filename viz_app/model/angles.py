"""Sinusoidal positional encodings and their dot products: section 3.5 of Vaswani et al. (2017).

``D`` = d_model.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.viz_app.records.trace import Floats

Order = Literal["interleaved", "halves"]
"""Sine and cosine of a wave are dimensions 2i and 2i + 1, as in the paper, or i and D / 2 + i."""


def wavelength(dimension: int, d_model: int, order: Order = "interleaved") -> float:
    """Return the period of a dimension in positions: 2π · 10000^(2i/D)."""
    return 2 * math.pi * divisor(dimension, d_model, order)


def divisor(dimension: int, d_model: int, order: Order = "interleaved") -> float:
    """Return the number by which a position is divided before sine or cosine: 10000^(2i/D)."""
    if not 0 <= dimension < d_model:
        raise ValueError(f"dimension: expected 0 to {d_model - 1}, got {dimension}")
    pair = dimension // 2 if order == "interleaved" else dimension % (d_model // 2)
    return float(10_000.0 ** (pair * 2 / d_model))


def is_cosine(dimension: int, d_model: int, order: Order = "interleaved") -> bool:
    """Return whether a dimension is a cosine and not a sine."""
    return dimension % 2 == 1 if order == "interleaved" else dimension >= d_model // 2


def encoding_formula(order: Order, width: int | str = "D") -> str:
    """Write the encodings as LaTeX, with D in the exponent or its number."""
    sine, cosine = (r"2i", "2i+1") if order == "interleaved" else ("i", "D/2+i")
    return (
        rf"\begin{{aligned}} PE_{{(pos,\,{sine})}} &= \sin\left(pos / 10000^{{2i/{width}}}\right) "
        rf"\\ PE_{{(pos,\,{cosine})}} &= \cos\left(pos / 10000^{{2i/{width}}}\right) "
        r"\end{aligned}"
    )


def _divisors(d_model: int) -> NDArray[np.float64]:
    return np.array([divisor(dimension, d_model) for dimension in range(0, d_model, 2)])


def encodings(positions: ArrayLike, d_model: int, order: Order = "interleaved") -> Floats:
    """Compute the encodings of n positions, (n, D); positions may be fractional."""
    angle = np.asarray(positions)[:, None] / _divisors(d_model)  # (n, D / 2)
    waves = np.sin(angle), np.cos(angle)
    if order == "halves":
        return np.concatenate(waves, axis=-1).astype(np.float32)
    return np.stack(waves, axis=-1).astype(np.float32).reshape(-1, d_model)


def order_of(recorded: Floats) -> Order | None:
    """Return the order in which recorded encodings (n, D) follow the formula; None if they do not.

    The first row alone tells the orders apart, since at position 0 sines are 0 and cosines 1.
    """
    length, d_model = recorded.shape
    orders: tuple[Order, ...] = ("interleaved", "halves")
    for order in orders:
        if d_model % 2 == 0 and np.allclose(
            recorded, encodings(np.arange(length), d_model, order), atol=1e-3
        ):
            return order
    return None


def similarity_by_distance(length: int, d_model: int) -> NDArray[np.float64]:
    """Compute the dot product PE(p) · PE(p + k) for k from 0 to length − 1, for every p: (length,).

    It is Σ cos(k / 10000^(2i/D)), since sin a sin b + cos a cos b = cos(a − b).
    """
    waves = np.cos(np.arange(length)[:, None] / _divisors(d_model))  # (length, D / 2)
    return np.asarray(waves.sum(axis=-1))


def largest_deviation(encoded: Floats) -> float:
    """Return how far dot products of encodings (length, D) are at most from those by distance."""
    length, d_model = encoded.shape
    rows = encoded.astype(np.float64)
    position = np.arange(length)
    distance = np.abs(position[:, None] - position)  # (length, length)
    expected = similarity_by_distance(length, d_model)[distance]
    return float(np.abs(rows @ rows.T - expected).max())


def sample_dimensions(d_model: int, order: Order = "interleaved") -> list[int]:
    """Choose a few dimensions of different wavelengths: 0, 1, and those at D/8, D/4 and D/2.

    Of halves, a sine and a cosine of the shortest wave, and longer ones.
    """
    if order == "halves":
        half = d_model // 2
        return sorted({0, half, *(half // part for part in (8, 4, 2))})
    return sorted({0, 1, *(d_model // part // 2 * 2 for part in (8, 4, 2))})


def bias_by_distance(
    bias: Floats, allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], Floats, float]:
    """Read from recorded biases, (H, Q, M), what heads add to a score by the distance to the key.

    Returns distances, key minus query, rising, (n,); the mean bias at each, (H, n); and the largest
    difference of a bias from it. Cells that are not ``allowed``, (Q, M), do not count.
    """
    rows, columns = np.nonzero(allowed)
    between = columns - rows
    distances = np.unique(between)
    values = bias[:, rows, columns]  # (H, pairs)
    means: Floats = np.stack(
        [values[:, between == distance].mean(axis=1) for distance in distances], axis=1
    )
    off = np.abs(values - means[:, np.searchsorted(distances, between)]).max()
    return distances, means, float(off)
