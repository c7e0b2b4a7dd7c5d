"""Descriptions of the figures of failed translations, sentences listed by one of them, and how well
a figure agrees with chrF."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwise.model.ties import descending
from headwise.viz_app.analysis.head_ranking import rank_correlation


@dataclass(frozen=True)
class FailureDescription:
    """A figure of how a translation may have failed is described for people by these texts."""

    name: str
    column: str
    """What the numbers are, in a word: the title of their column."""
    note: str
    none: str
    """What is said where no sentence can be listed."""
    highest_first: bool = False
    """Whether the largest figure is the worst; then 0 means that nothing failed."""


_NO_WORD = "No example sentence has a word of at least four letters."
FAILURE_DESCRIPTIONS: Mapping[str, FailureDescription] = {
    "log_probability": FailureDescription(
        "log-probability",
        "log-probability",
        "The mean log-probability of a token of the translation, in nats, </s> included.",
        "There are no translations.",
    ),
    "least_attended": FailureDescription(
        "least looked-at content word",
        "weight",
        "Of the source words of at least four letters the one that is looked at least: the largest "
        "weight that any head of cross-attention, in any layer and at any step, puts on it.",
        _NO_WORD,
    ),
    "left_out": FailureDescription(
        "loss when a content word is left out",
        "loss",
        "Each source word of at least four letters is left out in turn, and the same translation "
        "forced: the least that its log-probability loses, in nats. About 0 or less says that the "
        "model ignored a word.",
        _NO_WORD,
    ),
    "repetition": FailureDescription(
        "repetition beyond the source's",
        "share",
        "The share of the translation's pairs of neighbouring words that occurred in it before, "
        "less the same share of the source.",
        "No translation repeats more of its pairs of words than its source does.",
        highest_first=True,
    ),
}
"""Description of each name in ``FAILURES``."""


def worst_first(name: str, figures: Sequence[float]) -> list[int]:
    """Return the indices of the sentences to list, worst figure first.

    Those without a figure (NaN) are left out, and those at 0 where the largest figure is the worst.
    """
    highest_first = FAILURE_DESCRIPTIONS[name].highest_first
    listed = [
        place
        for place, figure in enumerate(figures)
        if not math.isnan(figure) and (figure > 0 or not highest_first)
    ]
    sign = 1 if highest_first else -1
    return [listed[i] for i in descending([sign * figures[place] for place in listed])]


def compare_with_chrf(name: str, figures: Sequence[float], scores: Sequence[float]) -> str:
    """Say how well a figure orders sentences as the chrF of their translations, 0 to 100, does.

    Sentences without a figure (NaN) are left out.
    """
    known = sum(not math.isnan(figure) for figure in figures)
    found = rank_correlation(figures, scores)
    shown = "–" if math.isnan(found) else f"{round(found, 2) + 0.0:+.2f}"
    best = "-1" if FAILURE_DESCRIPTIONS[name].highest_first else "+1"
    return (
        f"Over {known:,} example sentences its rank correlation with chrF, which compares "
        f"translation and reference, is {shown}: at {best} it would find the same sentences "
        "the worst, at 0 it would find them no better than chance."
    )
