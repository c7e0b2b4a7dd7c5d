from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz_app.analysis.labels import piece_label, piece_labels, visible, word_labels
from viz_app.records import Tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("niña", "niña"),
        ("two words", "two words"),
        (" ", "␣"),
        ("  ", "␣␣"),
        ("\n", "⏎"),
        ("\t\n ", "⇥⏎␣"),
        ("\u00a0", "␣"),
        ("\u3000", "␣"),
        ("\x00", "\\u0000"),
        ("a\x1bb", "a\\u001bb"),
        ("\u200b", "\\u200b"),  # zero-width space
        ("\u202etxt", "\\u202etxt"),  # right-to-left override
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("\u00ad", "\\u00ad"),  # soft hyphen
        ("\U000e0041", "\\U000e0041"),  # a tag
        ("🍎", "🍎"),
        ("", ""),
    ],
)
def test_nothing_is_invisible(text: str, expected: str) -> None:
    assert visible(text) == expected


@given(st.text(min_size=1))
def test_no_control_or_direction_character_is_left(text: str) -> None:
    seen = visible(text)
    assert seen.strip()
    assert not {"Cc", "Cf"} & {unicodedata.category(character) for character in seen}


@pytest.mark.parametrize(
    ("piece", "label"),
    [
        (" the", "the"),
        ("s", "s"),
        (" ", "␣"),
        ("\n", "⏎"),
        ("</s>", "</s>"),
        ("<0xC3>", "<0xC3>"),
        (" ·", "·"),
    ],
)
def test_a_piece(piece: str, label: str) -> None:
    assert piece_label(piece) == label


def test_a_piece_that_goes_on_with_a_word_is_marked(make_tokens: Callable[..., Tokens]) -> None:
    tokens = make_tokens(["<s>"], [" see", "s"], [","], [" n", "i", "ñ", "a"], [" "], ["</s>"])
    assert piece_labels(tokens) == ["<s>", "see", "·s", ",", "n", "·i", "·ñ", "·a", "␣", "</s>"]


def test_words(make_tokens: Callable[..., Tokens]) -> None:
    tokens = make_tokens(["<s>"], [" see", "s"], [","], [" \u202ea", "b"], ["</s>"])
    assert word_labels(tokens) == ["<s>", "sees", ",", "\\u202eab", "</s>"]
