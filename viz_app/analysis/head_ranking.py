"""Heads sorted and tabulated by a measure. ``L`` layers, ``H`` heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from model.interface import KINDS, Head, Kind
from viz_app.records.trace import Floats


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
    """Sort heads by their values of one measure; equal ones stay in order of kind, layer and head.

    Args:
        values: values of each kind, (L, H); heads without a value (NaN) are left out.
        kinds: the kinds to include.
        descending: whether the largest value comes first.
        least: the smallest value to include.
    """
    found: list[tuple[Head, float]] = [
        (Head(kind, layer, head), float(value))
        for kind in KINDS
        if kind in kinds
        for (layer, head), value in np.ndenumerate(values[kind])
        if not math.isnan(value) and (least is None or value >= least)
    ]
    return sorted(found, key=lambda one: -one[1] if descending else one[1])


def head_table(columns: Sequence[Mapping[Kind, Floats] | None]) -> tuple[list[Head], Floats]:
    """Tabulate a measure: a row for each head, a column for each checkpoint.

    Kinds of attention for which the measure is undefined (NaN everywhere) have no rows.

    Args:
        columns: values of each kind, (L, H), for each checkpoint; None if it was not measured.

    Returns:
        The heads, and their values, (heads, columns), NaN where unknown.
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
    last = np.nan_to_num(cells[:, measured[-1]], nan=-np.inf)
    return sorted(range(len(heads)), key=lambda i: (KINDS.index(heads[i][0]), -last[i]))
