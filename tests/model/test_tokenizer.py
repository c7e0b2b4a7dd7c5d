from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.tokenizer import SPECIAL_TOKENS, Tokenizer, TokenizerPair

TEXTS = [
    "Don't worry, it's the cat.",
    "The cats don't see the dog.",
    "¿Dónde está el niño?",
    "El niño está con el perro.",
    "Wait... no!! $5, a+b=c.",
] * 5

text = st.text(st.characters(exclude_categories=["Cs"]))  # all but lone surrogates
awkward = (
    st.lists(
        st.sampled_from(["'", "¿", "€", ".", " ", "\n", "don't", "cat", "está", "你", "👩‍👩‍👧"])
    )
).map("".join)


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
def test_any_text_round_trips(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(("text", "place"), [("\ud800", 1), ("ab\udfff", 3)])
def test_half_a_character_is_refused(tokenizer: Tokenizer, text: str, place: int) -> None:
    with pytest.raises(ValueError, match=rf"character {place} of the text .* lone surrogate"):
        tokenizer.encode(text)


def test_broken_bytes_are_shown_as_such(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a你")[:-1]) == "a\ufffd"


def test_a_first_token_without_a_space_is_whole(tokenizer: Tokenizer) -> None:
    space, *rest = tokenizer.encode("xyz")
    assert tokenizer.tokens([space]) == [" "]
    assert tokenizer.decode(rest) == "xyz"


# Special tokens


def test_special_ids_are_fixed(tokenizer: Tokenizer) -> None:
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert tokenizer.tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


@given(text | st.lists(st.sampled_from([*SPECIAL_TOKENS, " ", "a"])).map("".join))
def test_text_never_gives_special_ids(tokenizer: Tokenizer, text: str) -> None:
    assert all(id > EOS for id in tokenizer.encode(text))


def test_special_tokens_are_not_part_of_the_text(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the cat")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, UNK]) == "the cat"


# Tokens


@given(text | awkward)
def test_each_punctuation_mark_and_symbol_is_a_token(tokenizer: Tokenizer, text: str) -> None:
    for id in tokenizer.encode(text):
        [token] = tokenizer.tokens([id])
        if token.startswith("<0x"):  # a byte
            continue
        if any(unicodedata.category(character)[0] in "PS" for character in token):
            assert len(token.removeprefix(" ")) == 1, token


def test_a_vocabulary_never_holds_punctuation_beside_anything_else(tokenizer: Tokenizer) -> None:
    learned = tokenizer.tokens(range(len(SPECIAL_TOKENS) + 256, tokenizer.vocab_size))
    marks = [p for p in learned if any(unicodedata.category(c)[0] in "PS" for c in p)]
    assert " ¿" in marks
    assert all(len(token.removeprefix(" ")) == 1 for token in marks)


def test_frequent_words_become_tokens(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.tokens(tokenizer.encode("the niño está"))
    assert tokens == [" the", " niño", " está"]


def test_characters_without_a_token_fall_back_to_bytes(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens(tokenizer.encode("你")) == [" ", "<0xE4>", "<0xBD>", "<0xA0>"]


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


def test_each_special_token_is_a_word(tokenizer: Tokenizer) -> None:
    ids = [BOS, *tokenizer.encode("the cats"), EOS, PAD, PAD]
    assert words(tokenizer, ids) == ["<s>", " the", " cats", "</s>", "<pad>", "<pad>"]


# Saving, training


@given(text)
def test_a_tokenizer_survives_being_written(tokenizer: Tokenizer, text: str) -> None:
    again = Tokenizer.from_text(tokenizer.to_text())
    assert again.encode(text) == tokenizer.encode(text)
    assert again.vocab_size == tokenizer.vocab_size == 400
    assert again.to_text() == tokenizer.to_text()


def _without_special_tokens() -> str:
    return tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1}, [])).to_str()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: "", "not a tokenizer"),
        (lambda: "{}", "not a tokenizer"),
        (lambda: json.dumps({"version": "1.0", "model": 7}), "not a tokenizer"),
        (_without_special_tokens, r"begins with \('<pad>', '<unk>', '<s>', '</s>'\), got \['a'"),
    ],
)
def test_a_foreign_description_is_refused(make: Callable[[], str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tokenizer.from_text(make())


def test_training_twice_gives_the_same(tokenizer: Tokenizer) -> None:
    assert Tokenizer.train(TEXTS, 400).to_text() == tokenizer.to_text()


# Pairs


def test_sources_end_and_targets_are_framed(tokenizer: Tokenizer) -> None:
    other = Tokenizer.train(["a"], 370)
    pair = TokenizerPair(tokenizer, other)
    assert pair.encode_source("the niño") == [*tokenizer.encode("the niño"), EOS]
    assert pair.encode_target("el perro") == [BOS, *other.encode("el perro"), EOS]
    assert (pair.encode_source(""), pair.encode_target("")) == ([EOS], [BOS, EOS])


def test_a_pair_knows_whether_it_shares(tokenizer: Tokenizer) -> None:
    assert TokenizerPair(tokenizer, tokenizer).shared
    assert not TokenizerPair(tokenizer, Tokenizer.train(TEXTS, 400)).shared
