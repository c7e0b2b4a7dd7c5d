"""Heads sorted and tabulated by a measure. ``L`` layers, ``H`` heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import KINDS, Head, Kind
from headwise.model.ties import descending as descending_order
from headwise.viz_app.analysis.labels import interval_text
from headwise.viz_app.records.trace import Floats


def head_values(values: Mapping[str, Mapping[Kind, Floats]], head: Head) -> dict[str, float]:
    """Return the value of each measure for one head."""
    kind, layer, number = head
    return {name: float(kinds[kind][layer, number]) for name, kinds in values.items()}


def rank_heads(
    values: Mapping[Kind, Floats],
    *,
    kinds: Sequence[Kind] = KINDS,
    descending: bool = True,
    least: float | None = None,
) -> list[tuple[Head, float]]:
    """Sort heads of some kinds by one measure, (L, H) of each kind; equal ones stay in order.

    Those without a value (NaN) or below ``least`` are left out.
    """
    found: list[tuple[Head, float]] = [
        (Head(kind, layer, head), float(value))
        for kind in KINDS
        if kind in kinds
        for (layer, head), value in np.ndenumerate(values[kind])
        if not math.isnan(value) and (least is None or value >= least)
    ]
    sign = 1 if descending else -1
    return [found[place] for place in descending_order([sign * value for _, value in found])]


def independent_errors(errors: Sequence[float]) -> NDArray[np.float64]:
    """Return the standard errors of differences, (n, n), as if values were independent.

    An unknown error (NaN) is 0.
    """
    squares = np.nan_to_num(np.asarray(errors, np.float64)) ** 2
    return np.asarray(np.sqrt(squares[:, None] + squares))


def rank_ranges(
    values: Sequence[float], difference_errors: NDArray[np.float64]
) -> list[tuple[int, int]]:
    """Return between which ranks each value may be, 1 for the largest: behind all that are surely
    larger and before all surely smaller, by twice the standard error of a difference, (n, n).
    """
    at = np.asarray(values, np.float64)
    surely = at[:, None] - at > 2 * difference_errors  # row above column
    return [
        (1 + int(above), len(at) - int(below))
        for above, below in zip(surely.sum(axis=0), surely.sum(axis=1), strict=True)
    ]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the rank correlation of Spearman (1904) of the pairs without NaN.

    It is from −1 to 1; NaN if there are fewer than three pairs, or one side is all alike.
    """
    from scipy.stats import spearmanr  # imported late: only the page Heads needs it

    pairs = np.array([first, second], np.float64)
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    if pairs.shape[1] < 3 or (np.ptp(pairs, axis=1) == 0).any():
        return math.nan
    return float(spearmanr(*pairs).statistic)


def rank_correlation_interval(
    first: Sequence[float], second: Sequence[float]
) -> tuple[float, float]:
    """Return the 95% interval of ``rank_correlation``, by 1,000 resamples of the pairs (Efron
    1979's percentiles). NaN without a correlation, or where resamples are all the same, as at
    ±1.
    """
    from scipy.stats import rankdata

    if math.isnan(rank_correlation(first, second)):
        return math.nan, math.nan
    pairs = np.array([first, second], np.float64)
    pairs = pairs[:, np.isfinite(pairs).all(axis=0)]
    drawn = np.random.default_rng(0).integers(pairs.shape[1], size=(1_000, pairs.shape[1]))
    ranks = rankdata(pairs[:, drawn], axis=-1)  # (2, resamples, pairs)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    squares = (ranks**2).sum(axis=-1).prod(axis=0)
    kept = squares > 0  # a resample may have one pair only, over and over
    found = ranks.prod(axis=0).sum(axis=-1)[kept] / np.sqrt(squares[kept])
    low, high = np.percentile(found, [2.5, 97.5])
    return (float(low), float(high)) if high - low >= 1e-9 else (math.nan, math.nan)


def correlation_in_words(first: Sequence[float], second: Sequence[float], of: str) -> str:
    """Return ``rank_correlation`` with its interval; "" where there is none.

    ``of`` says what the pairs are of.
    """
    if math.isnan(both := rank_correlation(first, second)):
        return ""
    low, high = rank_correlation_interval(first, second)
    ends = interval_text(low, high, "+.2f")
    return f"{both:+.2f}" + f", 95% interval {ends} by resamples of the {of}" * bool(ends)


def emergence(
    steps: Sequence[int], distances: Sequence[Mapping[Kind, Floats]]
) -> dict[Kind, Floats]:
    """Find the first step at which each head is at least half as far from the first checkpoint as
    at the last: kind → (L, H); NaN if it is no different there. ``distances`` are by step.
    """
    found: dict[Kind, Floats] = {}
    for kind in KINDS:
        table = np.stack([of_kinds[kind] for of_kinds in distances])  # (steps, L, H)
        reached = table >= table[-1] / 2
        first = np.asarray(steps, np.float32)[reached.argmax(axis=0)]
        found[kind] = np.where(table[-1] > 0, first, np.float32(np.nan))
    return found


def head_table(columns: Sequence[Mapping[Kind, Floats] | None]) -> tuple[list[Head], Floats]:
    """Tabulate a measure, (L, H) for each kind and checkpoint: heads, and values (heads, columns).

    Kinds without a value have no rows; a checkpoint that was not measured, None, is NaN.
    """
    known = [column for column in columns if column is not None]
    heads: list[Head] = []
    for kind in KINDS:
        if any(np.isfinite(column[kind]).any() for column in known):
            heads += [Head(kind, layer, head) for layer, head in np.ndindex(known[0][kind].shape)]
    cells = np.full((len(heads), len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        if column is not None:
            cells[:, place] = [column[kind][layer, head] for kind, layer, head in heads]
    return heads, cells


def order_by_last_value(heads: Sequence[Head], cells: Floats) -> list[int]:
    """Sort the rows of a table by kind, then by their last value, largest first; return indices.

    The last value is the one in the last column with any values; heads without it come last.
    """
    measured = np.flatnonzero(np.isfinite(cells).any(axis=0))
    if not measured.size:
        return list(range(len(heads)))
    by_value = descending_order(cells[:, measured[-1]]).tolist()
    return sorted(by_value, key=lambda place: KINDS.index(heads[place][0]))
