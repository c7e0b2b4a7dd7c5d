"""The alignments of two directions combined."""

from __future__ import annotations

import pytest

from headwise.model.training.data import DataError
from headwise.viz_app.measuring.alignments import WordLinks
from headwise.viz_app.measuring.directions import PairLinks, Symmetrisation, combine, reverse_links

FORWARD: WordLinks = {(0, 0), (1, 1), (2, 3)}
BACKWARD: WordLinks = {(0, 0), (0, 1), (3, 0), (3, 2)}
"""Of the same words, as pairs of source word and target word."""
REFERENCE: WordLinks = {(0, 2)}


def pair(source: int, target: int, links: WordLinks, reference: WordLinks) -> PairLinks:
    return PairLinks(source, target, links, reference)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("intersection", {(0, 0)}),
        ("union", {(0, 0), (1, 1), (2, 3), (0, 1), (3, 0), (3, 2)}),
        ("grow-diag-final-and", {(0, 0), (0, 1), (1, 1), (2, 3), (3, 2)}),
    ],
)
def test_directions_are_combined(how: Symmetrisation, expected: WordLinks) -> None:
    """Only (0, 0) is in both. (0, 1) and (1, 1) are neighbours of it; (2, 3) and (3, 2) have words
    without a link; (3, 0) has one."""
    forward = pair(4, 5, FORWARD, REFERENCE)
    backward = pair(5, 4, reverse_links(BACKWARD), reverse_links(REFERENCE))
    found = list(combine(iter([forward, None, forward]), iter([backward, backward, None]), how))
    assert found == [pair(4, 5, expected, REFERENCE), None, None]


def test_directions_of_other_words_are_refused() -> None:
    """The second pair has four source words in one direction, and three in the other."""
    forward = [pair(1, 1, {(0, 0)}, set()), pair(4, 5, FORWARD, set())]
    backward = [pair(1, 1, {(0, 0)}, set()), pair(5, 3, set(), set())]
    with pytest.raises(DataError, match=r"pair 2: .* \(4, 5\) .* forward, \(3, 5\) in reverse"):
        list(combine(iter(forward), iter(backward), "union"))
