"""Descriptions of the measures of failed translations, and sentences ordered by one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FailureDescription:
    """A measure of how a translation may have failed is described for people by these texts."""

    name: str
    note: str
    highest_first: bool
    """Whether the largest figure is the worst."""


FAILURE_DESCRIPTIONS: Mapping[str, FailureDescription] = {
    "coverage": FailureDescription(
        "coverage",
        "Coverage: the mean over source words of the weight that all steps together put on the "
        "word, at most 1; low if source words were not translated.",
        False,
    ),
    "repetition": FailureDescription(
        "repetition",
        "Repetition: the share of the translation's pairs of neighbouring words that occurred in "
        "it before.",
        True,
    ),
    "end": FailureDescription(
        "weight on </s>",
        "The mean weight of a step on the source's </s>, where heads look that find nothing.",
        True,
    ),
    "log_probability": FailureDescription(
        "log-probability",
        "The mean log-probability of a token of the translation, in nats, </s> included.",
        False,
    ),
}
"""Description of each name in ``FAILURES``."""


def worst_first(name: str, figures: Sequence[float]) -> list[int]:
    """Return the indices of sentences, worst figure first; those without a figure (NaN) last."""
    sign = -1.0 if FAILURE_DESCRIPTIONS[name].highest_first else 1.0
    keys = [np.inf if math.isnan(figure) else sign * figure for figure in figures]
    return sorted(range(len(figures)), key=keys.__getitem__)
