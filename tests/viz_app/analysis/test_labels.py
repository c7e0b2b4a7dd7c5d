from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.model.interface import Kind
from headwise.viz_app.analysis.labels import (
    bound_text,
    from_where_they_part,
    interval_text,
    make_visible,
    marked_words,
    next_token_label,
    numbered,
    three_digits,
    token_label,
    token_labels,
    token_marks,
    vocabulary_labels,
    word_labels,
)
from headwise.viz_app.records.trace import Tokens

MakeTokens = Callable[..., Tokens]


def test_invisible_characters_are_replaced() -> None:
    for text in ("niña", "two words", "🍎", ""):
        assert make_visible(text) == text
    space, tag, white = "\u200b", "\U000e0041", "\t\n \u00a0\u3000"
    assert make_visible(f"a\x1bb{space}\u202et\u00ad{tag}") == (
        "a\\u001bb\\u200b\\u202et\\u00ad\\U000e0041"
    )
    assert make_visible(white) == "⇥⏎␣␣␣"


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("el gato ve un perro", "el gato ve un perro"),
        ("el gato ve al perro", "… al perro"),
        ("el perro ve un gato", "… perro ve un gato"),
        ("un gato ve un perro", "un gato ve un perro"),
        ("el gato ve un", "… un"),
        ("el gato ve un perro negro", "… negro"),
        ("", ""),
    ],
)
def test_a_hypothesis_is_written_from_where_it_parts(other: str, expected: str) -> None:
    assert from_where_they_part("el gato ve un perro", other) == expected


@settings(max_examples=30)
@given(st.text(min_size=1))
def test_no_control_or_format_character_is_left(text: str) -> None:
    seen = make_visible(text)
    assert seen.strip()
    assert not {"Cc", "Cf"} & {unicodedata.category(character) for character in seen}


def test_continuing_tokens_are_marked(make_tokens: MakeTokens) -> None:
    tokens = make_tokens(["<s>"], [" see", "s"], [","], [" \u202en", "ñ"], [" "], [" ·"], ["</s>"])
    labels = ["<s>", "see", "·s", ",", "\\u202en", "·ñ", "␣", "·", "</s>"]
    assert token_labels(tokens) == labels
    assert [token_label(text) for text in tokens.texts] == [
        *("<s>", "see", "s", ",", "\\u202en", "ñ", "␣", "·", "</s>")
    ]
    assert word_labels(tokens)[:4] == ["<s>", "sees", ",", "\\u202enñ"]
    assert numbered(labels)[:2] == ["1: <s>", "2: see"]


def test_tokens_of_a_vocabulary_that_continue_a_word_are_marked() -> None:
    tokens = ["<s>", "</s>", "<0x0A>", " the", "the", " ", "\n", ".", " .", "<b>"]
    assert vocabulary_labels(tokens, spaced=True) == (
        "<s>", "</s>", "<0x0A>", "the", "·the", "␣", "·⏎", "·.", ".", "·<b>",
    )  # fmt: skip
    assert vocabulary_labels(tokens, spaced=True, control_ids={9})[8:] == (".", "<b>")
    assert vocabulary_labels(["<unk>", "the", "."], spaced=False) == ("<unk>", "the", ".")


def test_a_dot_precedes_what_would_go_on_with_a_word() -> None:
    labels = {" cat": "cat", "s": "·s", "3": "·3", ".": ".", "</s>": "</s>", "": ""}
    assert {token: next_token_label(token, spaced=True) for token in labels} == labels
    assert next_token_label("cat", spaced=False) == "cat"


@pytest.mark.parametrize(
    ("kind", "query", "source", "target"),
    [
        ("encoder_self", 3, {3: "query", 1: "key"}, {}),
        ("encoder_self", 1, {1: "query key"}, {}),
        ("decoder_self", 3, {}, {3: "query", 1: "key"}),  # both consumed
        ("cross", 3, {1: "key"}, {4: "query"}),  # row 3 predicts token 4
    ],
)
def test_marks_of_a_kind(
    kind: Kind, query: int, source: dict[int, str], target: dict[int, str]
) -> None:
    assert token_marks(kind, query, [1]) == (source, target)


def test_words_of_marked_tokens_are_marked(make_tokens: MakeTokens) -> None:
    tokens = make_tokens(["<s>"], [" La"], [" ni", "ña"], [" <b>"], ["."], ["</s>"])
    words = marked_words(tokens, {3: "query", 2: "key", 5: "key"})
    assert [word.mark for word in words] == ["", "", "key query", "", "key", ""]
    assert "".join(word.before + word.text for word in words) == "<s> La niña <b>. </s>"
    ours = make_tokens([" La"], ["."], ["</s>"])
    others = replace(ours, ids=(2, 3, 1), special_ids=frozenset({0, 1}))
    for tokens, text in ((others, "La. </s>"), (make_tokens(["a"], ["b"], ["</s>"]), "a b </s>")):
        assert "".join(word.before + word.text for word in marked_words(tokens, {})) == text


def test_an_interval_has_a_width_or_is_not_written() -> None:
    assert interval_text(0.1, 0.3) == "0.10 to 0.30"
    assert interval_text(-0.001, 0.3, "+.2f") == "+0.00 to +0.30"
    assert interval_text(0.9961, 0.9994) == "0.996 to 0.999"
    assert interval_text(99.99, 100.0, ".1f") == "99.99 to 100.00"
    for ends in ((1.0, 1.0), (100.0, 100.0), (float("nan"), float("nan"))):
        assert interval_text(*ends) == ""


@pytest.mark.parametrize(
    ("value", "above", "written"),
    [
        (0.895, False, "0.89"),
        (0.8951, True, "0.90"),
        (float(np.float32(0.3)), True, "0.30"),
        (0.29, False, "0.29"),  # 0.29 * 100 is less than 29
        (0.0, True, "0.00"),
    ],
)
def test_a_bound_is_rounded_from_what_it_bounds(value: float, above: bool, written: str) -> None:
    assert bound_text(value, above=above) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *((0.01234, "+0.0123"), (-1.2, "-1.20"), (9.999, "+10.0"), (99.96, "+100")),
        *((57_322.3, "+57,300"), (0.0, "+0.00")),
    ],
)
def test_numbers_have_three_significant_digits(value: float, written: str) -> None:
    assert three_digits(value, "+") == written
