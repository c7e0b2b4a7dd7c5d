"""Aligns the tokens of two sentences by where they differ, without guessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import WordSpan
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Floats, Tokens


@dataclass(frozen=True)
class Stretch:
    """Tokens of A's source, and those of B's that stand in their place."""

    a: WordSpan
    b: WordSpan
    same: bool
    """Whether both are the same tokens."""

    @property
    def fits(self) -> bool:
        """Whether it is as long in B as in A, so that it can be patched position by position."""
        return self.a.stop - self.a.start == self.b.stop - self.b.start

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positions in A and B that correspond; none if it does not fit."""
        both = zip(range(self.a.start, self.a.stop), range(self.b.start, self.b.stop), strict=True)
        return list(both) if self.fits else []


def corresponding(a: Tokens, b: Tokens) -> tuple[Stretch, ...]:
    """Divide two sentences into stretches that stand for each other, all tokens in order.

    A token that both have, in the order of both, is a stretch by itself. Where one of them has
    other tokens than the other, a word stands for a word if both have equally many there; else all
    there is one stretch. What only one of them has stands for an empty stretch.
    """
    matcher = SequenceMatcher(None, a.ids, b.ids, autojunk=False)
    found: list[Stretch] = []
    for change, start, stop, other, end in matcher.get_opcodes():
        if change == "equal":
            both = zip(range(start, stop), range(other, end), strict=True)
            found += [Stretch(WordSpan(i, i + 1), WordSpan(j, j + 1), True) for i, j in both]
        else:
            words, others = _words(a, start, stop), _words(b, other, end)
            if len(words) != len(others):
                words, others = [WordSpan(start, stop)], [WordSpan(other, end)]
            found += [Stretch(*both, False) for both in zip(words, others, strict=True)]
    return tuple(found)


def _words(tokens: Tokens, start: int, stop: int) -> list[WordSpan]:
    """Return the parts of words between two places of a sentence."""
    return [
        WordSpan(max(word.start, start), min(word.stop, stop))
        for word in tokens.words
        if word.start < stop and word.stop > start
    ]


def stretch_labels(a: Tokens, b: Tokens, stretches: tuple[Stretch, ...]) -> list[str]:
    """Label each stretch by its tokens in A, and by those of B behind an arrow if they differ."""
    labels = token_labels(a), token_labels(b)

    def written(span: WordSpan, of: list[str]) -> str:
        return " ".join(of[span.start : span.stop]) or "∅"

    return [
        written(each.a, labels[0]) + f" → {written(each.b, labels[1])}" * (not each.same)
        for each in stretches
    ]


def counterpart(a: Tokens, b: Tokens, at: int) -> int | None:
    """Return the id that a text B has in place of token ``at`` of A; None if it has no other."""
    stretch = next(each for each in corresponding(a, b) if each.a.start <= at < each.a.stop)
    ids = b.ids[stretch.b.start : stretch.b.stop]
    other = ids[min(at - stretch.a.start, len(ids) - 1)] if ids else a.ids[at]
    return None if other == a.ids[at] else other


def places_of(stretches: tuple[Stretch, ...], length: int) -> NDArray[np.int64]:
    """Return for each position of A, of ``length``, that of B that corresponds; −1 for none."""
    places = np.full(length, -1)
    for stretch in stretches:
        for here, there in stretch.pairs:
            places[here] = there
    return places


def difference_where_corresponding(
    a: Floats, b: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> Floats:
    """Subtract A's map, (Q, M), from B's where both have the row and the column; NaN elsewhere.

    ``rows`` (Q,) and ``columns`` (M,) have for each of A the place in B, −1 for none.
    """
    found = np.full(a.shape, np.nan, np.float32)
    here = np.ix_(rows >= 0, columns >= 0)
    there = np.ix_(rows[rows >= 0], columns[columns >= 0])
    found[here] = b[there] - a[here]
    return found


def parting(a: Sequence[int], b: Sequence[int]) -> int | None:
    """Return the first place at which two sequences have different tokens; None if there is none.

    One that only goes on where the other ends has no token to compare there.
    """
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
