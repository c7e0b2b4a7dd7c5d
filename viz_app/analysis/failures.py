"""Ways in which a translation may have failed, for people; sentences by one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Failure:
    """A way in which a translation may have failed, for people."""

    name: str
    note: str
    highest_first: bool
    """Whether the highest figure is the worst."""


FAILURE_ABOUT: Mapping[str, Failure] = {
    "coverage": Failure(
        "coverage",
        "Coverage: the mean over source words of the weight that all steps together put on the "
        "word, at most 1; little, where words were passed over.",
        False,
    ),
    "repetition": Failure(
        "repetition",
        "Repetition: the share of the translation's pairs of neighbouring words that stood in it "
        "before.",
        True,
    ),
    "end": Failure(
        "weight on </s>",
        "The mean weight of a step on the source's </s>, where heads look that find nothing.",
        True,
    ),
    "log_probability": Failure(
        "log-probability",
        "The mean log-probability of a piece of the translation, in nats, </s> included.",
        False,
    ),
}
"""By the names of ``FAILURES``."""


def worst_first(name: str, figures: Sequence[float]) -> list[int]:
    """Places of sentences by a measure of failure, the worst first; those without a figure last."""
    sign = -1.0 if FAILURE_ABOUT[name].highest_first else 1.0
    keys = [np.inf if math.isnan(figure) else sign * figure for figure in figures]
    return sorted(range(len(figures)), key=keys.__getitem__)
