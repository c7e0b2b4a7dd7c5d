"""Which tokens of two sentences stand for each other; worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from headwise.viz_app.records.trace import Tokens, Word
from headwise.viz_app.why.sentences.correspondence import (
    corresponding,
    difference_where_corresponding,
    parting,
    places_of,
    stretch_labels,
)

Cut = tuple[str, ...]
IDS: dict[str, int] = {}
"""The same token has the same id in all sentences."""


def tokens(*words: str) -> Tokens:
    """Words cut into tokens at ``+``; each begins with a space."""
    texts: list[str] = []
    spans = []
    for word in words:
        parts = word.split("+")
        spans.append(Word(word.replace("+", ""), len(texts), len(texts) + len(parts)))
        texts += [f" {parts[0]}", *parts[1:]]
    ids = tuple(IDS.setdefault(text, 10 + len(IDS)) for text in texts)
    return Tokens(ids, tuple(texts), tuple(spans))


@pytest.mark.parametrize(
    ("a", "b", "labels", "pairs"),
    [
        # A word for a word of one token.
        ("the cat is here", "the dog is here", "the|cat → dog|is|here", "00 11 22 33"),
        # Two changed words side by side stand for each other in order.
        ("the red cat", "the old dog", "the|red → old|cat → dog", "00 11 22"),
        # A changed word of two tokens for one of two: a span.
        ("a ha+t here", "a ca+p here", "a|ha ·t → ca ·p|here", "00 11 22 33"),
        # With another number of tokens no position corresponds.
        ("a hat here", "a ca+p here", "a|hat → ca ·p|here", "00 23"),
        ("a ca+p here", "a hat here", "a|ca ·p → hat|here", "00 32"),
        # A piece that only one of them has.
        ("one cat", "one cat+s", "one|cat|∅ → ·s", "00 11"),
        ("one cat+s now", "one cat now", "one|cat|·s → ∅|now", "00 11 32"),
        # Words put in and taken out; other numbers of words are one stretch.
        ("I saw him", "I did not see him", "I|saw → did not see|him", "00 24"),
        ("she is here", "she is not here", "she|is|∅ → not|here", "00 11 23"),
        ("no one came", "he came", "no one → he|came", "21"),
        # Nothing in common, and everything.
        ("x y", "z", "x y → z", ""),
        ("x y x", "x y x", "x|y|x", "00 11 22"),
    ],
)
def test_stretches_of_two_sentences(a: str, b: str, labels: str, pairs: str) -> None:
    first, second = tokens(*a.split()), tokens(*b.split())
    found = corresponding(first, second)
    assert stretch_labels(first, second, found) == labels.split("|")
    expected = [(int(pair[0]), int(pair[1])) for pair in pairs.split()]
    assert [pair for each in found for pair in each.pairs] == expected
    for side, sentence in (("a", first), ("b", second)):
        spans = [getattr(each, side) for each in found]
        places = [place for span in spans for place in range(span.start, span.stop)]
        assert places == list(range(len(sentence)))


def test_of_symbols_in_another_order_those_correspond_that_keep_it() -> None:
    a, b = tokens("5", "6", "7", "8"), tokens("7", "8", "5", "6")
    found = corresponding(a, b)
    assert stretch_labels(a, b, found) == ["∅ → 7 8", "5", "6", "7 8 → ∅"]
    assert [pair for each in found for pair in each.pairs] == [(0, 2), (1, 3)]


def test_a_difference_is_drawn_only_where_both_have_row_and_column() -> None:
    a = tokens("the", "cat", "is", "here")
    b = tokens("the", "cat", "is", "not", "here")
    places = places_of(corresponding(a, b), 4)
    assert places.tolist() == [0, 1, 2, 4]
    rows = np.array([0, -1, 1])
    of_a = np.arange(12, dtype=np.float32).reshape(3, 4)
    of_b = 10 * np.arange(10, dtype=np.float32).reshape(2, 5)
    found = difference_where_corresponding(of_a, of_b, rows, places)
    nan = np.nan
    np.testing.assert_array_equal(found, [[0, 9, 18, 37], [nan, nan, nan, nan], [42, 51, 60, 79]])


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 5, 3], 1),
        ([1, 2], [1, 2, 3], None),
        ([], [4], None),
    ],
)
def test_two_translations_part_at(a: Sequence[int], b: Sequence[int], place: int | None) -> None:
    assert parting(a, b) == parting(b, a) == place
