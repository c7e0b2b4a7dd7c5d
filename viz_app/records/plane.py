"""Queries and keys of one head over sentences, and how far their distances tell its scores.

``n`` queries and ``m`` keys of all sentences, one sentence after another; ``Q`` and ``M`` those of
one sentence; ``K`` = d_k.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwise.viz_app.records.trace import Floats


@dataclass(frozen=True)
class HeadVectors:
    """The queries and keys of a head, and the scores that it makes of them."""

    queries: Floats
    """(n, K)."""
    keys: Floats
    """(m, K)."""
    scores: tuple[Floats, ...]
    """Of each sentence, before softmax and cap, with what relative positions add to them: (Q, M);
    NaN where a query may not attend."""

    def __post_init__(self) -> None:
        sizes = tuple(sum(each.shape[axis] for each in self.scores) for axis in (0, 1))
        if sizes != (len(self.queries), len(self.keys)) or not all(sizes):
            raise ValueError(
                f"expected scores of {len(self.queries)} queries and {len(self.keys)} keys, and "
                f"some of both, got {sizes[0]} and {sizes[1]}"
            )


@dataclass(frozen=True)
class JointVectors:
    """Queries and keys in one space, in which near ones should have the larger scores."""

    rows: Floats
    """Queries divided by ``c``; then keys times ``c``, plus ``shift``: (n + m, K)."""
    c: float
    shift: Floats
    """(K,)."""


@dataclass(frozen=True)
class Agreement:
    """The rank correlation of nearness and score within rows, mean over rows."""

    value: float
    """From −1 to 1; NaN if there is no row with three keys that differ."""
    low: float
    """Of its 95% interval, by resamples of the sentences; NaN for a single one."""
    high: float
    chance: float
    """The same with the keys of each row permuted, which is expected to be 0."""
