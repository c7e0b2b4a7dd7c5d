from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.model.config import BOS, EOS, TrainingConfig
from headwise.model.tokenizer import Tokenizer, TokenizerPair
from headwise.model.training.augmentation import MOST_JOINED, Augmentation, BpeDropout, join_pairs
from headwise.model.training.data import Encoded, Pair, encode_pairs

Rows = list[list[int]]

PAIRS = [
    Pair("Anna has a dog.", "Anna tiene un perro."),
    Pair("No, thanks.", "No, gracias."),
    Pair("Anna is 12.", "Anna tiene 12 años."),
    Pair("no, a dog", "no, un perro"),
]
ALL = {"join": 0.5, "replace": 0.5, "address": 0.5, "bpe_dropout": 0.2}


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    inner = Tokenizer.train(["Anna has a dog. ¿Qué? 12", *map(" ".join, PAIRS)], 420)
    return TokenizerPair(inner, inner)


# Joined pairs


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


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=40),
    st.floats(0, 1),
    st.integers(4, 40),
    st.integers(0, 99),
)
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
        lengths = zip(first, second, strict=True)
        seen += [(number, length, other) for (number, length), (_, other) in lengths]
    assert sorted(seen) == [(10 + index, *size) for index, size in enumerate(sizes)]


def test_the_probability_is_of_a_joined_pair_and_two_to_eight_are_alike_often() -> None:
    def counts(probability: float) -> list[int]:
        sources, _ = join_pairs(
            *numbered([(1, 1)] * 5_000),
            probability=probability,
            max_tokens=100,
            generator=random.Random(7),
        )
        return [len(sentences(source)) for source in sources][:-1]  # the last may lack pairs

    assert set(counts(0.0)) == {1}
    some, joined = counts(0.3), counts(1.0)
    assert 0.25 < 1 - some.count(1) / len(some) < 0.35
    assert set(joined) == set(range(2, 9))
    assert all(0.1 < joined.count(number) / len(joined) < 0.19 for number in range(2, 9))


@given(st.lists(st.sampled_from(["Anna has a dog.", "¿Qué?", "12", "a", "No."]), min_size=2))
def test_joined_ids_are_those_of_joined_text(tokenizers: TokenizerPair, texts: list[str]) -> None:
    sources, targets = join_pairs(
        [tokenizers.encode_source(text) for text in texts],
        [tokenizers.encode_target(text) for text in texts],
        probability=1.0,
        max_tokens=1_000,
        generator=random.Random(7),
    )
    for source, target in zip(sources, targets, strict=True):
        text = tokenizers.source.decode(source)
        assert tokenizers.encode_source(text) == source
        assert tokenizers.encode_target(text) == target


# Merges left out


@given(
    text=st.text(st.characters(exclude_categories=("Cs",)))
    | st.text(st.sampled_from("the catsonmDá¿?.é 1漢")),
    probability=st.floats(0, 0.99),
    seed=st.integers(0, 99),
)
def test_any_split_has_the_text_and_follows_from_the_seed(
    tokenizers: TokenizerPair, text: str, probability: float, seed: int
) -> None:
    tokenizer = tokenizers.source
    assert BpeDropout(tokenizer, 0.0).encode(text, random.Random(0)) == tokenizer.encode(text)
    dropout = BpeDropout(tokenizer, probability)
    ids = dropout.encode(text, random.Random(seed))
    assert tokenizer.decode(ids) == text
    assert dropout.encode(text, random.Random(seed)) == ids


def test_each_merge_is_left_out_with_the_probability_given() -> None:
    """Of "ab" with the merges " a" and " ab", worked by hand with q = 1 - p.

    The first merge is left out with p: then " ", "a", "b" stay, as no other is possible. After it,
    the second is left out with p. Of "abab", the merge of a and b is possible at two places, each
    with a draw of its own at every step.
    """
    tokenizer = Tokenizer.train(["ab"] * 9, 360)
    assert tokenizer.merges == [(" ", "a"), (" a", "b")]
    dropout, generator, times = BpeDropout(tokenizer, 0.3), random.Random(0), 20_000
    splits = Counter(tuple(tokenizer.tokens(dropout.encode("ab", generator))) for _ in range(times))
    expected = {(" ", "a", "b"): 0.3, (" a", "b"): 0.7 * 0.3, (" ab",): 0.7 * 0.7}
    assert set(splits) == set(expected)
    for split, share in expected.items():  # four standard errors of a share
        bound = 4 * (share * (1 - share) / times) ** 0.5
        assert abs(splits[split] / times - share) < bound, split

    tokenizer = Tokenizer.train(["abab"] * 9, 360)
    assert tokenizer.merges[0] == ("a", "b")
    dropout = BpeDropout(tokenizer, 0.5)
    found = {tuple(tokenizer.tokens(dropout.encode("abab", generator))) for _ in range(500)}
    assert {(" ", "a", "b", "ab"), (" ", "ab", "a", "b")} <= found


# Epochs


def augmented(
    tokenizers: TokenizerPair, epoch: int, *, max_tokens: int = 100, **changes: float
) -> Encoded:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    config = TrainingConfig(seed=7, **changes)
    return Augmentation(
        examples, tokenizers, languages=("en", "es"), config=config, max_tokens=max_tokens
    )(epoch)


@pytest.fixture(scope="module")
def plain(tokenizers: TokenizerPair) -> tuple[Rows, Rows]:
    examples = encode_pairs(PAIRS, tokenizers, max_tokens=100)
    return examples.sources, examples.targets


@pytest.mark.parametrize("changes", [*({name: value} for name, value in ALL.items()), ALL], ids=str)
def test_an_epoch_depends_only_on_its_number_and_the_seed(
    tokenizers: TokenizerPair, plain: tuple[Rows, Rows], changes: dict[str, float]
) -> None:
    """The first epochs can be left as they are, and are without the options."""
    epochs = [augmented(tokenizers, epoch, **changes) for epoch in range(10)]
    assert epochs == [augmented(tokenizers, epoch, **changes) for epoch in range(10)]
    assert len({str(epoch) for epoch in epochs}) > 5
    begun = [augmented(tokenizers, epoch, plain_epochs=2, **changes) for epoch in range(3)]
    assert begun == [plain, plain, epochs[2]]
    assert augmented(tokenizers, 2) == plain


def test_names_and_numbers_are_replaced_and_pairs_without_address_somebody(
    tokenizers: TokenizerPair, plain: tuple[Rows, Rows]
) -> None:
    def texts(found: Encoded, index: int) -> tuple[str, ...]:
        return tuple(tokenizers.source.decode(side[index]) for side in found)

    found = augmented(tokenizers, 0, replace=1.0)
    assert [side[1] for side in found] == [side[1] for side in plain]
    source, target = texts(found, 0)
    name = source.removesuffix(" has a dog.")
    assert name not in ("Anna", source)
    assert target == f"{name} tiene un perro."
    assert texts(found, 2)[0] != PAIRS[2].source

    found = augmented(tokenizers, 0, address=1.0)
    for index in (0, 2):
        assert [side[index] for side in found] == [side[index] for side in plain]
    for index, (first, second) in ((1, ("no, thanks.", "no, gracias.")), (3, PAIRS[3])):
        source, target = texts(found, index)
        name = source.removesuffix(f", {first}")
        assert name not in ("", source)
        assert target == f"{name}, {second}"


def test_a_pair_that_would_become_too_long_is_not_changed(
    tokenizers: TokenizerPair, plain: tuple[Rows, Rows]
) -> None:
    longest = max(map(len, [*plain[0], *plain[1]]))
    changes = {"join": 0.5, "replace": 1.0, "address": 1.0, "bpe_dropout": 0.3}
    for epoch in range(20):
        sources, targets = augmented(tokenizers, epoch, max_tokens=longest, **changes)
        assert max(map(len, [*sources, *targets])) <= longest
