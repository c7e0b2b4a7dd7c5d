"""Accuracy on contrastive pairs, its intervals, and which head it hangs on.

A pair counts 1 if the right target is likelier, 0 if the wrong one is, and a half if the two are
equal within rounding. ``n`` pairs, ``L`` layers, ``H`` heads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind
from headwise.model.ties import descending
from headwise.viz_app.analysis.head_ranking import rank_heads
from headwise.viz_app.records.pairs import (
    Accuracy,
    AccuracyCurve,
    ContrastivePair,
    MeasuredPairs,
    PairScores,
)
from headwise.viz_app.records.trace import Floats

_Z = NormalDist().inv_cdf(0.975)  # standard deviations on either side of an interval of 95%


def accuracy(outcomes: Floats) -> Accuracy:
    """Return the mean of outcomes, (n,), with the 95% interval of Wilson (1927).

    Halves may leave a count between two: its ends are those of it rounded down, and up.
    """
    count, total = len(outcomes), float(np.asarray(outcomes, np.float64).sum())

    def end(right: int, sign: int) -> float:  # (to load SciPy for it takes a second or more)
        share = right / count
        half = _Z * math.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
        centre = share + _Z**2 / (2 * count)
        return min(max((centre + sign * half) / (1 + _Z**2 / count), 0.0), 1.0)

    return Accuracy(total / count, end(math.floor(total), -1), end(math.ceil(total), 1), count)


@dataclass(frozen=True)
class AccuracyLoss:
    """The accuracy without a head is compared with that of the model, on the same pairs."""

    head: Head
    without: Accuracy
    loss: float  # accuracy of the model less that without the head
    low: float
    high: float  # interval of 95% of ``loss``

    @property
    def ends(self) -> str:
        """Where its interval begins and ends, in percentage points."""
        return f"{100 * self.low:+.1f} to {100 * self.high:+.1f}"

    @property
    def said(self) -> str:
        """How much the accuracy loses; 6 points are from 90% to 84%."""
        return f"{100 * self.loss:.1f} points (95% interval {self.ends})"


def paired_difference(
    model: Floats, other: Floats, groups: NDArray[np.int64] | None = None
) -> tuple[float, float, float]:
    """Return the difference of two accuracies on the same pairs, first less second, with its ends.

    The interval is that of Newcombe (1998, *Improved confidence intervals for the difference
    between binomial proportions based on paired data*), method 10. A half counts as half a pair of
    each kind. The method takes pairs as independent. Where those of a group, numbered from 0 in
    ``groups``, fall together, its distances are as many times as long as the standard error of the
    difference is by the sums of groups (the design effect of Kish 1965, *Survey Sampling*); never
    shorter.
    """
    first, second = (np.asarray(each, np.float64) for each in (model, other))
    count = len(first)
    both, neither = float(first @ second), float((1 - first) @ (1 - second))
    only_first, only_second = float(first @ (1 - second)), float((1 - first) @ second)
    margins = first.sum() * (count - first.sum()) * second.sum() * (count - second.sum())
    product = both * neither - only_first * only_second
    if product > 0:  # the continuity correction
        product = max(product - count / 2, 0.0)
    correlation = product / math.sqrt(margins) if margins > 0 else 0.0
    a, b = accuracy(first.astype(np.float32)), accuracy(second.astype(np.float32))
    apart = first - second - (a.share - b.share)
    widened = 1.0
    if groups is not None and apart.any():
        widened = max(1.0, float((np.bincount(groups, apart) ** 2).sum() / (apart @ apart)))

    def distance(one: float, two: float) -> float:
        squared = max(one**2 - 2 * correlation * one * two + two**2, 0.0)
        return math.sqrt(widened * squared)

    difference = a.share - b.share
    return (
        difference,
        difference - distance(a.share - a.low, b.high - b.share),
        difference + distance(a.high - a.share, b.share - b.low),
    )


def accuracy_curves(
    measured: MeasuredPairs, checkpoints: Mapping[int, PairScores]
) -> list[AccuracyCurve]:
    """Return the accuracy at some checkpoints: on all pairs, then by phenomenon.

    The curve of all pairs is left out if there is one phenomenon.
    """
    names = measured.phenomena
    found = {step: scores.outcomes for step, scores in checkpoints.items()}
    return [
        AccuracyCurve(
            name, list(found), [accuracy(each[measured.places(name)]) for each in found.values()]
        )
        for name in (["", *names] if len(names) > 1 else names)
    ]


def failing_pairs(measured: MeasuredPairs, scores: PairScores, phenomenon: str = "") -> list[int]:
    """Return the numbers of pairs whose right target is not the likelier one, worst first."""
    counted = scores.outcomes
    failing = [place for place in measured.places(phenomenon) if counted[place] < 1]
    return [failing[place] for place in descending(-scores.margins[failing])]


def accuracy_losses(measured: MeasuredPairs) -> list[AccuracyLoss]:
    """Return what the accuracy on all pairs loses without each head, the largest loss first. Equal
    ones stay in order of kind, layer and head; the list is empty if no head was switched off.
    """
    if measured.heads_step is None:
        return []
    model = measured.checkpoints[measured.heads_step].outcomes
    groups = groups_of(measured.pairs)
    losses: dict[Kind, Floats] = {
        kind: model.mean() - without.mean(axis=-1)
        for kind, without in measured.without_heads.items()
    }
    return [
        AccuracyLoss(head, accuracy(without), *paired_difference(model, without, groups))
        for head, _ in rank_heads(losses, kinds=list(losses))
        for without in [measured.without_heads[head.kind][head.layer, head.head]]
    ]


def counterpart(pairs: Iterable[ContrastivePair], pair: ContrastivePair) -> ContrastivePair | None:
    """Return the first pair with the same two words of which the other one is right; None if none.

    Its source is the second sentence that goes with the pair: what is right there is wrong here.
    """

    right, wrong = _own_words(pair)
    return next(
        (
            each
            for each in pairs
            if each.source != pair.source and _own_words(each) == (wrong, right)
        ),
        None,
    )


def groups_of(pairs: Iterable[ContrastivePair]) -> NDArray[np.int64]:
    """Number the groups of pairs that differ in the same two words, whichever is right: (n,)."""
    words = [frozenset(frozenset(each.items()) for each in _own_words(pair)) for pair in pairs]
    numbers = {each: number for number, each in enumerate(dict.fromkeys(words))}
    return np.array([numbers[each] for each in words], np.int64)


def _own_words(pair: ContrastivePair) -> tuple[Counter[str], Counter[str]]:
    right, wrong = (Counter(text.split()) for text in (pair.right, pair.wrong))
    return right - wrong, wrong - right
