"""Byte-pair encoding, and tokenizers of both kinds that are read again."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
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
    "The cats don't see the dog.",
    "¿Dónde está el niño?",
    "El niño está con el perro.",
    "Wait... no!! $5, a+b=c.",
] * 5

text = st.text(st.characters(exclude_categories=["Cs"]))  # all but lone surrogates
_AWKWARD = ["'", "¿", "€", ".", " ", "\n", "don't", "cat", "está", "你", "👩‍👩‍👧"]
awkward = st.lists(st.sampled_from([*_AWKWARD, *SPECIAL_TOKENS])).map("".join)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 400)


# Round trip


@given(text | awkward)
@example("")
@example("\x00\x01\x1b\x7f")
@example("  two  spaces   and some at the end  ")
@example("\n\na\r\nb\t\u2028c\u3000")
@example("שלום, مرحبا\u200f!")
@example("👩‍👩‍👧‍👦🏽 🇪🇸")
@example("e\u0301 \u00e9")
@example("▁a▁ ▁")
@example("<s></s><pad><unk>")
@example("<0x41><0xFF>")
@example("\ufffd\ufeff\U0010ffff")
def test_any_text_round_trips_without_special_ids(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([BOS, *ids, EOS, PAD, UNK]) == text
    assert all(id > EOS for id in ids)


@pytest.mark.parametrize(("text", "place"), [("\ud800", 1), ("ab\udfff", 3)])
def test_half_a_character_is_refused(tokenizer: Tokenizer, text: str, place: int) -> None:
    for refuse in (tokenizer.encode, WordTokenizer.train(TEXTS, 99).unknown):
        with pytest.raises(ValueError, match=rf"character {place} of the text .* lone surrogate"):
            refuse(text)


def test_broken_bytes_and_first_tokens_without_a_space_are_shown(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a你")[:-1]) == "a\ufffd"
    space, *rest = tokenizer.encode("xyz")
    assert tokenizer.tokens([space]) == [" "]
    assert tokenizer.decode(rest) == "xyz"


# Tokens


def test_parts_of_a_character_show_it_and_broken_ones_their_bytes(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("你")
    assert tokenizer.texts(ids) == [" ", "你[1/3]", "你[2/3]", "你[3/3]"]
    assert tokenizer.texts([*ids[:-1], EOS, ids[-1]]) == [" ", "<0xE4>", "<0xBD>", "</s>", "<0xA0>"]


def test_a_vocabulary_never_holds_punctuation_beside_anything_else(tokenizer: Tokenizer) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.tokens(range(4)) == ["<pad>", "<unk>", "<s>", "</s>"]
    learned = tokenizer.tokens(range(len(SPECIAL_TOKENS) + 256, tokenizer.vocab_size))
    marks = [p for p in learned if any(unicodedata.category(c)[0] in "PS" for c in p)]
    assert " ¿" in marks
    assert all(len(token.removeprefix(" ")) == 1 for token in marks)


# Words


def words(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    tokens = tokenizer.tokens(ids)
    return ["".join(tokens[word.start : word.stop]) for word in tokenizer.words(ids)]


@given(st.lists(st.integers(0, 399)))
def test_words_cover_all_tokens_in_order(tokenizer: Tokenizer, ids: list[int]) -> None:
    """Any tokens are covered, also sequences that no text gives."""
    spans = tokenizer.words(ids)
    covered = [index for word in spans for index in range(word.start, word.stop)]
    assert covered == list(range(len(ids)))
    assert all(word.start < word.stop for word in spans)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("the dogs", [" the", " dogs"]),
        ("don't", [" don", "'", "t"]),
        ("¿Dónde está?", [" ¿", "Dónde", " está", "?"]),
        ("a, b...", [" a", ",", " b", ".", ".", "."]),
        ("3.5%", [" 3", ".", "5", "%"]),
        ("你好 €5", [" <0xE4><0xBD><0xA0><0xE5><0xA5><0xBD>", " <0xE2><0x82><0xAC>", "5"]),
        ("a👍b", [" a", "<0xF0><0x9F><0x91><0x8D>", "b"]),
        ("日。本", [" <0xE6><0x97><0xA5>", "<0xE3><0x80><0x82>", "<0xE6><0x9C><0xAC>"]),
        ("a\nb", [" a", "<0x0A>b"]),
        ("a  b", [" a", " ", " b"]),
    ],
)
def test_words_of_a_text(tokenizer: Tokenizer, text: str, expected: list[str]) -> None:
    assert words(tokenizer, tokenizer.encode(text)) == expected
    framed = words(tokenizer, [BOS, *tokenizer.encode(text), EOS, PAD, PAD])
    assert framed == ["<s>", *expected, "</s>", "<pad>", "<pad>"]  # each is a word


# Saving, training


@pytest.mark.parametrize(("kind", "size"), [(Tokenizer, 400), (WordTokenizer, 12)])
def test_a_tokenizer_is_known_when_read_again(kind: type[Tokenizer], size: int) -> None:
    """A setting that is missing is ignored: another version of the library may not have it."""
    tokenizer = kind.train(TEXTS, size)
    assert kind.train(TEXTS, size).to_text() == tokenizer.to_text()
    values = json.loads(tokenizer.to_text())
    for _ in range(2):
        again = Tokenizer.from_text(json.dumps(values))
        assert type(again) is kind
        assert (again.to_text(), again.vocab_size) == (tokenizer.to_text(), size)
        assert again.encode("The cat's 你!") == tokenizer.encode("The cat's 你!")
        values.pop("truncation", None)


# The library reads this one, and panics at the first text.
PANIC = {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}


@pytest.mark.parametrize("kind", [Tokenizer, WordTokenizer])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.update(normalizer=PANIC), "expected normalizer as this program sets"),
        (lambda t: t.update(pre_tokenizer=None), "expected pre_tokenizer as this"),
        (lambda t: t["model"].update(unk_token="cat"), "expected model.unk_token as this"),
        (lambda t: t["model"].update(dropout=0.5), "expected model.dropout as this"),
        (lambda t: t.update(added_tokens=[{"id": 9, "content": "cat"}]), "expected added_tokens"),
        (lambda t: t["model"]["vocab"].update(x=9_999), r"expected the ids 0 to \d+, got others"),
        (lambda t: t["model"]["vocab"].update(x=5), r"expected the ids 0 to \d+, got others"),
        (lambda t: t["model"]["vocab"].update(x="5"), "no vocabulary and merges of a model"),
        (lambda t: t["model"].update(vocab=[["a", 1]]), "no vocabulary and merges of a model"),
        (lambda t: t["model"].update(merges=[["a"]]), "no vocabulary and merges of a model"),
        (lambda t: t["model"].update(merges=["a b"]), "no vocabulary and merges of a model"),
    ],
)
def test_another_tokenizer_is_refused_before_the_library_loads_it(
    kind: type[Tokenizer], change: Callable[[dict[str, Any]], None], message: str
) -> None:
    values = json.loads(kind.train(TEXTS, 300).to_text())
    change(values)
    with pytest.raises(ValueError, match=f"not a tokenizer: {message}"):
        Tokenizer.from_text(json.dumps(values))


def _with_a_merge_of_unknown_tokens() -> str:
    values = json.loads(Tokenizer.train(TEXTS, 300).to_text())
    values["model"]["merges"].append(["", "zzz"])
    return json.dumps(values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a tokenizer"),
        ("{}", "not a tokenizer"),
        ('{"version": "1.0", "model": 7}', "not a tokenizer"),
        ("[" * 100_000, "not a tokenizer"),
        (_with_a_merge_of_unknown_tokens(), "not a tokenizer"),
        (
            tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, [])).to_str(),
            r"begins with \('<pad>', '<unk>', '<s>', '</s>'\), got \['a'",
        ),
    ],
)
def test_a_foreign_description_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_text(text)


# Words as tokens

SENTENCES = [
    "Don't worry, it's the cat.",
    "The cats don't see the dog!",
    "¿Dónde está el niño? (¡Aquí!)",
    "The <s> of </s>, <pad> and <unk>.",
]

# All but lone surrogates, and what Python alone takes for spaces.
spaced = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x1c\x1d\x1e\x1f"))
awkward_words = st.lists(st.sampled_from([*SPECIAL_TOKENS, *_AWKWARD, "CAT", "e\u0301"])).map(
    "".join
)


@pytest.fixture(scope="module")
def by_words() -> WordTokenizer:
    return WordTokenizer.train(SENTENCES, 100)


def tokens(by_words: Tokenizer) -> list[str]:
    return by_words.tokens(range(by_words.vocab_size))


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
    by_words: WordTokenizer, text: str, expected: list[str]
) -> None:
    assert by_words.tokens(by_words.encode(text)) == expected


@given(spaced | awkward_words)
@example("</s>")
@example("<S><PAD>")
@example("e\u0301 Zée\u0301b")
def test_every_word_is_an_id_and_unknown_ones_are_named(by_words: WordTokenizer, text: str) -> None:
    ids = by_words.encode(text)
    assert not {PAD, BOS, EOS} & set(ids)
    assert count_words(text) == len(ids)
    assert by_words.words(ids) == [WordSpan(index, index + 1) for index in range(len(ids))]
    named = by_words.unknown(text)
    assert len(named) == ids.count(UNK)
    assert all(word in text and not word.isspace() for word in named)


def test_unknown_words_are_named_as_they_were_written(by_words: WordTokenizer) -> None:
    assert by_words.unknown("The Zebra sees the €, zebra.") == ["Zebra", "sees", "€", "zebra"]
    assert by_words.unknown("The cat.") == []
    assert by_words.unknown(decomposed("el ratón está")) == [decomposed("ratón")]


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


def test_unknown_words_are_shown_and_other_special_tokens_are_not(by_words: WordTokenizer) -> None:
    ids = [BOS, *by_words.encode("The zebra, the cat."), EOS, PAD]
    assert by_words.decode(ids) == "the <unk>, the cat."
    assert by_words.decode([BOS, EOS]) == ""


# Vocabularies


@pytest.mark.parametrize("size", [5, 6, 7, 8, 10_000])
def test_the_most_frequent_words_come_first(size: int) -> None:
    """Upper and lower case are one word; words of equal frequency are in alphabetical order."""
    by_words = WordTokenizer.train(["b A a, c", "B d b a, a"], size)
    assert tokens(by_words) == [*SPECIAL_TOKENS, "a", "b", ",", "c", "d"][:size]


def test_composed_and_decomposed_texts_teach_the_same(by_words: WordTokenizer) -> None:
    assert WordTokenizer.train(map(decomposed, SENTENCES), 100).to_text() == by_words.to_text()


def test_another_process_learns_the_same(by_words: WordTokenizer) -> None:
    """Words of equal frequency keep their order, whatever the hash seed of the process."""
    program = (
        "import sys; from headwise.model.tokenizer import WordTokenizer;"
        "sys.stdout.buffer.write(WordTokenizer.train(sys.argv[1:], 100).to_text().encode())"
    )
    command = [sys.executable, "-c", program, *SENTENCES]
    finished = subprocess.run(command, capture_output=True, check=True)
    assert finished.stdout.decode() == by_words.to_text()


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
