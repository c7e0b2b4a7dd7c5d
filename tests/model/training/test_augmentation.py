from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.config import BOS, EOS, TrainingConfig
from headwise.model.tokenizer import Tokenizer, TokenizerPair
from headwise.model.training.augmentation import MOST_JOINED, Augmentation, join_pairs
from headwise.model.training.batches import Encoded
from headwise.model.training.data import Pair, encode_pairs

Rows = list[list[int]]

lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40)


def numbered(sizes: list[tuple[int, int]]) -> tuple[Rows, Rows]:
    """Make sentences of these lengths; each repeats its own number, the same on both sides."""
    sources = [[10 + index] * length + [EOS] for index, (length, _) in enumerate(sizes)]
    targets = [[BOS, *[10 + index] * length, EOS] for index, (_, length) in enumerate(sizes)]
    return sources, targets


def sentences(row: list[int]) -> list[tuple[int, int]]:
    """Return the numbers of a row in their order, and how often each occurs."""
    ids = [id for id in row if id > EOS]
    starts = [0, *(i for i in range(1, len(ids)) if ids[i] != ids[i - 1]), len(ids)]
    return [(ids[start], stop - start) for start, stop in pairwise(starts)]


@given(lengths, st.floats(0, 1), st.integers(4, 40), st.integers(0, 99))
def test_joined_pairs_agree_in_order_and_number(
    sizes: list[tuple[int, int]], probability: float, max_tokens: int, seed: int
) -> None:
    sources, targets = join_pairs(
        *numbered(sizes),
        probability=probability,
        max_tokens=max_tokens,
        generator=random.Random(seed),
    )
    seen = []
    for source, target in zip(sources, targets, strict=True):
        first, second = sentences(source), sentences(target)
        assert [number for number, _ in first] == [number for number, _ in second]
        assert source.count(EOS) == target.count(EOS) == target.count(BOS) == 1
        assert (source[-1], target[0], target[-1]) == (EOS, BOS, EOS)
        assert len(first) <= MOST_JOINED
        assert len(first) == 1 or max(len(source), len(target)) <= max_tokens
        seen += [
            (number, length, other)
            for (number, length), (_, other) in zip(first, second, strict=True)
        ]
    assert sorted(seen) == [(10 + index, *size) for index, size in enumerate(sizes)]


def counts(probability: float) -> list[int]:
    sources, _ = join_pairs(
        *numbered([(1, 1)] * 5_000),
        probability=probability,
        max_tokens=100,
        generator=random.Random(7),
    )
    return [len(sentences(source)) for source in sources]


def test_two_to_eight_pairs_are_joined_alike_often() -> None:
    found = counts(1.0)[:-1]  # of the last, fewer pairs may be left
    assert all(0.1 < found.count(number) / len(found) < 0.19 for number in range(2, 9))
    assert set(found) == set(range(2, 9))


def test_the_probability_is_of_a_joined_pair_among_all() -> None:
    assert set(counts(0.0)) == {1}
    found = counts(0.3)
    assert 0.25 < 1 - found.count(1) / len(found) < 0.35


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    inner = Tokenizer.train(["Anna has a dog. ¿Qué? 12", *map(" ".join, PAIRS)], 420)
    return TokenizerPair(inner, inner)


@given(st.lists(st.sampled_from(["Anna has a dog.", "¿Qué?", "12", "a", "No."]), min_size=2))
def test_joined_ids_are_those_of_the_joined_text(
    tokenizers: TokenizerPair, texts: list[str]
) -> None:
    rows = [tokenizers.encode_source(text) for text in texts]
    targets = [tokenizers.encode_target(text) for text in texts]
    sources, joint_targets = join_pairs(
        rows, targets, probability=1.0, max_tokens=1_000, generator=random.Random(7)
    )
    order = list(range(len(texts)))
    random.Random(7).shuffle(order)
    for source, target in zip(sources, joint_targets, strict=True):
        text = tokenizers.source.decode(source)
        assert tokenizers.encode_source(text) == source
        assert tokenizers.encode_target(text) == target


PAIRS = [
    Pair("Anna has a dog.", "Anna tiene un perro."),
    Pair("No, thanks.", "No, gracias."),
    Pair("Anna is 12.", "Anna tiene 12 años."),
    Pair("no, a dog", "no, un perro"),
]


def augmented(
    tokenizers: TokenizerPair, epoch: int, *, max_tokens: int = 100, **changes: float
) -> Encoded:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    config = TrainingConfig(seed=7, **changes)
    return Augmentation(
        examples, tokenizers, languages=("en", "es"), config=config, max_tokens=max_tokens
    )(epoch)


def test_without_the_options_examples_stay_as_they_are(tokenizers: TokenizerPair) -> None:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    for epoch in range(3):
        assert augmented(tokenizers, epoch) == (examples.sources, examples.targets)


@pytest.mark.parametrize(
    "changes",
    [
        {"join": 0.5},
        {"replace": 0.5},
        {"address": 0.5},
        {"bpe_dropout": 0.2},
        {"join": 0.5, "replace": 0.5, "address": 0.5, "bpe_dropout": 0.2},
    ],
)
def test_an_epoch_depends_only_on_its_number_and_the_seed(
    tokenizers: TokenizerPair, changes: dict[str, float]
) -> None:
    epochs = [augmented(tokenizers, epoch, **changes) for epoch in range(10)]
    assert epochs == [augmented(tokenizers, epoch, **changes) for epoch in range(10)]
    assert len({str(epoch) for epoch in epochs}) > 5


def test_the_first_epochs_can_be_left_as_they_are(tokenizers: TokenizerPair) -> None:
    changes = {"join": 1.0, "replace": 1.0, "address": 1.0, "bpe_dropout": 0.3}
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    for epoch in range(2):
        plain = augmented(tokenizers, epoch, plain_epochs=2, **changes)
        assert plain == (examples.sources, examples.targets)
    assert augmented(tokenizers, 2, plain_epochs=2, **changes) == augmented(
        tokenizers, 2, **changes
    )


def test_only_names_and_numbers_are_replaced(tokenizers: TokenizerPair) -> None:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    sources, targets = augmented(tokenizers, 0, replace=1.0)
    assert (sources[1], targets[1]) == (examples.sources[1], examples.targets[1])
    texts = [tokenizers.source.decode(row) for row in (sources[0], targets[0])]
    name = texts[0].removesuffix(" has a dog.")
    assert texts == [f"{name} has a dog.", f"{name} tiene un perro."]
    assert name != "Anna"
    assert tokenizers.source.decode(sources[2]) != PAIRS[2].source


def test_only_pairs_without_names_and_numbers_address_somebody(tokenizers: TokenizerPair) -> None:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    sources, targets = augmented(tokenizers, 0, address=1.0)
    for index in (0, 2):
        assert (sources[index], targets[index]) == (
            examples.sources[index],
            examples.targets[index],
        )
    for index, (first, second) in ((1, ("no, thanks.", "no, gracias.")), (3, PAIRS[3])):
        source, target = (tokenizers.source.decode(side[index]) for side in (sources, targets))
        name = source.removesuffix(f", {first}")
        assert (source, target) == (f"{name}, {first}", f"{name}, {second}")
        assert name


def test_pairs_with_merges_left_out_have_the_same_texts(tokenizers: TokenizerPair) -> None:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    sources, targets = augmented(tokenizers, 0, bpe_dropout=0.5)
    assert (sources, targets) != (examples.sources, examples.targets)
    for pair, source, target in zip(PAIRS, sources, targets, strict=True):
        assert (source[-1], target[0], target[-1]) == (EOS, BOS, EOS)
        assert Pair(*map(tokenizers.source.decode, (source, target))) == pair


def test_a_pair_that_would_become_too_long_is_not_changed(tokenizers: TokenizerPair) -> None:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    longest = max(map(len, [*examples.sources, *examples.targets]))
    changes = {"join": 0.5, "replace": 1.0, "address": 1.0, "bpe_dropout": 0.3}
    for epoch in range(20):
        sources, targets = augmented(tokenizers, epoch, max_tokens=longest, **changes)
        assert max(map(len, [*sources, *targets])) <= longest
