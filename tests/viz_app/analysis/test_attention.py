from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz_app.analysis.attention import aggregate_heads, causal_words, max_pool, to_words
from viz_app.records import Word


def words(*sizes: int) -> list[Word]:
    """Words of so many pieces each, in order."""
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
def test_heads_put_together(how: str, head: int, expected: list[list[float]]) -> None:
    together = aggregate_heads(LAYER, how, head)
    np.testing.assert_allclose(together, expected, rtol=1e-6)
    assert together.dtype == np.float32


def test_the_first_head_is_taken_unless_another_is_named() -> None:
    np.testing.assert_array_equal(aggregate_heads(LAYER, "head"), LAYER[0])


@pytest.mark.parametrize(("how", "head"), [("head", 2), ("head", -1), ("median", 0)])
def test_what_is_not_there_is_refused(how: str, head: int) -> None:
    message = rf"^expected mean, max, or a head from 0 to 1, got {how} {head}$"
    with pytest.raises(ValueError, match=message):
        aggregate_heads(LAYER, how, head)


# Words


def test_keys_are_summed_and_queries_averaged() -> None:
    pieces = np.array(
        [[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.0, 1.0, 0.0]], dtype=np.float32
    )
    together = to_words(pieces, words(2, 1), words(1, 3))
    np.testing.assert_allclose(together, [[0.3, 0.7], [0.0, 1.0]], rtol=1e-6)
    assert together.dtype == np.float32


@given(
    queries=st.lists(st.integers(1, 4), min_size=1, max_size=7),
    keys=st.lists(st.integers(1, 4), min_size=1, max_size=7),
    seed=st.integers(0, 99),
)
def test_rows_of_words_sum_to_1(queries: list[int], keys: list[int], seed: int) -> None:
    pieces = np.random.default_rng(seed).random((2, 3, sum(queries), sum(keys)), dtype=np.float32)
    pieces /= pieces.sum(axis=-1, keepdims=True)

    together = to_words(pieces, words(*queries), words(*keys))

    assert together.shape == (2, 3, len(queries), len(keys))
    np.testing.assert_allclose(together.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("queries", "keys", "message"),
    [
        (words(2), words(4), "query words must cover 3 pieces in order, without gaps"),
        (words(3), words(2, 1), "key words must cover 4 pieces"),
        ([Word("", 1, 3)], words(4), "query words"),
        ([Word("", 0, 1), Word("", 2, 3)], words(4), "query words"),
        ([], words(4), "query words"),
    ],
)
def test_words_that_do_not_cover_the_pieces_are_refused(
    queries: list[Word], keys: list[Word], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        to_words(np.ones((3, 4), dtype=np.float32), queries, keys)


def test_a_query_word_sees_the_key_words_that_begin_by_its_end() -> None:
    allowed = causal_words(words(1, 2, 1), words(2, 1, 1))
    assert allowed.tolist() == [[True, False, False], [True, True, False], [True, True, True]]


@given(queries=st.lists(st.integers(1, 4), min_size=2, max_size=6), data=st.data())
def test_allowed_words_are_those_with_an_allowed_piece(
    queries: list[int], data: st.DataObject
) -> None:
    length = sum(queries)
    cuts = data.draw(st.sets(st.integers(1, length - 1)))
    edges = [0, *sorted(cuts), length]
    keys = [Word("", start, stop) for start, stop in pairwise(edges)]
    causal = np.tri(length, dtype=np.float32)
    by_weights = to_words(causal, words(*queries), keys) > 0
    np.testing.assert_array_equal(causal_words(words(*queries), keys), by_weights)


# Pooling


@pytest.mark.parametrize("queries", range(1, 101))
def test_pooled_maps_keep_the_maximum_of_each_block(queries: int) -> None:
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
def test_a_map_that_fits_is_left_as_it_is(shape: tuple[int, int]) -> None:
    maps = np.random.default_rng(0).random(shape, dtype=np.float32)
    np.testing.assert_array_equal(max_pool(maps), maps)


def test_a_map_has_at_most_forty_cells_a_side() -> None:
    assert max_pool(np.zeros((2, 41, 80), np.float32)).shape == (2, 21, 40)


def test_a_map_can_be_pooled_to_one_cell() -> None:
    maps = np.array([[[0.1, 0.9], [0.3, 0.2], [0.4, 0.5]]], dtype=np.float32)
    np.testing.assert_array_equal(max_pool(maps, 1), maps.max(axis=(1, 2), keepdims=True))


def test_pooling_to_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^most: expected 1 or more, got 0$"):
        max_pool(np.ones((2, 2), dtype=np.float32), 0)
