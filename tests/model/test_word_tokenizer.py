from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.tokenizer import (
    SPECIAL_TOKENS,
    Tokenizer,
    TokenizerKind,
    TokenizerPair,
    WordSpan,
    WordTokenizer,
    count_words,
)

TEXTS = [
    "Don't worry, it's the cat.",
    "The cats don't see the dog!",
    "¿Dónde está el niño? (¡Aquí!)",
    "The <s> of </s>, <pad> and <unk>.",
]

# All but lone surrogates, and what Python alone takes for spaces.
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x1c\x1d\x1e\x1f"))
_AWKWARD = ["'", "¿", " ", "\n", "the", "CAT", "está", "e\u0301", "你"]
awkward = st.lists(st.sampled_from([*SPECIAL_TOKENS, *_AWKWARD])).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer.train(TEXTS, 100)


def tokens(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(tokenizer.vocab_size))


def decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The CAT", ["the", "cat"]),
        ("DON'T!", ["don", "'", "t", "!"]),
        (" the\n\n  cat\u00a0,.", ["the", "cat", ",", "."]),
        ("¿DÓNDE ESTÁ EL NIÑO?", ["¿", "dónde", "está", "el", "niño", "?"]),
        (decomposed("¿Dónde está?"), ["¿", "dónde", "está", "?"]),
        ("the.cat", ["the", ".", "cat"]),
        ("the zebra's cat", ["the", "<unk>", "'", "s", "cat"]),
        ("catdog 你 €", ["<unk>", "<unk>", "<unk>"]),
        # What is typed is marks and letters, even <unk>, whose parts are in the vocabulary here.
        ("<s></s><UNK>", ["<", "s", ">", "<", "/", "s", ">", "<", "unk", ">"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_a_text_is_lower_case_words_and_marks(
    tokenizer: WordTokenizer, text: str, expected: list[str]
) -> None:
    assert tokenizer.tokens(tokenizer.encode(text)) == expected


@given(text | awkward)
@example("</s>")
@example("<S><PAD>")
@example("e\u0301 Zée\u0301b")
def test_every_word_is_an_id_and_unknown_ones_are_named(
    tokenizer: WordTokenizer, text: str
) -> None:
    ids = tokenizer.encode(text)
    assert not {PAD, BOS, EOS} & set(ids)
    assert count_words(text) == len(ids)
    assert tokenizer.words(ids) == [WordSpan(index, index + 1) for index in range(len(ids))]
    named = tokenizer.unknown(text)
    assert len(named) == ids.count(UNK)
    assert all(word in text and not word.isspace() for word in named)


def test_unknown_words_are_named_as_they_were_written(tokenizer: WordTokenizer) -> None:
    assert tokenizer.unknown("The Zebra sees the €, zebra.") == ["Zebra", "sees", "€", "zebra"]
    assert tokenizer.unknown("The cat.") == []
    assert tokenizer.unknown(decomposed("el ratón está")) == [decomposed("ratón")]


# Writing it again

MARKS = WordTokenizer.train(
    ["a b l 5 don t s ll ve . , ; : ! ? % … ) ] } » ” ¿ ¡ ( [ { « “ ' ’ - $"], 100
)


@pytest.mark.parametrize(
    "text",
    [
        *("a b", "a, b; a: b.", "a! b? a… 5% b.", "¿a? ¡b! ¡a b!", "(a) [b] {a} «b» “a b”"),
        *("a (b, a).", "don't", "b’s a'll a've", "a ' b ' a", "a - b $ a", ""),
    ],
)
def test_decoded_marks_have_the_spacing_of_written_text(text: str) -> None:
    assert MARKS.decode(MARKS.encode(text)) == text


def test_unknown_words_are_shown_and_other_special_tokens_are_not(tokenizer: WordTokenizer) -> None:
    ids = [BOS, *tokenizer.encode("The zebra, the cat."), EOS, PAD]
    assert tokenizer.decode(ids) == "the <unk>, the cat."
    assert tokenizer.decode([BOS, EOS]) == ""


# Vocabularies


@pytest.mark.parametrize("size", [5, 6, 7, 8, 10_000])
def test_the_most_frequent_words_come_first(size: int) -> None:
    """Upper and lower case are one word; words of equal frequency are in alphabetical order."""
    tokenizer = WordTokenizer.train(["b A a, c", "B d b a, a"], size)
    assert tokens(tokenizer) == [*SPECIAL_TOKENS, "a", "b", ",", "c", "d"][:size]


def test_composed_and_decomposed_texts_teach_the_same(tokenizer: WordTokenizer) -> None:
    assert WordTokenizer.train(map(decomposed, TEXTS), 100).to_text() == tokenizer.to_text()


def test_another_process_learns_the_same(tokenizer: WordTokenizer) -> None:
    """Words of equal frequency keep their order, whatever the hash seed of the process."""
    program = (
        "import sys; from headwise.model.tokenizer import WordTokenizer;"
        "sys.stdout.buffer.write(WordTokenizer.train(sys.argv[1:], 100).to_text().encode())"
    )
    command = [sys.executable, "-c", program, *TEXTS]
    finished = subprocess.run(command, capture_output=True, check=True)
    assert finished.stdout.decode() == tokenizer.to_text()


# Pairs

PAIRS = [("The cat", "el gato"), ("a dog", "un perro"), ("the dog", "el perro")]


def test_two_languages_have_separate_vocabularies_or_a_shared_one() -> None:
    pair = TokenizerPair.train(PAIRS, kind="word", vocab_sizes=(6, 100), shared=False)
    assert not pair.shared
    assert tokens(pair.source) == [*SPECIAL_TOKENS, "dog", "the"]
    assert tokens(pair.target) == [*SPECIAL_TOKENS, "el", "perro", "gato", "un"]
    assert pair.encode_source("The perro") == [5, UNK, EOS]
    assert pair.encode_target("el dog") == [BOS, 4, UNK, EOS]
    both = TokenizerPair.train(PAIRS, kind="word", vocab_sizes=(9, 100), shared=True)
    assert both.shared
    assert tokens(both.source) == [*SPECIAL_TOKENS, "dog", "el", "perro", "the", "a"]


@pytest.mark.parametrize(
    ("kind", "type_", "least"), [("bpe", Tokenizer, 260), ("word", WordTokenizer, 4)]
)
def test_a_pair_has_the_given_kind_and_vocabularies_that_are_large_enough(
    kind: TokenizerKind, type_: type[Tokenizer], least: int
) -> None:
    for shared in (False, True):
        pair = TokenizerPair.train(PAIRS, kind=kind, vocab_sizes=(300, 301), shared=shared)
        assert [type(side) for side in (pair.source, pair.target)] == [type_, type_]
    with pytest.raises(ValueError, match=f"vocab_size: expected more than {least}, got {least}"):
        TokenizerPair.train(PAIRS, kind=kind, vocab_sizes=(400, least), shared=False)
