"""Differences of measures on the same sentences, with their own errors, and how many stand apart.

Most measures are kept on resamples of the sentences, the same for all heads and checkpoints: the
error of a difference is its standard deviation over these (the paired bootstrap, Efron 1979).

Costs, ratios of nats lost to tokens, are kept by sentence. The error of the difference of two is by
linearisation (Cochran 1977, *Sampling Techniques*, section 6.4): a sentence with t tokens and costs
a and b counts with (a − A t) − (b − B t), where A and B are the two ratios; squares are summed over
sentences and divided by the square of all tokens.

``N`` sentences, ``R`` resamples, ``n`` heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import KINDS, Head
from headwise.viz_app.records.trace import Floats

if TYPE_CHECKING:  # which computes, too
    from headwise.viz_app.measuring.sentence_costs import SentenceCosts

_Doubles = NDArray[np.float64]
_Numbers = NDArray[np.floating[Any]]
_SURE = 2.0  # standard errors from which on two costs are said to differ
_ONE_IN = 0.05  # the chance that any pair of many stands apart by more than the bound of Bonferroni


@dataclass(frozen=True)
class Apart:
    """How many pairs, of heads or of a head at two checkpoints, differ by more than by chance."""

    pairs: int
    differ: int  # pairs that differ by more than two standard errors of their difference
    by_chance: float  # how many would if no two differed
    all_at_once: int  # pairs that differ although all are compared at once (Bonferroni)


def all_costs(costs: SentenceCosts) -> Floats:
    """Return the costs of all heads in the order of kinds, layers and heads, (N, n)."""
    return np.concatenate([costs.costs[kind].reshape(len(costs.tokens), -1) for kind in KINDS], 1)


def difference_errors(costs: _Numbers, tokens: NDArray[np.int32]) -> _Doubles:
    """Return the standard error of the difference of each two heads' costs, (n, n).

    ``costs`` are those of the sentences, (N, n), with ``tokens`` (N,).
    """
    table, counts = costs.astype(np.float64), tokens.astype(np.float64)
    ratios = table.sum(axis=0) / counts.sum()
    influences = (table - ratios * counts[:, None]) / counts.sum()  # of each sentence, (N, n)
    products = influences.T @ influences
    squares = np.diag(products)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0)))


def cost_change(
    now: SentenceCosts, before: SentenceCosts, head: Head
) -> tuple[float, float] | None:
    """Return the change of a head's cost per token with its error; None if sentences are others."""
    if now.corpus != before.corpus or not np.array_equal(now.places, before.places):
        return None
    both = np.stack([each.costs[head.kind][:, head.layer, head.head] for each in (now, before)], 1)
    ratios = both.astype(np.float64).sum(axis=0) / now.tokens.sum()
    return float(ratios[0] - ratios[1]), float(difference_errors(both, now.tokens)[0, 1])


def resampled_errors(deviations: _Doubles) -> _Doubles:
    """Return the standard error of each two heads' difference, (n, n), from resamples (R, n)."""
    return np.asarray((deviations[:, :, None] - deviations[:, None]).std(axis=0, ddof=1))


def resampled_change_errors(now: _Doubles, before: _Doubles) -> _Doubles:
    """Return the standard error of each head's change, (n,), from two tables as above, (R, n)."""
    return np.asarray((now - before).std(axis=0, ddof=1))


def stand_apart(values: Floats, errors: _Doubles) -> Apart:
    """Count the pairs of heads whose values, (n,), differ, by errors of differences, (n, n)."""
    rows, columns = np.triu_indices(len(values), 1)
    at = values.astype(np.float64)
    return changed(at[rows] - at[columns], errors[rows, columns])


def changed(differences: _Doubles, errors: _Doubles) -> Apart:
    """Count the differences, (pairs,), that are larger than chance would have it."""
    pairs, sizes = len(differences), np.abs(differences)
    bound = NormalDist().inv_cdf(1 - _ONE_IN / (2 * max(pairs, 1)))
    return Apart(
        pairs=pairs,
        differ=int((sizes > _SURE * errors).sum()),
        by_chance=pairs * math.erfc(_SURE / math.sqrt(2)),
        all_at_once=int((sizes > bound * errors).sum()),
    )
