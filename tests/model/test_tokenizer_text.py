"""Refuse tokenizers that differ from this project's before the native library loads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from headwise.model.tokenizer import Tokenizer, WordTokenizer
from headwise.model.validation import parse_description

TEXTS = ["The cat sees the dog.", "Where is the cat?"] * 2
# The library reads this one, and panics at the first text.
PANIC = {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"}


@pytest.fixture(
    params=[Tokenizer.train(TEXTS, 400), WordTokenizer.train(TEXTS, 12)], ids=["bpe", "word"]
)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return request.param


def test_a_text_is_taken_to_tokens(tokenizer: Tokenizer) -> None:
    told = parse_description(tokenizer.to_text())
    assert told.model == {"bpe": "BPE", "word": "WordLevel"}[tokenizer.kind]
    assert list(told.vocabulary)[:2] == ["<pad>", "<unk>"]
    assert len(told.vocabulary) == tokenizer.vocab_size
    assert bool(told.merges) == (tokenizer.kind == "bpe")
    assert {"normalizer", "pre_tokenizer", "model.unk_token"} < set(told.settings)


def test_a_missing_setting_is_ignored(tokenizer: Tokenizer) -> None:
    """Another version of the library may not have it."""
    told = json.loads(tokenizer.to_text())
    del told["truncation"]
    again = Tokenizer.from_text(json.dumps(told))
    assert type(again) is type(tokenizer)
    assert again.to_text() == tokenizer.to_text()


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
def test_another_tokenizer_is_refused(
    tokenizer: Tokenizer, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    told = json.loads(tokenizer.to_text())
    change(told)
    with pytest.raises(ValueError, match=f"not a tokenizer: {message}"):
        Tokenizer.from_text(json.dumps(told))


def test_merges_of_unknown_tokens_and_deep_nesting_are_refused() -> None:
    told = json.loads(Tokenizer.train(TEXTS, 300).to_text())
    told["model"]["merges"].append(["", "zzz"])
    for text in (json.dumps(told), "[" * 100_000):
        with pytest.raises(ValueError, match="not a tokenizer"):
            Tokenizer.from_text(text)
