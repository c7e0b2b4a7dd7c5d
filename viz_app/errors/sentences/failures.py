"""Signs of a failed translation: their descriptions, sentences in the order of one, and chrF.

The least of a sentence's words is less, the more words it has. So a sentence's figure is ranked
among those of sentences that are about as long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.model.ties import descending
from headwise.viz_app.analysis.head_ranking import correlation_in_words
from headwise.viz_app.records.measures import has_enough_letters

_ALIKE = 20  # sentences, nearest in length, among which a figure is ranked


@dataclass(frozen=True)
class FailureDescription:
    """A figure of how a translation may have failed is described for people by these texts."""

    name: str
    column: str  # what the numbers are, in a word: the title of their column
    note: str
    none: str  # what is said where no sentence can be listed
    blind: str  # what it cannot see, in a sentence


FAILURE_DESCRIPTIONS: Mapping[str, FailureDescription] = {
    "log_probability": FailureDescription(
        "log-probability",
        "log-probability",
        "The mean log-probability of a token of the translation, in nats, </s> included.",
        "There are no translations.",
        "It cannot see a wrong translation of which the model is sure.",
    ),
    "source_contribution": FailureDescription(
        "share of the source",
        "share",
        "The mean share of a prediction that comes from the source and not from the target so far, "
        "by ALTI+ (Ferrando et al. 2022).",
        "These measures have no share of the source; measure again.",
        "It cannot see a wrong word that was well attended.",
    ),
}


def shares_below(figures: Sequence[float], sources: Sequence[str]) -> list[float]:
    """Return for each sentence the share of the 20 nearest in length whose figure is lower, equal
    ones by half; NaN without a figure, or without others. Length is in long words, then letters.
    """

    def length(place: int) -> tuple[int, int]:
        return sum(map(has_enough_letters, sources[place].split())), len(sources[place])

    known = [place for place, figure in enumerate(figures) if not math.isnan(figure)]
    known.sort(key=length)
    shares = [math.nan] * len(figures)
    for at, place in enumerate(known):
        first = max(0, min(at - _ALIKE // 2, len(known) - _ALIKE - 1))
        others = [figures[i] for i in known[first : first + _ALIKE + 1] if i != place]
        if others:
            below = sum((o < figures[place]) + (o == figures[place]) / 2 for o in others)
            shares[place] = below / len(others)
    return shares


def worst_first(figures: Sequence[float], sources: Sequence[str]) -> list[int]:
    """Return the indices of the sentences with a figure, those first that have a sign of failure
    most: by the share of sentences about as long whose figure is lower, then by figures.
    """
    shares = shares_below(figures, sources)
    listed = [place for place, figure in enumerate(figures) if not math.isnan(figure)]
    listed = [listed[i] for i in descending([-figures[place] for place in listed])]
    return [listed[i] for i in descending([-np.nan_to_num(shares[place]) for place in listed])]


def compare_with_chrf(
    figures: Sequence[float], scores: Sequence[float], sources: Sequence[str]
) -> str:
    """Say how well a sign orders sentences, those with a figure, as their chrF, 0 to 100, does."""
    known = sum(not math.isnan(figure) for figure in figures)
    shares = shares_below(figures, sources)
    found = correlation_in_words(shares, scores, "sentences")
    if not found:
        return f"Over {known:,} example sentences it cannot be compared with chrF."
    return (
        f"Over {known:,} example sentences the rank correlation of this order with chrF, which "
        f"compares translation and reference, is {found}: at +1 it would find the same sentences "
        "the worst, at 0 it would find them no better than chance."
    )
