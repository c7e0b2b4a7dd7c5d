from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwise.viz_app.analysis.labels import (
    make_visible,
    next_token_label,
    numbered,
    token_label,
    token_labels,
    word_labels,
)
from headwise.viz_app.records.trace import Tokens


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
def test_visible_replaces_invisible_characters(text: str, expected: str) -> None:
    assert make_visible(text) == expected


@given(st.text(min_size=1))
def test_visible_leaves_no_control_or_format_character(text: str) -> None:
    seen = make_visible(text)
    assert seen.strip()
    assert not {"Cc", "Cf"} & {unicodedata.category(character) for character in seen}


@pytest.mark.parametrize(
    ("token", "label"),
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
def test_token_label(token: str, label: str) -> None:
    assert token_label(token) == label


def test_continuing_tokens_are_marked(make_tokens: Callable[..., Tokens]) -> None:
    tokens = make_tokens(["<s>"], [" see", "s"], [","], [" n", "i", "ñ", "a"], [" "], ["</s>"])
    assert token_labels(tokens) == ["<s>", "see", "·s", ",", "n", "·i", "·ñ", "·a", "␣", "</s>"]


def test_word_labels(make_tokens: Callable[..., Tokens]) -> None:
    tokens = make_tokens(["<s>"], [" see", "s"], [","], [" \u202ea", "b"], ["</s>"])
    assert word_labels(tokens) == ["<s>", "sees", ",", "\\u202eab", "</s>"]


def test_places_are_counted_from_one() -> None:
    assert numbered(["a", "b"]) == ["1: a", "2: b"]


@pytest.mark.parametrize(
    ("token", "spaced", "expected"),
    [
        (" cat", True, "cat"),
        ("s", True, "·s"),
        ("3", True, "·3"),
        (".", True, "."),
        ("</s>", True, "</s>"),
        ("cat", False, "cat"),
        ("", True, ""),
    ],
)
def test_a_dot_precedes_what_would_go_on_with_a_word(
    token: str, spaced: bool, expected: str
) -> None:
    assert next_token_label(token, spaced=spaced) == expected
