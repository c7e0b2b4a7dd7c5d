from __future__ import annotations

from collections.abc import Callable

import pytest

from viz_app.analysis.marked_words import marked_places, marked_words
from viz_app.measure_records import Example
from viz_app.records import Kind, Tokens


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("encoder_self", {3: "query", 1: "key"}, {}),
        ("decoder_self", {}, {3: "query", 1: "key"}),  # both consumed
        ("cross", {1: "key"}, {4: "query"}),  # row 3 predicts piece 4
    ],
)
def test_query_and_key_stand_where_the_kind_has_them(
    kind: Kind, source: dict[int, str], target: dict[int, str]
) -> None:
    assert marked_places(kind, Example(0, query=3, key=1, weight=0.9)) == (source, target)


def test_a_token_that_looks_at_itself_is_both() -> None:
    example = Example(0, query=2, key=2, weight=0.9)
    assert marked_places("encoder_self", example) == ({2: "query key"}, {})


def test_the_word_of_a_piece_is_marked_and_texts_stay_as_they_are_written(
    make_tokens: Callable[..., Tokens],
) -> None:
    tokens = make_tokens(["<s>"], [" La"], [" ni", "ña"], [" <b>"], ["."], ["</s>"])
    words = marked_words(tokens, {3: "query", 2: "key", 5: "key"})
    assert [(word.text, word.mark) for word in words] == [
        ("<s>", ""),
        ("La", ""),
        ("niña", "key query"),
        ("<b>", ""),
        (".", "key"),
        ("</s>", ""),
    ]
    assert "".join(word.before + word.text for word in words) == "<s> La niña <b>. </s>"


def test_words_of_a_tokenizer_without_spaces_stand_apart(
    make_tokens: Callable[..., Tokens],
) -> None:
    words = marked_words(make_tokens(["a"], ["b"], ["</s>"]), {})
    assert "".join(word.before + word.text for word in words) == "a b </s>"
