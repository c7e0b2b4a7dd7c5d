from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz_app.analysis.similarity import cosine_similarity, nearest_neighbours

TABLE = np.array([[2, 0], [0, 3], [-1, 0], [1, 1], [0, 0], [4, 1], [9, 0]], dtype=np.float32)
ALL = np.ones(len(TABLE), dtype=bool)


def test_cosines() -> None:
    half = 0.5**0.5
    cosine = cosine_similarity(TABLE[:2], TABLE[:5])
    np.testing.assert_allclose(cosine, [[1, 0, -1, half, 0], [0, 1, 0, half, 0]], atol=1e-6)
    assert cosine.dtype == np.float32


@given(seed=st.integers(0, 99), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_cosines_are_those_of_directions(seed: int, scale: float) -> None:
    rows = np.random.default_rng(seed).standard_normal((7, 5)).astype(np.float32)
    cosine = cosine_similarity(rows, rows)
    assert (np.abs(cosine) <= 1).all()
    np.testing.assert_allclose(np.diag(cosine), 1, atol=1e-6)
    np.testing.assert_allclose(cosine, cosine.T, atol=1e-6)
    np.testing.assert_allclose(cosine_similarity(np.float32(scale) * rows, rows), cosine, atol=1e-6)


def test_neighbours_come_in_order_without_the_row_itself() -> None:
    found = nearest_neighbours(TABLE, 0, count=3, among=ALL)
    assert found.ids.tolist() == [6, 5, 3]
    np.testing.assert_allclose(found.cosine, [1, 4 / 17**0.5, 0.5**0.5], atol=1e-6)


def test_equal_neighbours_come_by_id() -> None:
    found = nearest_neighbours(TABLE, 4, count=9, among=ALL)  # a zero row: all cosines are 0
    assert found.ids.tolist() == [0, 1, 2, 3, 5, 6]
    assert not found.cosine.any()


def test_neighbours_come_from_among_the_given() -> None:
    among = np.array([True, True, True, False, False, True, False])
    assert nearest_neighbours(TABLE, 0, count=9, among=among).ids.tolist() == [5, 1, 2]


def test_there_may_be_no_neighbour() -> None:
    assert nearest_neighbours(TABLE, 0, count=3, among=~ALL).ids.tolist() == []


@pytest.mark.parametrize("id", [-1, 7])
def test_a_row_that_is_not_there_is_refused(id: int) -> None:
    with pytest.raises(ValueError, match=rf"^id: expected 0 to 6, got {id}$"):
        nearest_neighbours(TABLE, id, count=3, among=ALL)
