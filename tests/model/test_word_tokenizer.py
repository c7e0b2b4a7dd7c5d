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

text = st.text(st.characters(exclude_categories=["Cs"]))  # all but lone surrogates
awkward = (
    st.lists(
        st.sampled_from(
            [*SPECIAL_TOKENS, "'", "¿", " ", "\n", "the", "CAT", "está", "e\u0301", "你"]
        )
    )
).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> WordTokenizer:
    return WordTokenizer.train(TEXTS, 100)


def tokens(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.tokens(range(tokenizer.vocab_size))


# Words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The CAT", ["the", "cat"]),
        ("DON'T!", ["don", "'", "t", "!"]),
        (" the\n\n  cat\u00a0,.", ["the", "cat", ",", "."]),
        ("¿DÓNDE ESTÁ EL NIÑO?", ["¿", "dónde", "está", "el", "niño", "?"]),
        ("the.cat", ["the", ".", "cat"]),
        ("the zebra's cat", ["the", "<unk>", "'", "s", "cat"]),
        ("catdog 你 €", ["<unk>", "<unk>", "<unk>"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_a_text_is_lower_case_words_and_marks(
    tokenizer: WordTokenizer, text: str, expected: list[str]
) -> None:
    assert tokenizer.tokens(tokenizer.encode(text)) == expected


def test_composed_and_decomposed_accents_are_the_same(tokenizer: WordTokenizer) -> None:
    composed = "¿Dónde está el niño?"
    decomposed = unicodedata.normalize("NFD", composed)
    assert decomposed != composed
    assert tokenizer.encode(decomposed) == tokenizer.encode(composed)
    assert UNK not in tokenizer.encode(composed)
    again = WordTokenizer.train([unicodedata.normalize("NFD", text) for text in TEXTS], 100)
    assert again.to_text() == tokenizer.to_text()


@given(text | awkward)
@example("</s>")
@example("<S><PAD>")
def test_text_never_gives_special_ids_but_that_of_the_unknown(
    tokenizer: WordTokenizer, text: str
) -> None:
    assert not {PAD, BOS, EOS} & set(tokenizer.encode(text))


def test_typed_special_tokens_are_marks_and_letters(tokenizer: WordTokenizer) -> None:
    """Even ``<unk>``, whose parts are in the vocabulary here."""
    shown = tokenizer.tokens(tokenizer.encode("<s></s><UNK>"))
    assert shown == ["<", "s", ">", "<", "/", "s", ">", "<", "unk", ">"]


@given(text | awkward)
@example("e\u0301 Zée\u0301b")
def test_words_are_counted_as_they_are_encoded(tokenizer: WordTokenizer, text: str) -> None:
    assert count_words(text) == len(tokenizer.encode(text))


@given(text | awkward)
def test_every_unknown_word_is_named(tokenizer: WordTokenizer, text: str) -> None:
    named = tokenizer.unknown(text)
    assert len(named) == tokenizer.encode(text).count(UNK)
    assert all(word in text and not word.isspace() for word in named)


def test_unknown_words_are_named_as_they_were_written(tokenizer: WordTokenizer) -> None:
    assert tokenizer.unknown("The Zebra sees the €, zebra.") == ["Zebra", "sees", "€", "zebra"]
    assert tokenizer.unknown("The cat.") == []
    decomposed = unicodedata.normalize("NFD", "el ratón está")
    assert tokenizer.unknown(decomposed) == [unicodedata.normalize("NFD", "ratón")]


def test_tokens_of_bytes_know_every_word() -> None:
    assert Tokenizer.train(TEXTS, 300).unknown("zebra 你 <unk>") == []


def test_half_a_character_is_refused(tokenizer: WordTokenizer) -> None:
    for refuse in (tokenizer.encode, tokenizer.unknown):
        with pytest.raises(ValueError, match=r"character 2 of the text .* lone surrogate"):
            refuse("a\ud800")


@given(st.lists(st.integers(0, 20)))
def test_each_token_is_a_word(tokenizer: WordTokenizer, ids: list[int]) -> None:
    assert tokenizer.words(ids) == [WordSpan(index, index + 1) for index in range(len(ids))]


# Writing it again

MARKS = WordTokenizer.train(
    ["a b l 5 don t s ll ve . , ; : ! ? % … ) ] } » ” ¿ ¡ ( [ { « “ ' ’ - $"], 100
)


@pytest.mark.parametrize(
    "text",
    [
        "a b",
        "a, b; a: b.",
        "a! b? a… 5% b.",
        "¿a? ¡b! ¡a b!",
        "(a) [b] {a} «b» “a b”",
        "a (b, a).",
        "don't",
        "b’s a'll a've",
        "a ' b ' a",
        "",
    ],
)
def test_decoded_marks_have_the_spacing_of_written_text(text: str) -> None:
    assert MARKS.decode(MARKS.encode(text)) == text


def test_other_tokens_are_separated_by_spaces() -> None:
    assert MARKS.decode(MARKS.encode("a-b $a")) == "a - b $ a"


def test_unknown_words_are_shown_and_other_special_tokens_are_not(
    tokenizer: WordTokenizer,
) -> None:
    ids = [BOS, *tokenizer.encode("The zebra, the cat."), EOS, PAD]
    assert tokenizer.decode(ids) == "the <unk>, the cat."
    assert tokenizer.decode([BOS, EOS]) == ""


# Vocabularies


def test_special_ids_are_fixed(tokenizer: WordTokenizer) -> None:
    assert tokenizer.tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_a_vocabulary_has_every_word_once(tokenizer: WordTokenizer) -> None:
    learned = tokens(tokenizer)[len(SPECIAL_TOKENS) :]
    written = {token for text in TEXTS for token in tokenizer.tokens(tokenizer.encode(text))}
    assert len(set(learned)) == len(learned)
    assert set(learned) == written
    assert tokenizer.vocab_size == len(learned) + 4


@pytest.mark.parametrize("size", [5, 6, 7, 8])
def test_the_most_frequent_words_come_first(size: int) -> None:
    """Upper and lower case are one word; words of equal frequency are in alphabetical order."""
    tokenizer = WordTokenizer.train(["b A a, c", "B d b a, a"], size)
    assert tokens(tokenizer) == [*SPECIAL_TOKENS, "a", "b", ",", "c"][:size]


def test_a_vocabulary_may_stay_below_its_limit() -> None:
    assert WordTokenizer.train(["a b"], 10_000).vocab_size == 6


def test_another_process_learns_the_same(tokenizer: WordTokenizer) -> None:
    """Words of equal frequency keep their order, whatever the hash seed of the process."""
    program = (
        "import sys; from headwise.model.tokenizer import WordTokenizer;"
        "sys.stdout.buffer.write(WordTokenizer.train(sys.argv[1:], 100).to_text().encode())"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program, *TEXTS], capture_output=True, check=True
    )
    assert finished.stdout.decode() == tokenizer.to_text()


def test_a_word_tokenizer_is_known_when_read_again(tokenizer: WordTokenizer) -> None:
    again = Tokenizer.from_text(tokenizer.to_text())
    assert type(again) is WordTokenizer
    assert again.kind == "word"
    assert again.to_text() == tokenizer.to_text()
    assert again.encode("¿Zebra, NIÑO?") == tokenizer.encode("¿zebra, niño?")
    assert again.decode(again.encode("It's THE cat!")) == "it's the cat!"


def test_a_byte_pair_tokenizer_is_known_when_read_again() -> None:
    again = Tokenizer.from_text(Tokenizer.train(TEXTS, 300).to_text())
    assert type(again) is Tokenizer
    assert again.kind == "bpe"


# Pairs

PAIRS = [("The cat", "el gato"), ("a dog", "un perro"), ("the dog", "el perro")]


def test_two_languages_have_separate_vocabularies() -> None:
    pair = TokenizerPair.train(PAIRS, kind="word", vocab_sizes=(6, 100), shared=False)
    assert not pair.shared
    assert tokens(pair.source) == [*SPECIAL_TOKENS, "dog", "the"]
    assert tokens(pair.target) == [*SPECIAL_TOKENS, "el", "perro", "gato", "un"]
    assert pair.encode_source("The perro") == [5, UNK, EOS]
    assert pair.encode_target("el dog") == [BOS, 4, UNK, EOS]


def test_a_shared_vocabulary_has_the_words_of_both() -> None:
    pair = TokenizerPair.train(PAIRS, kind="word", vocab_sizes=(9, 100), shared=True)
    assert pair.shared
    assert tokens(pair.source) == [*SPECIAL_TOKENS, "dog", "el", "perro", "the", "a"]


@pytest.mark.parametrize(("kind", "type_"), [("bpe", Tokenizer), ("word", WordTokenizer)])
@pytest.mark.parametrize("shared", [False, True])
def test_a_pair_has_the_given_kind(
    kind: TokenizerKind, type_: type[Tokenizer], shared: bool
) -> None:
    pair = TokenizerPair.train(PAIRS, kind=kind, vocab_sizes=(300, 301), shared=shared)
    assert [type(side) for side in (pair.source, pair.target)] == [type_, type_]
    alone = [type_.train(side, 300 + n) for n, side in enumerate(zip(*PAIRS, strict=True))]
    both = type_.train([text for texts in PAIRS for text in texts], 300)
    expected = [both, both] if shared else alone
    assert [pair.source.to_text(), pair.target.to_text()] == [t.to_text() for t in expected]


@pytest.mark.parametrize(("kind", "least"), [("bpe", 260), ("word", 4)])
def test_a_pair_with_a_vocabulary_size_that_is_too_small_is_refused(
    kind: TokenizerKind, least: int
) -> None:
    with pytest.raises(ValueError, match=f"vocab_size: expected more than {least}, got {least}"):
        TokenizerPair.train(PAIRS, kind=kind, vocab_sizes=(400, least), shared=False)
