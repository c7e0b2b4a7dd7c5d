from __future__ import annotations

import numpy as np
import pytest

from headwise.viz_app.analysis.embeddings import (
    digit_counts,
    frequency_groups,
    most_frequent,
    principal_components,
    sides_of_tokens,
)
from tests.floats import assert_near, near


@pytest.mark.parametrize("shape", [(13, 7), (5, 11)], ids=["more rows", "more dimensions"])
def test_principal_components_match_svd(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(3).standard_normal(shape).astype(np.float32) + 5
    found = principal_components(rows)
    centred = rows.astype(float) - rows.mean(axis=0, dtype=float)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    for axis in (0, 1):
        sign = np.sign(right[axis][np.abs(right[axis]).argmax()])
        expected = sign * left[:, axis] * singular[axis]
        assert_near(found.points[:, axis], expected)
    expected_shares = singular[:2] ** 2 / (singular**2).sum()
    assert_near(found.shares, expected_shares)
    assert found.points.dtype == np.float32
    longest = np.linalg.norm(centred, axis=1).max()
    assert_near(centred @ found.directions, found.points, size=longest)


def test_principal_components_by_hand() -> None:
    # Around (1, 2, 0): ±4 along the second axis, ±1 along the third.
    rows = np.array([[1, 6, 0], [1, -2, 0], [1, 2, 1], [1, 2, -1]], np.float32)
    found = principal_components(rows)
    assert_near(found.points, [[4, 0], [-4, 0], [0, 1], [0, -1]])
    assert_near(found.shares, [32 / 34, 2 / 34])
    smaller = principal_components(rows / 16)
    assert_near(smaller.shares, found.shares)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_missing_components_are_zero(shape: tuple[int, int]) -> None:
    found = principal_components(np.arange(3, dtype=np.float32).reshape(shape))
    assert found.points.shape == (shape[0], 2)
    assert not found.points[:, 1].any()
    assert found.shares[1] == 0
    assert found.shares[0] == near(float(shape[0] > 1))


def test_most_frequent_orders_ties_by_id() -> None:
    counts = np.array([3, 0, 7, 3, 7])
    assert most_frequent(counts, 4).tolist() == [2, 4, 0, 3]
    assert most_frequent(counts, 9).tolist() == [2, 4, 0, 3, 1]


def test_digit_counts() -> None:
    counts = np.array([0, 1, 9, 10, 99, 100, 12345])
    assert digit_counts(counts).tolist() == [0, 1, 1, 2, 2, 3, 5]


def test_frequency_groups_begin_at_the_rarest_token() -> None:
    group, names = frequency_groups(np.array([0, 45, 1200, 99]))
    assert names == ["never", "10 to 99 times", "100 to 999 times", "1,000 to 9,999 times"]
    assert group.tolist() == [0, 1, 3, 1]
    group, names = frequency_groups(np.array([0, 5, 45]))
    assert (group.tolist(), names) == ([0, 1, 2], ["never", "1 to 9 times", "10 to 99 times"])
    group, names = frequency_groups(np.zeros(2, np.int64))
    assert (group.tolist(), names) == ([0, 0], ["never"])


def test_sides_of_tokens() -> None:
    assert sides_of_tokens(np.array([0, 5, 1, 0]), np.array([0, 0, 1, 1])).tolist() == [0, 1, 2, 3]
