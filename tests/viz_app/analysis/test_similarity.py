from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwise.viz_app.analysis.embeddings import (
    cosine_similarity,
    mean_pairwise_similarity,
    nearest_neighbours,
    similar_pairs,
)
from tests.floats import assert_near, near

TABLE = np.array([[2, 0], [0, 3], [-1, 0], [1, 1], [0, 0], [4, 1], [9, 0]], dtype=np.float32)
ALL = np.ones(len(TABLE), dtype=bool)


def test_cosines_by_hand() -> None:
    half = 0.5**0.5
    cosine = cosine_similarity(TABLE[:2], TABLE[:5])
    assert_near(cosine, [[1, 0, -1, half, 0], [0, 1, 0, half, 0]])
    assert cosine.dtype == np.float32


@given(seed=st.integers(0, 99), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_cosines_ignore_scale(seed: int, scale: float) -> None:
    rows = np.random.default_rng(seed).standard_normal((7, 5)).astype(np.float32)
    cosine = cosine_similarity(rows, rows)
    assert (np.abs(cosine) <= 1).all()
    assert_near(np.diag(cosine), 1)
    assert_near(cosine, cosine.T)
    assert_near(cosine_similarity(np.float32(scale) * rows, rows), cosine)


def test_neighbours_are_sorted_without_the_row_itself() -> None:
    found = nearest_neighbours(TABLE, 0, count=3, among=ALL)
    assert found.ids.tolist() == [6, 5, 3]
    assert_near(found.cosine, [1, 4 / 17**0.5, 0.5**0.5])


def test_equal_neighbours_are_sorted_by_id() -> None:
    found = nearest_neighbours(TABLE, 4, count=9, among=ALL)  # a zero row: all cosines are 0
    assert found.ids.tolist() == [0, 1, 2, 3, 5, 6]
    assert not found.cosine.any()


def test_neighbours_are_limited_to_among() -> None:
    among = np.array([True, True, True, False, False, True, False])
    assert nearest_neighbours(TABLE, 0, count=9, among=among).ids.tolist() == [5, 1, 2]


@pytest.mark.parametrize("id", [-1, 7])
def test_unknown_row_is_refused(id: int) -> None:
    with pytest.raises(ValueError, match=rf"^id: expected 0 to 6, got {id}$"):
        nearest_neighbours(TABLE, id, count=3, among=ALL)


def test_pairs_by_hand() -> None:
    found = similar_pairs(TABLE, count=4, among=ALL)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [
        (0, 6),  # the same direction
        (0, 5),
        (5, 6),  # as near as those before
        (3, 5),
    ]
    nearer = 4 / 17**0.5
    assert_near(found.cosine, [1, nearer, nearer, 5 / 34**0.5])


def test_pairs_are_limited_to_among() -> None:
    among = np.array([False, True, True, True, False, False, True])
    found = similar_pairs(TABLE, count=9, among=among)
    pairs = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert pairs == {(1, 2), (1, 3), (1, 6), (2, 3), (2, 6), (3, 6)}
    assert (np.diff(found.cosine) <= 0).all()


@pytest.mark.parametrize("among", [~ALL, np.arange(7) == 3], ids=["none", "one"])
def test_no_pairs(among: np.ndarray) -> None:
    assert similar_pairs(TABLE, count=3, among=among).cosine.tolist() == []


@given(
    seed=st.integers(0, 99),
    rows=st.integers(2, 23),
    block=st.integers(1, 11),
    count=st.sampled_from([1, 7, 100, 400]),
)
@example(seed=1, rows=23, block=23, count=100)
@example(seed=4, rows=23, block=23, count=100)
def test_pairs_do_not_depend_on_block_size(seed: int, rows: int, block: int, count: int) -> None:
    table = np.random.default_rng(seed).standard_normal((rows, 3)).astype(np.float32)
    found = similar_pairs(table, count=count, among=np.ones(rows, bool), block=block)
    first, second = np.triu_indices(rows, 1)
    cosine = cosine_similarity(table, table)[first, second]
    assert_near(found.cosine, np.sort(cosine)[::-1][:count], size=1)
    drawn = cosine_similarity(table, table)[found.first, found.second]
    assert_near(drawn, found.cosine, size=1)
    assert (found.first < found.second).all()
    assert len({*zip(found.first.tolist(), found.second.tolist(), strict=True)}) == len(drawn)


def test_mean_pairwise_similarity_leaves_out_the_diagonal() -> None:
    similarity = np.array([[1, 0.5, 0.25], [0.5, 1, 0], [0.25, 0, 1]], np.float32)
    assert mean_pairwise_similarity(similarity) == near(0.25)
    assert mean_pairwise_similarity(similarity[:2, :2]) == near(0.5)
    assert np.isnan(mean_pairwise_similarity(similarity[:1, :1]))
