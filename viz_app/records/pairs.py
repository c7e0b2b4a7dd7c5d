"""Accuracy on pairs: sources with a right and a wrong target, and which a model finds likelier.

Sennrich (2017), *How Grammatical is Character-level Neural Machine Translation? Assessing MT
Quality with Contrastive Translation Pairs*. ``L`` layers, ``H`` heads, ``n`` pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from headwise.model.interface import Kind
from headwise.model.ties import near_largest
from headwise.viz_app.records.trace import Doubles, Floats

CHANCE = 0.5  # accuracy of guessing


@dataclass(frozen=True)
class ContrastivePair:
    """A source has two targets, of which one is wrong in a single phenomenon.

    ValueError if a text is empty, or both targets are the same.
    """

    source: str
    right: str
    wrong: str
    phenomenon: str

    def __post_init__(self) -> None:
        for name, text in vars(self).items():
            if not text.strip():
                raise ValueError(f"{name}: expected a text, got an empty one")
        if self.right.strip() == self.wrong.strip():
            raise ValueError(
                f"right and wrong are both {self.right!r:.60}; a pair needs two that differ"
            )


def outcomes(right: ArrayLike, wrong: ArrayLike) -> Floats:
    """Return 1 where the right target's log-probability is larger, 0 where the wrong one's is, 0.5
    where they are equal within rounding (``model/ties.py``): (n,), (n,) → (n,).
    """
    likelier = near_largest(np.stack([right, wrong], axis=-1))  # (n, 2)
    found: Floats = (likelier[..., 0] / likelier.sum(axis=-1)).astype(np.float32)
    return found


@dataclass(frozen=True)
class PairScores:
    """A checkpoint finds each target of each pair so likely: log P of the whole target, in nats."""

    step: int
    sha256: str  # the sha256 of the checkpoint's weights
    right: Doubles  # (n,)
    wrong: Doubles  # (n,)

    @property
    def margins(self) -> Doubles:
        """Return by how much the right targets are likelier, in nats, (n,)."""
        return self.right - self.wrong

    @property
    def outcomes(self) -> Floats:
        """Return how each pair counts for the accuracy, as ``outcomes``, (n,)."""
        return outcomes(self.right, self.wrong)


@dataclass(frozen=True)
class MeasuredPairs:
    """All that was measured of a run on pairs is held here, as in ``measures/pairs.json``."""

    run: str
    name: str  # name of the file that the pairs come from
    pairs: tuple[ContrastivePair, ...]
    checkpoints: Mapping[int, PairScores]  # by step, in order
    heads_step: int | None = None  # the checkpoint whose heads were switched off; None if none was
    without_heads: Mapping[Kind, Floats] = field(default_factory=dict)  # ``outcomes``, (L, H, n)

    @property
    def phenomena(self) -> list[str]:
        return list(dict.fromkeys(pair.phenomenon for pair in self.pairs))

    def places(self, phenomenon: str = "") -> list[int]:
        """Return the numbers of the pairs of a phenomenon, from 0; of all pairs if it is empty."""
        return [
            number for number, pair in enumerate(self.pairs) if phenomenon in ("", pair.phenomenon)
        ]


@dataclass(frozen=True)
class Accuracy:
    """A share has an interval of 95%."""

    share: float
    low: float
    high: float
    count: int  # number of pairs


@dataclass(frozen=True)
class AccuracyCurve:
    """The accuracy on some pairs is given at some steps, which rise."""

    phenomenon: str  # empty for all pairs
    steps: Sequence[int]
    values: Sequence[Accuracy]
