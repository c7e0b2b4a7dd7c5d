"""Attention summed over tokens, layers and the sentences of a batch, by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import log
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.attention import (
    MapFacts,
    aggregate_heads,
    causal_word_mask,
    map_facts,
    max_of_blocks,
    max_pool,
    most_on_punctuation,
    pool_labels,
    pool_mask,
    to_words,
)
from headwise.viz_app.analysis.rollout import (
    map_of_heads,
    mean_of_heads,
    rollout,
    rollout_of,
    value_weighted,
    weights_of,
)
from headwise.viz_app.model.masks import TokenIds, batch_of_lengths
from headwise.viz_app.records.trace import Tokens, Trace, Word
from tests.floats import assert_near, near

MakeTokens = Callable[..., Tokens]
SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=7)


def words(*sizes: int) -> list[Word]:
    """Words of so many tokens each, in order."""
    stops = np.cumsum(sizes).tolist()
    return [Word("", stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]


def test_aggregate_heads() -> None:
    layer = np.array([[[0.2, 0.8], [1.0, 0.0]], [[0.6, 0.4], [0.5, 0.5]]], dtype=np.float32)
    assert_near(aggregate_heads(layer, "head", 1), [[0.6, 0.4], [0.5, 0.5]])
    assert_near(aggregate_heads(layer, "mean"), [[0.4, 0.6], [0.75, 0.25]])
    assert_near(aggregate_heads(layer, "max", 1), [[0.6, 0.8], [1.0, 0.5]])
    for how, head in (("head", 2), ("head", -1), ("median", 0)):
        message = rf"^expected mean, max, or a head from 0 to 1, got {how} {head}$"
        with pytest.raises(ValueError, match=message):
            aggregate_heads(layer, how, head)


# Words


def test_to_words_sums_keys_and_averages_queries() -> None:
    tokens = np.float32([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0, 0, 1, 0]])
    together = to_words(tokens, words(2, 1), words(1, 3))
    assert_near(together, [[0.3, 0.7], [0.0, 1.0]])
    assert together.dtype == np.float32


def test_words_must_cover_all_tokens() -> None:
    weights = np.ones((3, 4), dtype=np.float32)
    for queries, keys, message in (
        (words(2), words(4), "query words must cover 3 tokens in order, without gaps"),
        (words(3), words(2, 1), "key words must cover 4 tokens"),
        ([Word("", 1, 3)], words(4), "query words"),
        ([Word("", 0, 1), Word("", 2, 3)], words(4), "query words"),
    ):
        with pytest.raises(ValueError, match=message):
            to_words(weights, queries, keys)


@given(queries=SIZES, data=st.data())
def test_a_word_with_an_allowed_token_is_allowed(queries: list[int], data: st.DataObject) -> None:
    length = sum(queries)
    edges = [0, *sorted(data.draw(st.sets(st.integers(1, length - 1)))), length]
    keys = [Word("", start, stop) for start, stop in pairwise(edges)]
    by_weights = to_words(np.tri(length, dtype=np.float32), words(*queries), keys) > 0
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


def test_pooling_by_hand() -> None:
    maps = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(max_of_blocks(maps, 2, 2), [[5, 7], [9, 11]])
    np.testing.assert_array_equal(max_of_blocks(maps, 1, 3), [[2, 3], [6, 7], [10, 11]])
    np.testing.assert_array_equal(max_pool(maps, 1), [[11]])
    np.testing.assert_array_equal(max_pool(maps), maps)
    assert pool_mask(None) is None
    pooled = pool_mask(np.tri(4, dtype=bool), 2)
    np.testing.assert_array_equal(pooled, [[True, False], [True, True]])
    labels = ["a", "b", "c", "d", "e"]
    assert pool_labels(labels, 5) == labels
    assert pool_labels(labels, 4) == ["a … b", "c … d", "e"]
    assert pool_labels([], 4) == []
    with pytest.raises(ValueError, match=r"^most: expected 1 or more, got 0$"):
        max_pool(maps, 0)


# Facts


def test_facts_of_a_causal_map_by_hand(make_tokens: MakeTokens) -> None:
    """The first row, which has only one key, does not count."""
    keys = make_tokens(["<s>"], [" so"], [","])
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.0, 0.75]], np.float32)
    facts = cast(MapFacts, map_facts(weights, keys, allowed=np.tri(3, dtype=bool), own_keys=True))
    assert (facts.largest, facts.row, facts.column) == (0.75, 2, 2)
    assert facts.special == near((0.5 + 0.25) / 2)
    assert facts.punctuation == near((0 + 0.75) / 2)
    assert facts.itself == near((0.5 + 0.75) / 2)
    assert facts.even_weight == near((1 / 2 + 1 / 3) / 2)
    last = -(0.25 * log(0.25) + 0.75 * log(0.75)) / log(3)
    assert facts.evenness == near((1 + last) / 2)


def test_facts_of_an_even_map_without_punctuation(make_tokens: MakeTokens) -> None:
    keys = make_tokens([" a"], [" b"], [" c"], [" d"], ["</s>"])
    weights = np.full((2, 5), 0.2, np.float32)
    facts = cast(MapFacts, map_facts(weights, keys, allowed=None, own_keys=False))
    assert facts.evenness == near(1, dtype=np.float32)
    assert (facts.special, facts.even_weight) == near((0.2, 0.2), dtype=np.float32)
    assert (facts.punctuation, facts.itself) == (None, None)
    # A single key is no choice.
    ones, dot = np.ones((2, 1), np.float32), make_tokens(["."])
    assert map_facts(ones, dot, allowed=None, own_keys=False) is None
    assert most_on_punctuation({"cross": ones[None, None]}, lambda _: dot) is None


def test_the_head_that_rests_most_on_punctuation_by_hand(make_tokens: MakeTokens) -> None:
    """Rows in which the mask forbids the comma count as 0; the row with a single key does not."""
    keys: dict[Kind, Tokens] = {
        "cross": make_tokens([" a"], ["."], ["</s>"]),
        "decoder_self": make_tokens(["<s>"], [" a"], [","]),
    }
    cross = np.array([[[[0.5, 0.25, 0.25], [0, 0, 1]], [[0, 0.5, 0.5], [0.5, 0.25, 0.25]]]])
    own = np.array([[[[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.1, 0.8]]]])
    both: dict[Kind, np.ndarray] = {"cross": cross, "decoder_self": own}
    assert most_on_punctuation(both, keys.__getitem__) == (Head("decoder_self", 0, 0), 0.4)
    assert most_on_punctuation({"cross": cross}, keys.__getitem__) == (Head("cross", 0, 1), 0.375)
    words_only = make_tokens([" a"], [" b"], ["</s>"])
    assert most_on_punctuation({"cross": cross}, lambda _: words_only) is None


def test_value_weighted_by_hand() -> None:
    """Weights .5, .5 on values of lengths 1 and 3 add 1/4 and 3/4; a row of zeros stays 0."""
    weights = np.array([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]], dtype=np.float32)
    shares = value_weighted(weights, np.array([1.0, 3.0], dtype=np.float32))
    assert_near(shares, [[0.25, 0.75], [1, 0], [0.2 / 2.6, 2.4 / 2.6]])
    shares = value_weighted(weights, np.array([0.0, 2.0], dtype=np.float32))
    np.testing.assert_array_equal(shares, [[0, 1], [0, 0], [0, 1]])
    even = np.full((2, 1, 1, 2), 0.5, dtype=np.float32)
    norms = np.array([[[1.0, 1.0]], [[1.0, 4.0]]], dtype=np.float32)  # of each head
    assert_near(value_weighted(even, norms)[:, 0, 0], [[0.5, 0.5], [0.2, 0.8]])


def test_mean_of_heads_that_cancel_by_hand(trace: Trace) -> None:
    """For the first key both heads add 1, in opposite directions; for the second, 1 and 3 along.

    Each head alone gives the first key a share: 1/2 and 1/4, and 3/8 if these were averaged.
    """
    attention = np.full((1, 2, 1, 2), 0.5, dtype=np.float32)
    values = np.array([[[[2.0], [2.0]], [[-2.0], [6.0]]]], dtype=np.float32)  # (L, H, M, D)
    lengths = np.abs((attention[:, :, 0, :, None] * values).sum(axis=1))  # (L, M, D)
    changed = replace(
        trace,
        attention={"cross": attention},
        value_norms={"cross": np.abs(values[..., 0])},
        head_sum_norms={"cross": lengths.swapaxes(1, 2)},
    )
    shares = weights_of(changed, "cross", "value norm")
    assert_near(shares[0, :, 0], [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_array_equal(mean_of_heads(changed, "cross", "value norm"), [[[0, 1]]])
    np.testing.assert_array_equal(mean_of_heads(changed, "cross"), [[[0.5, 0.5]]])
    head = Head("cross", 0, 1)
    for aggregate, expected in (
        ("head", [[0.25, 0.75]]),
        ("max", [[0.5, 0.75]]),
        ("mean", [[0, 1]]),
    ):
        assert_near(map_of_heads(changed, head, aggregate, "value norm"), expected)


def test_rollout_by_hand(trace: Trace) -> None:
    """Two layers of self-attention, and cross-attention that goes on through both of the encoder.

    The first is with the residual [[1, 0], [.25, .75]]; the second, with the residual
    [[.5, .5], [.5, .5]], makes both rows (.625, .375).
    """
    layers = np.array([[[1, 0], [0.5, 0.5]], [[0, 1], [1, 0]]], dtype=np.float32)
    expected = [[[1, 0], [0.25, 0.75]], [[0.625, 0.375], [0.625, 0.375]]]
    assert_near(rollout(layers), expected)
    cross = np.array([[[1, 0], [0, 1]], [[0.2, 0.8], [1, 0]]], dtype=np.float32)
    maps = {"encoder_self": layers, "decoder_self": layers[::-1], "cross": cross}
    heads = {kind: np.stack([each, each], axis=1) for kind, each in maps.items()}
    norms = {kind: 3 * each for kind, each in maps.items()}
    made = replace(trace, attention=heads, head_sum_norms=norms)
    old = replace(made, head_sum_norms={})
    for cells in ("weight", "value norm"):
        for layer in (0, 1):
            assert_near(rollout_of(made, "encoder_self", layer, cells), expected[layer])
            assert_near(rollout_of(made, "cross", layer, cells), expected[1])
        assert_near(rollout_of(made, "decoder_self", 1, cells), [[0.5, 0.5], [0.5, 0.5]])
    assert_near(rollout_of(old, "encoder_self", 1), expected[1])
    with pytest.raises(ValueError, match=r"saved without them; trace the sentence again$"):
        rollout_of(old, "encoder_self", 1, "value norm")


def ids(length: int, first: int = 4) -> TokenIds:
    return (*range(first, first + length - 1), 3)


@pytest.mark.parametrize(
    ("length", "others", "expected"),
    [
        (7, [2, 5, 7, 11, 23], [7, 5, 11]),
        (7, [9, 5], [7, 5, 9]),
        (7, [7, 7], [7, 6, 5]),
        (7, [6], [7, 6, 5]),
        (2, [], [2, 1]),
        (1, [], [1]),
    ],
)
def test_nearest_lengths_come_first(length: int, others: list[int], expected: list[int]) -> None:
    batch = batch_of_lengths(ids(length), [ids(n, 50) for n in others])
    assert [len(row) for row in batch] == expected
    assert batch[0] == ids(length)
    assert all(row[-1] == 3 for row in batch)
    assert batch_of_lengths((4, 5, 6, 7, 3), [], size=2) == ((4, 5, 6, 7, 3), (4, 5, 6, 3))


@given(queries=SIZES, keys=SIZES, seed=st.integers(0, 99))
def test_to_words_rows_sum_to_1(queries: list[int], keys: list[int], seed: int) -> None:
    tokens = np.random.default_rng(seed).random((2, 3, sum(queries), sum(keys)), dtype=np.float32)
    tokens /= tokens.sum(axis=-1, keepdims=True)
    together = to_words(tokens, words(*queries), words(*keys))
    assert together.shape == (2, 3, len(queries), len(keys))
    assert_near(together.sum(axis=-1), 1)


@given(st.integers(1, 3), st.integers(1, 7), st.integers(0, 99))
def test_rollout_rows_sum_to_1(layers: int, size: int, seed: int) -> None:
    """And nothing comes from the future if no layer looks there."""
    scores = np.random.default_rng(seed).random((layers, size, size))
    causal = np.tril(scores).astype(np.float32)
    rolled = rollout(causal / causal.sum(axis=-1, keepdims=True))
    assert_near(rolled.sum(axis=-1), 1)
    assert (np.triu(rolled, 1) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_uses_value_norms_of_the_kind(trace: Trace, kind: Kind) -> None:
    assert weights_of(trace, kind) is trace.attention[kind]
    norms = {kind: np.ones_like(norms) for kind, norms in trace.value_norms.items()}
    factors = np.arange(norms[kind].shape[-1])
    norms[kind][1, 2] = factors  # of layer 1, head 2
    shares = weights_of(replace(trace, value_norms=norms), kind, "value norm")
    assert_near(shares[0], trace.attention[kind][0])
    lengths = trace.attention[kind][1, 2] * factors
    sums = lengths.sum(axis=-1, keepdims=True)
    assert_near(shares[1, 2], lengths / np.where(sums > 0, sums, 1), dtype=np.float32)


@given(st.integers(3, 40), st.lists(st.integers(1, 40), max_size=6))
def test_all_lengths_differ(length: int, others: list[int]) -> None:
    batch = batch_of_lengths(ids(length), [ids(n) for n in others])
    assert len({len(row) for row in batch}) == len(batch) == 3
