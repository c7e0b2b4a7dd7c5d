"""Test the share of the training pairs that is held back for validation."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headwise.model.training.corpora import Corpus, load_corpus
from headwise.model.training.data import DataError, Pair
from headwise.model.training.held_back import MOST_PAIRS, hold_back, to_lines

LANGUAGES = ("en", "es")


def corpus(sources: int, *, each: int = 1) -> Corpus:
    """Make a corpus in which the translations of a source are far apart."""
    pairs = [Pair(f"s {n}", f"t {n} {k}") for k in range(each) for n in range(sources)]
    return Corpus("a.tsv", "sha", pairs)


@pytest.mark.parametrize(
    ("sources", "each", "held"),
    [(2, 1, 1), (9, 1, 1), (100, 1, 5), (100, 3, 15), (2, 50, 50), (41_000, 1, MOST_PAIRS)],
)
def test_a_share_is_held_back_and_no_source_is_on_both_sides(
    sources: int, each: int, held: int
) -> None:
    whole = corpus(sources, each=each)
    train, valid = hold_back(whole, languages=LANGUAGES, seed=0)
    assert len(valid.pairs) == held
    assert sorted([*train.pairs, *valid.pairs]) == sorted(whole.pairs)
    assert not {pair.source for pair in train.pairs} & {pair.source for pair in valid.pairs}
    assert (train.name, train.sha256) == ("a.tsv", "sha")


def test_what_is_held_back_follows_from_the_seed() -> None:
    first, again, other = (
        hold_back(corpus(100), languages=LANGUAGES, seed=seed)[1] for seed in (3, 3, 4)
    )
    assert first == again
    assert {*first.pairs} != {*other.pairs}
    assert first.sha256 != other.sha256


def test_what_is_held_back_can_be_read_as_a_file(tmp_path: Path) -> None:
    _, valid = hold_back(corpus(20), languages=LANGUAGES, seed=0)
    path = tmp_path / valid.name
    path.write_bytes(to_lines(valid.pairs, LANGUAGES))
    assert load_corpus(str(path), source="en", target="es") == valid
    assert hashlib.sha256(path.read_bytes()).hexdigest() == valid.sha256


def test_pairs_with_an_empty_side_are_not_held_back() -> None:
    whole = Corpus("a", "", [Pair("a", ""), Pair("", "b"), Pair("c", "d"), Pair("e", "f")])
    for seed in range(9):
        _, valid = hold_back(whole, languages=LANGUAGES, seed=seed)
        assert valid.pairs in ([Pair("c", "d")], [Pair("e", "f")])


def test_data_of_one_source_or_one_language_need_validation_data() -> None:
    with pytest.raises(DataError, match=r"a\.tsv: expected at least two .* got 1; give --valid"):
        hold_back(corpus(1, each=9), languages=LANGUAGES, seed=0)
    with pytest.raises(DataError, match=r"expected two languages, got 'en' twice; give --valid"):
        hold_back(corpus(9), languages=("en", "en"), seed=0)
