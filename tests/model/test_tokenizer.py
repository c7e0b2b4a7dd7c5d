"""Byte-pair encoding, and tokenizers of both kinds that are read again."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.tokenizer import SPECIAL_TOKENS, Tokenizer, WordTokenizer

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
