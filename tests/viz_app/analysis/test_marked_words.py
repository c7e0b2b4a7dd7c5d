from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwise.model.interface import Kind
from headwise.viz_app.analysis.labels import marked_words, token_marks
from headwise.viz_app.records.measures import Example
from headwise.viz_app.records.trace import Tokens


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("encoder_self", {3: "query", 1: "key"}, {}),
        ("decoder_self", {}, {3: "query", 1: "key"}),  # both consumed
        ("cross", {1: "key"}, {4: "query"}),  # row 3 predicts token 4
    ],
)
def test_query_and_key_of_each_kind(
    kind: Kind, source: dict[int, str], target: dict[int, str]
) -> None:
    assert token_marks(kind, Example(0, query=3, key=1, weight=0.9)) == (source, target)


def test_token_can_be_query_and_key() -> None:
    example = Example(0, query=2, key=2, weight=0.9)
    assert token_marks("encoder_self", example) == ({2: "query key"}, {})


def test_words_of_marked_tokens_are_marked(make_tokens: Callable[..., Tokens]) -> None:
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


def test_special_tokens_of_others_stand_apart(make_tokens: Callable[..., Tokens]) -> None:
    ours = make_tokens([" La"], ["."], ["</s>"])
    theirs = replace(ours, ids=(2, 3, 1), special_ids=frozenset({0, 1}))
    words = marked_words(theirs, {})
    assert "".join(word.before + word.text for word in words) == "La. </s>"


def test_words_without_spaces_are_separated(make_tokens: Callable[..., Tokens]) -> None:
    words = marked_words(make_tokens(["a"], ["b"], ["</s>"]), {})
    assert "".join(word.before + word.text for word in words) == "a b </s>"
