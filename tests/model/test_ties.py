"""Orders of values that differ by a last bit, in both directions, by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from headwise.model.ties import descending, first_largest, first_largest_of, near_largest, top_k

INF, NAN = np.inf, np.nan
BIT = 2.0**-23
"""The last bit of a float32 from 1 to 2."""

ORDERS: list[tuple[Sequence[float], list[int]]] = [
    ([3], [0]),
    ([1, 3, 2], [1, 2, 0]),
    ([2, 2, 1, 2], [0, 1, 3, 2]),
    ([0, 0, 0], [0, 1, 2]),
    ([1, 1 + BIT, 0], [0, 1, 2]),
    ([1 + BIT, 1, 0], [0, 1, 2]),
    ([0, 1 + BIT, 0.5, 1], [1, 3, 2, 0]),
    ([0, 1, 0.5, 1 + BIT], [1, 3, 2, 0]),
    ([0, 1, 0.5, 1 + 64 * BIT], [3, 1, 2, 0]),  # further apart than rounding
    ([8, 1, 1 + 64 * BIT], [0, 1, 2]),  # but not beside an 8
    ([-8, 1, 1 + 64 * BIT], [1, 2, 0]),
    ([-1 - BIT, -1, -2], [0, 1, 2]),
    ([5, 1, 1 + BIT, 3, 3 - 2 * BIT, 1], [0, 3, 4, 1, 2, 5]),
    # Equal to the largest is not passed on from neighbour to neighbour.
    ([1 - 48 * BIT, 1 - 24 * BIT, 1], [1, 2, 0]),
    ([1 - 72 * BIT, 1 - 48 * BIT, 1 - 24 * BIT, 1], [2, 3, 0, 1]),
    ([-INF, 1, -INF, 1 - BIT], [1, 3, 0, 2]),
    ([-INF, -INF], [0, 1]),
    ([1, INF, 2, INF], [1, 3, 2, 0]),
    ([NAN, 1, NAN, 1 + BIT], [1, 3, 0, 2]),
    ([NAN, NAN], [0, 1]),
    ([NAN, 1, -INF], [1, 0, 2]),
    ([-1e4, 1, 1 + 64 * BIT, -1e9], [2, 1, 0, 3]),  # masks do not make rounding coarser
]


@pytest.mark.parametrize(("values", "order"), ORDERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_orders_by_hand(values: Sequence[float], order: list[int], dtype: type) -> None:
    array = np.array(values, dtype)
    assert descending(array).tolist() == order
    assert first_largest(array) == order[0]
    tensor = torch.from_numpy(array)
    assert first_largest_of(tensor) == order[0]
    for k in range(1, len(values) + 1):
        assert top_k(tensor, k).tolist() == order[:k]


def test_each_row_has_its_own_rounding() -> None:
    rows = np.array([[1, 1 + 64 * BIT, 0], [1, 1 + 64 * BIT, 8], [NAN, 2, 2 + BIT]])
    rows = np.stack([rows, rows[::-1]]).astype(np.float32)  # (2, 3, 3)
    assert first_largest(rows).tolist() == [[1, 2, 1], [1, 2, 1]]
    assert first_largest_of(torch.from_numpy(rows)).tolist() == [[1, 2, 1], [1, 2, 1]]
    first = [[1, 0], [2, 0], [1, 2]]
    assert top_k(torch.from_numpy(rows), 2).tolist() == [first, first[::-1]]


def test_all_that_count_as_the_largest() -> None:
    assert near_largest([1, 0, 1 + BIT, 1 - BIT, NAN]).tolist() == [True, False, True, True, False]


def test_another_rounding_may_be_given_and_nothing_has_no_order() -> None:
    assert descending(np.array([0.5, 0.75, 1.0]), 0.3).tolist() == [1, 2, 0]
    assert descending(np.array([1.0, 1.0 + BIT]), 0).tolist() == [1, 0]
    assert descending([]).tolist() == []


@pytest.mark.parametrize("seed", range(5))
def test_a_change_of_the_last_bits_changes_no_order(seed: int) -> None:
    """Of many values, of which each occurs three times on average."""
    generator = np.random.default_rng(seed)
    values = generator.integers(1, 300, 900).astype(np.float32) / 300
    expected = sorted(range(900), key=lambda place: (-values[place], place))
    for _ in range(3):
        turned = values * (1 + generator.integers(-2, 3, 900) * np.float32(BIT))
        assert turned.tolist() != values.tolist()
        assert descending(turned).tolist() == expected
        assert top_k(torch.from_numpy(turned), 20).tolist() == expected[:20]
        assert first_largest(turned) == expected[0]
