from __future__ import annotations

import pytest

from headwise.model.tokenizer import Tokenizer, TokenizerPair, WordTokenizer
from headwise.model.training.data import (
    DataError,
    Pair,
    bare,
    encode_pairs,
    first_distinct,
    references_by_source,
    without_texts,
)

# The first so many

FEW = [
    Pair("a", "b"),
    Pair("", "b"),
    Pair("a", "c"),
    Pair("b", ""),
    Pair("b", "b"),
    Pair("a b c", "a"),  # 4 tokens with </s>
    Pair("a b", "a b"),  # 4 tokens with <s> and </s>
    Pair("a, b.", "a"),  # 5 tokens
    Pair("B", "a b c"),  # 5 tokens
    Pair("A", "a"),
]


@pytest.mark.parametrize(
    ("max_tokens", "kept"),
    [(3, [0, 4, 9]), (4, [0, 4, 5, 6, 9]), (5, [0, 4, 5, 6, 7, 8, 9])],
)
def test_the_first_pairs_with_distinct_sources(max_tokens: int, kept: list[int]) -> None:
    for count in range(1, len(kept) + 1):
        pairs = first_distinct(FEW, count, max_tokens=max_tokens)
        assert pairs == [FEW[index] for index in kept[:count]]


def test_first_distinct_pairs_fit_the_word_tokenizer() -> None:
    """All pairs are kept when they are encoded with the same max_tokens."""
    tokenizer = WordTokenizer.train(["a"], 5)
    pairs = first_distinct(FEW, 5, max_tokens=4)
    examples = encode_pairs(pairs, TokenizerPair(tokenizer, tokenizer), max_tokens=4)
    assert examples.pairs == pairs


def test_fewer_pairs_than_wanted_are_refused() -> None:
    message = "expected 1,000 pairs with distinct sources of at most 4 tokens, got 5; ask for fewer"
    with pytest.raises(DataError, match=message):
        first_distinct(FEW, 1_000, max_tokens=4)


# Texts that must not be seen


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("¿Qué?  ", "que"),
        ("It's  7:30, Tom!", "it s 7 30 tom"),
        ("ES UN NIÑO_TRISTE", "es un nino triste"),
        ("STRASSE, straße", "strasse strasse"),
        ("—…!", ""),
        ("これは 本。", "これは 本"),
    ],
)
def test_a_bare_text_has_letters_and_digits_alone(text: str, plain: str) -> None:
    assert bare(text) == plain


def test_pairs_are_left_out_for_either_side_and_in_any_spelling() -> None:
    pairs = [
        Pair("I saw it.", "Lo vi."),
        Pair("No!", "¡No!"),
        Pair("Who?", "¿Quien?"),
        Pair("!", "?"),
        Pair("I saw it there.", "Lo vi allí."),
    ]
    assert without_texts(pairs, ["i SAW it", "¡quién!", "…"]) == [pairs[1], pairs[3], pairs[4]]
    assert without_texts(pairs, []) == pairs


# Encoding


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    inner = Tokenizer.train(["a b c d"], 360)
    return TokenizerPair(inner, inner)


def test_dropped_pairs_are_counted(tokenizers: TokenizerPair) -> None:
    pairs = [
        Pair("a", "b"),
        Pair("", "b"),
        Pair("a", ""),
        Pair("a", "b"),
        Pair("a", "c"),
        Pair("b", "b"),
        Pair("a b c d", "a"),  # 5 tokens with </s>
        Pair("a b c", "a b"),  # 4 and 4
        Pair("a", "a b c"),  # 5 tokens with <s> and </s>
    ]
    examples = encode_pairs(pairs, tokenizers, max_tokens=4)

    kept = [pairs[0], pairs[4], pairs[5], pairs[7]]
    assert examples.sources == [tokenizers.encode_source(pair.source) for pair in kept]
    assert examples.targets == [tokenizers.encode_target(pair.target) for pair in kept]
    assert examples.pairs == kept
    assert (examples.read, examples.empty, examples.duplicates, examples.too_long) == (9, 2, 1, 2)
    assert examples.report == (
        "4 pairs kept of 9; dropped: 2 with an empty side, 1 exact duplicates, 2 too long"
    )


@pytest.mark.parametrize("pairs", [[], [Pair("a", "")], [Pair("a b c d", "a")]])
def test_data_without_usable_pairs_is_refused(tokenizers: TokenizerPair, pairs: list[Pair]) -> None:
    with pytest.raises(DataError, match=f"no pair is left: 0 pairs kept of {len(pairs)};"):
        encode_pairs(pairs, tokenizers, max_tokens=4)


def test_references_are_gathered_by_source() -> None:
    pairs = [Pair("b", "1"), Pair("a", "2"), Pair("b", "3")]
    references = references_by_source(pairs)
    assert list(references.items()) == [("b", ["1", "3"]), ("a", ["2"])]
