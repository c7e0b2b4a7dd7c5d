from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.config import TrainingConfig
from model.data import (
    Batches,
    DataError,
    Examples,
    Pair,
    bucketed,
    encode_pairs,
    first_distinct,
    pad,
    references_by_source,
    shuffled,
    sorted_batches,
)
from model.tokenizer import Tokenizer, TokenizerPair, WordTokenizer

# The first so many

FEW = [
    Pair("a", "b"),
    Pair("", "b"),
    Pair("a", "c"),
    Pair("b", ""),
    Pair("b", "b"),
    Pair("a b c", "a"),  # 4 pieces with </s>
    Pair("a b", "a b"),  # 4 pieces with <s> and </s>
    Pair("a, b.", "a"),  # 5 pieces
    Pair("B", "a b c"),  # 5 pieces
    Pair("A", "a"),
]


@pytest.mark.parametrize(
    ("max_pieces", "kept"),
    [(3, [0, 4, 9]), (4, [0, 4, 5, 6, 9]), (5, [0, 4, 5, 6, 7, 8, 9])],
)
def test_the_first_pairs_with_distinct_sources(max_pieces: int, kept: list[int]) -> None:
    for count in range(1, len(kept) + 1):
        pairs = first_distinct(FEW, count, max_pieces=max_pieces)
        assert pairs == [FEW[index] for index in kept[:count]]


def test_what_is_taken_fits_the_word_tokenizer() -> None:
    """All of it is kept when it is encoded for the same length."""
    tokenizer = WordTokenizer.train(["a"], 5)
    pairs = first_distinct(FEW, 5, max_pieces=4)
    examples = encode_pairs(pairs, TokenizerPair(tokenizer, tokenizer), max_pieces=4)
    assert examples.pairs == pairs


def test_fewer_pairs_than_wanted_are_refused() -> None:
    message = "expected 1,000 pairs with distinct sources of at most 4 pieces, got 5; ask for fewer"
    with pytest.raises(DataError, match=message):
        first_distinct(FEW, 1_000, max_pieces=4)


# Encoding


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    inner = Tokenizer.train(["a b c d"], 360)
    return TokenizerPair(inner, inner)


def test_what_is_dropped_is_counted(tokenizers: TokenizerPair) -> None:
    pairs = [
        Pair("a", "b"),
        Pair("", "b"),
        Pair("a", ""),
        Pair("a", "b"),
        Pair("a", "c"),
        Pair("b", "b"),
        Pair("a b c d", "a"),  # 5 pieces with </s>
        Pair("a b c", "a b"),  # 4 and 4
        Pair("a", "a b c"),  # 5 pieces with <s> and </s>
    ]
    examples = encode_pairs(pairs, tokenizers, max_pieces=4)

    kept = [pairs[0], pairs[4], pairs[5], pairs[7]]
    assert examples.sources == [tokenizers.encode_source(pair.source) for pair in kept]
    assert examples.targets == [tokenizers.encode_target(pair.target) for pair in kept]
    assert examples.pairs == kept
    assert (examples.read, examples.empty, examples.duplicates, examples.too_long) == (9, 2, 1, 2)
    assert examples.report == (
        "4 pairs kept of 9; dropped: 2 with an empty side, 1 exact duplicates, 2 too long"
    )


@pytest.mark.parametrize("pairs", [[], [Pair("a", "")], [Pair("a b c d", "a")]])
def test_nothing_left_is_refused(tokenizers: TokenizerPair, pairs: list[Pair]) -> None:
    with pytest.raises(DataError, match=f"no pair is left: 0 pairs kept of {len(pairs)};"):
        encode_pairs(pairs, tokenizers, max_pieces=4)


# Batches

Rows = list[list[int]]
examples = st.lists(st.tuples(st.integers(1, 13), st.integers(2, 13)), min_size=1, max_size=40).map(
    lambda sizes: ([[5] * n for n, _ in sizes], [[5] * n for _, n in sizes])
)


@given(examples, st.integers(1, 40), st.integers(0, 3))
def test_an_epoch_has_every_example_once(rows: tuple[Rows, Rows], tokens: int, epoch: int) -> None:
    batches = bucketed(*rows, batch_tokens=tokens, seed=7, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(rows[0])))


@given(examples, st.integers(1, 40))
def test_batches_keep_to_their_budget(rows: tuple[Rows, Rows], tokens: int) -> None:
    """Padding included; the decoder consumes, and predicts, one piece less than a target has."""
    for batch in bucketed(*rows, batch_tokens=tokens, seed=7, epoch=0):
        padded = len(batch) * (max(len(rows[1][index]) for index in batch) - 1)
        assert padded <= tokens or len(batch) == 1


@given(examples, st.integers(1, 40))
def test_every_epoch_has_as_many_batches(rows: tuple[Rows, Rows], tokens: int) -> None:
    counts = {
        len(bucketed(*rows, batch_tokens=tokens, seed=seed, epoch=epoch))
        for seed in (0, 7)
        for epoch in range(4)
    }
    assert len(counts) == 1


@given(examples, st.integers(1, 40))
def test_lengths_in_a_batch_are_similar(rows: tuple[Rows, Rows], tokens: int) -> None:
    """Batches ordered by length do not overlap."""
    batches = bucketed(*rows, batch_tokens=tokens, seed=7, epoch=0)
    spans = sorted(
        (min(len(rows[1][i]) for i in batch), max(len(rows[1][i]) for i in batch))
        for batch in batches
    )
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_seed_and_epoch_decide_the_order() -> None:
    rows = [[5] * 3] * 50, [[5] * 4] * 50

    def order(seed: int, epoch: int) -> list[list[int]]:
        return bucketed(*rows, batch_tokens=12, seed=seed, epoch=epoch)

    assert order(7, 2) == order(7, 2)
    assert order(7, 2) != order(7, 3)
    assert order(7, 2) != order(8, 2)
    together = [{frozenset(batch) for batch in order(7, epoch)} for epoch in (2, 3)]
    assert together[0] != together[1]


def test_batches_are_not_in_order_of_length() -> None:
    rows = [[5]] * 30, [[5] * n for n in range(2, 32)]
    lengths = [len(rows[1][batch[0]]) for batch in bucketed(*rows, batch_tokens=1, seed=7, epoch=0)]
    assert lengths != sorted(lengths)


@given(st.integers(1, 40), st.integers(1, 13), st.integers(0, 3))
def test_shuffled_batches_have_every_example_once(size: int, batch: int, epoch: int) -> None:
    batches = shuffled(size, batch_pairs=batch, seed=7, epoch=epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(size))
    assert all(len(rows) == batch for rows in batches[:-1])
    assert 1 <= len(batches[-1]) <= batch


def test_seed_and_epoch_decide_how_batches_are_shuffled() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return shuffled(50, batch_pairs=8, seed=seed, epoch=epoch)

    assert order(7, 2) == order(7, 2)
    orders = [order(7, 2), order(7, 3), order(8, 2)]
    together = [{frozenset(batch) for batch in batches} for batches in orders]
    assert together[0] != together[1] != together[2] != together[0]
    assert [index for batch in orders[0] for index in batch] != list(range(50))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_processes_share_the_rows_of_each_batch(count: int) -> None:
    """All rows once, whatever the number of processes; who has none stands in, and counts for 0."""
    rows = [[5 + row] * (2 + row % 3) for row in range(11)]
    examples = Examples([], rows, rows, 11, 0, 0, 0)
    batches = Batches(examples, TrainingConfig(batch_pairs=4, seed=7))
    for number in range(7):  # two epochs of three batches, the last of each smaller
        whole = batches.shard(number)
        shards = [batches.shard(number, index=index, count=count) for index in range(count)]
        counted = [
            [id for id in row if id]
            for shard in shards
            for row in shard.target.tolist()
            if shard.weight
        ]
        assert sorted(counted) == sorted([id for id in row if id] for row in whole.target.tolist())
        assert len(counted) == (3 if number % 3 == 2 else 4)
        assert all(len(shard.source) and len(shard.source) == len(shard.target) for shard in shards)
        assert {shard.pieces for shard in shards} == {sum(len(row) - 1 for row in counted)}
        sizes = [len(shard.target) * int(shard.weight) for shard in shards]
        assert max(sizes) - min(sizes) <= 1


def test_a_shard_is_only_as_wide_as_it_needs() -> None:
    rows = [[5] * 9, [6] * 3]
    batches = Batches(Examples([], rows, rows, 2, 0, 0, 0), TrainingConfig(batch_pairs=2))
    widths = [batches.shard(0, index=index, count=2).target.shape[1] for index in (0, 1)]
    assert sorted(widths) == [3, 9]
    assert batches.shard(0).target.shape == (2, 9)


def test_rows_are_padded_on_the_right() -> None:
    assert pad([[5, 6, 7], [8]]).tolist() == [[5, 6, 7], [8, 0, 0]]


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_sorted_batches_are_longest_first(lengths: list[int], size: int) -> None:
    batches = list(sorted_batches([[5] * n for n in lengths], size))
    order = [index for batch in batches for index in batch]
    assert sorted(order) == list(range(len(lengths)))
    assert [lengths[index] for index in order] == sorted(lengths, reverse=True)
    assert all(len(batch) == size for batch in batches[:-1])
    assert not batches or 1 <= len(batches[-1]) <= size


def test_references_are_gathered_by_source() -> None:
    pairs = [Pair("b", "1"), Pair("a", "2"), Pair("b", "3")]
    references = references_by_source(pairs)
    assert list(references.items()) == [("b", ["1", "3"]), ("a", ["2"])]
