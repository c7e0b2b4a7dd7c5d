from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest

from headwise.model.training.copy_task import LONGEST, SYMBOLS, copy_task
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import DataError, Pair

SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}


@pytest.fixture(scope="module")
def splits() -> dict[str, list[str]]:
    return {name: copy_task(name) for name in SIZES}


def test_no_sequence_is_repeated(splits: dict[str, list[str]]) -> None:
    """It is neither twice in one split nor in two splits."""
    assert {name: len(texts) for name, texts in splits.items()} == SIZES
    assert len({text for texts in splits.values() for text in texts}) == sum(SIZES.values())


@pytest.mark.parametrize("name", SIZES)
def test_sequences_are_of_symbols_and_of_every_length(
    splits: dict[str, list[str]], name: str
) -> None:
    assert (SYMBOLS, LONGEST) == ("abcdefg", 10)
    assert all(re.fullmatch("[a-g]( [a-g]){0,9}", text) for text in splits[name])
    lengths = {len(text.split(" ")) for text in splits["train"]}
    assert lengths == set(range(1, LONGEST + 1))


def test_symbols_are_equally_frequent(splits: dict[str, list[str]]) -> None:
    counts = Counter(symbol for text in splits["train"] for symbol in text.split())
    assert sorted(counts) == list(SYMBOLS)
    assert max(counts.values()) < 1.05 * min(counts.values())


@pytest.mark.parametrize("name", SIZES)
def test_a_split_is_always_the_same(splits: dict[str, list[str]], name: str) -> None:
    assert copy_task(name) == splits[name]


def test_the_sequences_are_those_of_earlier_versions(splits: dict[str, list[str]]) -> None:
    """A resumed training compares its data with what it began with."""
    assert splits["train"][:2] == ["f c b d c f c", "c g b a a a f g"]
    assert splits["test"][:2] == ["g a c g f", "a c d g a d f f e"]


def test_an_unknown_split_is_refused() -> None:
    message = "copy: expected one of the splits train, validation, test, got 'dev'"
    with pytest.raises(ValueError, match=message):
        copy_task("dev")


# As a corpus


@pytest.mark.parametrize(
    ("name", "split", "expected"),
    [
        ("copy", "train", "train"),
        ("copy", "validation", "validation"),
        ("copy:test", "train", "test"),
        ("copy:train", "validation", "train"),
    ],
)
def test_it_is_loaded_by_name(
    splits: dict[str, list[str]], name: str, split: str, expected: str
) -> None:
    corpus = load_corpus(name, source="symbols", target="copy", split=split)
    texts = splits[expected]
    assert corpus.pairs == [Pair(text, text) for text in texts]
    assert corpus.name == name
    assert corpus.sha256 == hashlib.sha256("\n".join(texts).encode()).hexdigest()


@pytest.mark.parametrize("name", ["copy:dev", "copy:train[:5]"])
def test_an_unknown_split_is_a_data_error(name: str) -> None:
    message = r"copy: expected one of the splits train, validation, test, got '(dev|train\[:5\])'"
    with pytest.raises(DataError, match=message):
        load_corpus(name, source="symbols", target="copy")
