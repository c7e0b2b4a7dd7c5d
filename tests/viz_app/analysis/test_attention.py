from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.viz_app.analysis.attention import (
    aggregate_heads,
    causal_word_mask,
    max_of_blocks,
    max_pool,
    to_words,
)
from headwise.viz_app.records.trace import Word
from tests.floats import assert_near


def words(*sizes: int) -> list[Word]:
    """Words of so many tokens each, in order."""
    stops = np.cumsum(sizes).tolist()
    return [Word("", stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


# Heads

LAYER = np.array([[[0.2, 0.8], [1.0, 0.0]], [[0.6, 0.4], [0.5, 0.5]]], dtype=np.float32)


@pytest.mark.parametrize(
    ("how", "head", "expected"),
    [
        ("head", 0, [[0.2, 0.8], [1.0, 0.0]]),
        ("head", 1, [[0.6, 0.4], [0.5, 0.5]]),
        ("mean", 0, [[0.4, 0.6], [0.75, 0.25]]),
        ("max", 1, [[0.6, 0.8], [1.0, 0.5]]),
    ],
)
def test_aggregate_heads(how: str, head: int, expected: list[list[float]]) -> None:
    together = aggregate_heads(LAYER, how, head)
    assert_near(together, expected)
    assert together.dtype == np.float32


@pytest.mark.parametrize(("how", "head"), [("head", 2), ("head", -1), ("median", 0)])
def test_unknown_aggregate_or_head_is_refused(how: str, head: int) -> None:
    message = rf"^expected mean, max, or a head from 0 to 1, got {how} {head}$"
    with pytest.raises(ValueError, match=message):
        aggregate_heads(LAYER, how, head)


# Words


def test_to_words_sums_keys_and_averages_queries() -> None:
    tokens = np.array(
        [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.0, 1.0, 0.0]], dtype=np.float32
    )
    together = to_words(tokens, words(2, 1), words(1, 3))
    assert_near(together, [[0.3, 0.7], [0.0, 1.0]])
    assert together.dtype == np.float32


@given(
    queries=st.lists(st.integers(1, 4), min_size=1, max_size=7),
    keys=st.lists(st.integers(1, 4), min_size=1, max_size=7),
    seed=st.integers(0, 99),
)
def test_to_words_rows_sum_to_1(queries: list[int], keys: list[int], seed: int) -> None:
    tokens = np.random.default_rng(seed).random((2, 3, sum(queries), sum(keys)), dtype=np.float32)
    tokens /= tokens.sum(axis=-1, keepdims=True)

    together = to_words(tokens, words(*queries), words(*keys))

    assert together.shape == (2, 3, len(queries), len(keys))
    assert_near(together.sum(axis=-1), 1)


@pytest.mark.parametrize(
    ("queries", "keys", "message"),
    [
        (words(2), words(4), "query words must cover 3 tokens in order, without gaps"),
        (words(3), words(2, 1), "key words must cover 4 tokens"),
        ([Word("", 1, 3)], words(4), "query words"),
        ([Word("", 0, 1), Word("", 2, 3)], words(4), "query words"),
        ([], words(4), "query words"),
    ],
)
def test_words_must_cover_all_tokens(queries: list[Word], keys: list[Word], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_words(np.ones((3, 4), dtype=np.float32), queries, keys)


def test_causal_word_mask_by_hand() -> None:
    allowed = causal_word_mask(words(1, 2, 1), words(2, 1, 1))
    assert allowed.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


@given(queries=st.lists(st.integers(1, 4), min_size=2, max_size=6), data=st.data())
def test_causal_word_mask_allows_words_with_an_allowed_token(
    queries: list[int], data: st.DataObject
) -> None:
    length = sum(queries)
    cuts = data.draw(st.sets(st.integers(1, length - 1)))
    edges = [0, *sorted(cuts), length]
    keys = [Word("", start, stop) for start, stop in pairwise(edges)]
    causal = np.tri(length, dtype=np.float32)
    by_weights = to_words(causal, words(*queries), keys) > 0
    np.testing.assert_array_equal(causal_word_mask(words(*queries), keys), by_weights)


# Pooling


@pytest.mark.parametrize("queries", [1, 20, 40, 41, 50, 100])
def test_max_pool_takes_the_maximum_of_each_block(queries: int) -> None:
    keys = 101 - queries
    maps = np.random.default_rng(queries).random((2, queries, keys), dtype=np.float32)
    pooled = max_pool(maps, 40)
    height, width = math.ceil(queries / 40), math.ceil(keys / 40)  # of a block
    assert pooled.shape == (2, math.ceil(queries / height), math.ceil(keys / width))
    assert max(pooled.shape) <= 40
    for row, column in np.ndindex(*pooled.shape[1:]):
        rows = slice(row * height, (row + 1) * height)
        columns = slice(column * width, (column + 1) * width)
        block = maps[:, rows, columns]
        np.testing.assert_array_equal(pooled[:, row, column], block.max(axis=(1, 2)))


@pytest.mark.parametrize("shape", [(40, 40), (1, 40), (7, 3)])
def test_max_pool_leaves_small_maps_unchanged(shape: tuple[int, int]) -> None:
    maps = np.random.default_rng(0).random(shape, dtype=np.float32)
    np.testing.assert_array_equal(max_pool(maps), maps)


def test_maximum_of_blocks_by_hand() -> None:
    maps = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(max_of_blocks(maps, 1, 1), maps)
    np.testing.assert_array_equal(max_of_blocks(maps, 2, 2), [[5, 7], [9, 11]])
    np.testing.assert_array_equal(max_of_blocks(maps, 3, 2), [[9, 11]])
    np.testing.assert_array_equal(max_of_blocks(maps, 1, 3), [[2, 3], [6, 7], [10, 11]])


def test_max_pool_to_one_cell_takes_the_maximum_of_all() -> None:
    assert max_pool(np.array([[3, 8], [5, 2]], dtype=np.float32), 1).tolist() == [[8]]


def test_max_pool_to_no_cells_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^most: expected 1 or more, got 0$"):
        max_pool(np.ones((2, 2), dtype=np.float32), 0)
