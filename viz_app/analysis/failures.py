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
from headwise.viz_app.analysis.head_ranking import rank_correlation, rank_correlation_interval
from headwise.viz_app.records.measures import (
    ENOUGH,
    LARGEST_IS_WORST,
    Detection,
    has_enough_letters,
)

_ALIKE = 20
"""Sentences, nearest in length, among which a figure is ranked."""
_FEWEST = 20
"""Fewest figures other than 0 that are compared with chrF."""


_NO_WRONG_WORD = "It cannot see a wrong word that was well attended."


@dataclass(frozen=True)
class FailureDescription:
    """A figure of how a translation may have failed is described for people by these texts."""

    name: str
    column: str
    """What the numbers are, in a word: the title of their column."""
    note: str
    none: str
    """What is said where no sentence can be listed."""
    blind: str = _NO_WRONG_WORD
    """What it cannot see, in a sentence."""
    zero_is_fine: bool = False
    """Whether 0 means that nothing failed; such sentences are not listed."""


_NONE = "There are no translations."
_DISTANCE = (
    "how far the attention on the source's tokens, the mean over heads and steps, is from {} "
    "(Wasserstein distance, Guerreiro et al. 2023)."
)
_NO_WORD = "No example sentence has a word of at least four letters."
FAILURE_DESCRIPTIONS: Mapping[str, FailureDescription] = {
    "log_probability": FailureDescription(
        "log-probability",
        "log-probability",
        "The mean log-probability of a token of the translation, in nats, </s> included.",
        _NONE,
        "It cannot see a wrong translation of which the model is sure.",
    ),
    "least_attended": FailureDescription(
        "least looked-at word",
        "weight",
        "Of the source words of at least four letters, function words among them, the one that "
        "is looked at least: the largest weight that any head of cross-attention, in any layer and "
        "at any position, puts on it.",
        _NO_WORD,
    ),
    "left_out": FailureDescription(
        "loss when a word is left out",
        "loss",
        "Each source word of at least four letters is left out in turn, and the same translation "
        "forced: the least that its log-probability loses, in nats. At about 0 or less a word may "
        "be redundant, a function word that the rest of the sentence implies, or ignored.",
        _NO_WORD,
    ),
    "repetition": FailureDescription(
        "repetition beyond the source's",
        "share",
        "The share of the translation's pairs of neighbouring words that occurred in it before, "
        "less the same share of the source.",
        "No translation repeats more of its pairs of words than its source does.",
        "It cannot see a translation that left its source and does not repeat itself.",
        zero_is_fine=True,
    ),
    "source_contribution": FailureDescription(
        "share of the source",
        "share",
        "The mean share of a prediction that comes from the source and not from the target so far, "
        "by ALTI+ (Ferrando et al. 2022).",
        _NONE,
    ),
    "wass_to_unif": FailureDescription(
        "far from uniform (Wass-to-Unif)",
        "distance",
        "In one layer, " + _DISTANCE.format("the same on each token, moved at a cost of 1"),
        _NONE,
    ),
    "wass_to_data": FailureDescription(
        "far from the usual (Wass-to-Data)",
        "distance",
        "In one layer, "
        + _DISTANCE.format(
            "that in the four most similar sentences of the corpus with targets of this length, "
            "moved at a cost of 1 a place"
        ),
        "There are no sentences to compare with.",
    ),
    "wass_combo": FailureDescription(
        "far from either (Wass-Combo)",
        "distance",
        "Wass-to-Data or, where it is beyond 99.9% of the corpus, Wass-to-Unif on the same scale "
        "(Guerreiro et al. 2023).",
        "There are no sentences to compare with.",
    ),
    "unaligned": FailureDescription(
        "words that align to nothing",
        "share",
        "The share of the translation's words whose attention, the mean over the heads of one "
        "layer, is more on what is no word of the source, such as </s>, than on any of its words.",
        _NONE,
    ),
    "combined": FailureDescription(
        "several figures together",
        "log-odds",
        "The log-odds that a target is another sentence's, by a logistic rule of at most four "
        "figures that was fitted on half of the example sentences.",
        _NONE,
        "It cannot see what none of its figures sees.",
    ),
}
"""Description of each name in ``FAILURES``."""


def shares_below(figures: Sequence[float], sources: Sequence[str]) -> list[float]:
    """Return for each sentence the share of those about as long whose figure is lower.

    Sentences are as long as they have words of at least four letters, then letters; the 20 nearest
    are compared, and equal figures are half lower. NaN without a figure, or without others.
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


def _shares_better(name: str, figures: Sequence[float], sources: Sequence[str]) -> list[float]:
    """Return for each sentence the share of those about as long whose figure is worse."""
    return shares_below(
        [-figure if name in LARGEST_IS_WORST else figure for figure in figures], sources
    )


def worst_first(name: str, figures: Sequence[float], sources: Sequence[str]) -> list[int]:
    """Return the indices of the sentences to list: those first that have a sign of failure most.

    They are in order of the share of sentences about as long whose figure is worse, then of the
    figures; where 0 means that nothing failed, of the figures alone. Those without a figure (NaN)
    are left out, and those at 0 where it means that.
    """
    if FAILURE_DESCRIPTIONS[name].zero_is_fine:
        listed = [place for place, figure in enumerate(figures) if figure > 0]
        return [listed[i] for i in descending([figures[place] for place in listed])]
    sign = 1 if name in LARGEST_IS_WORST else -1
    shares = _shares_better(name, figures, sources)
    listed = [place for place, figure in enumerate(figures) if not math.isnan(figure)]
    listed = [listed[i] for i in descending([sign * figures[place] for place in listed])]
    return [listed[i] for i in descending([-np.nan_to_num(shares[place]) for place in listed])]


def compare_with_chrf(
    name: str, figures: Sequence[float], scores: Sequence[float], sources: Sequence[str]
) -> str:
    """Say how well a sign orders sentences as the chrF of their translations, 0 to 100, does.

    Sentences without a figure (NaN) are left out.
    """
    known = sum(not math.isnan(figure) for figure in figures)
    if FAILURE_DESCRIPTIONS[name].zero_is_fine:
        above = sum(figure > 0 for figure in figures)
        return f"It is above 0 in {above:,} of {known:,} example sentences" + (
            ", too few to be compared with chrF." if above < _FEWEST else "."
        )
    shares = _shares_better(name, figures, sources)
    found = rank_correlation(shares, scores)
    if math.isnan(found):
        return f"Over {known:,} example sentences it cannot be compared with chrF."
    low, high = rank_correlation_interval(shares, scores)
    return (
        f"Over {known:,} example sentences the rank correlation of this order with chrF, which "
        f"compares translation and reference, is {found:+.2f}, 95% interval {low:+.2f} to "
        f"{high:+.2f} by resamples of the sentences: at +1 it would find the same sentences the "
        "worst, at 0 it would find them no better than chance."
    )


def compare_with_detached(name: str, detection: Detection) -> str:
    """Say how well a figure finds targets that belong to other sentences, and how it was chosen."""
    found, low, high = detection.aucs[name]
    if math.isnan(found):
        return "It has no AUC on references of other sentences."
    said = [
        f"Of {detection.sentences:,} held-out sentences, references of other sentences that are "
        "about as long were forced beside their own: its AUC, the share of pairs of both in which "
        f"it is worse for the other's, is {found:.2f}, 95% interval {low:.2f} to {high:.2f} by "
        "resamples of the sentences; chance is 0.50."
    ]
    if name in detection.layers:
        layers = ", ".join(f"{each:.2f}" for each in detection.layer_aucs[name])
        said.append(
            f"It is of layer {detection.layers[name] + 1}, the best on the other half of the "
            f"sentences at the newest checkpoint; the AUC of each layer there is {layers}."
        )
    if name == "combined":
        weights = ", ".join(
            f"{FAILURE_DESCRIPTIONS[each].name} {weight:+.2f}"
            for each, weight in detection.weights.items()
        )
        reaches = "does not reach" if found < ENOUGH else "reaches"
        said.append(
            f"It {reaches} {ENOUGH}. Weights, for a standard deviation to the worse: {weights}."
        )
    if name == detection.default:
        false, right = detection.beyond
        said.append(
            "It is the order that comes first, for its AUC on the other half at the newest "
            "checkpoint. Beyond the threshold with equal errors there, which Training counts "
            f"detached translations by, are here {false:.0%} of the sentences' own references and "
            f"{right:.0%} of the others."
        )
        if not detection.weights:
            said.append("No rule that combines figures has an AUC that is higher by 0.005.")
    return " ".join(said)
