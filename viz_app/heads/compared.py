"""Measures of heads compared on the same sentences: ranks, how many differ, and since when.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from headwise.model.files import CheckpointError
from headwise.model.interface import KINDS, Head
from headwise.viz_app.analysis.head_ranking import independent_errors
from headwise.viz_app.measuring.head_measures import DESCRIBED, RESAMPLED
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.tensor_files import CheckpointRecord, Resamples
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.cache import cached, stamp_if_there
from headwise.viz_app.session.caches import Run
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.given import given_measures
from headwise.viz_app.session.measures import measures_of

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


Kept = TypeVar("Kept", bound=CheckpointRecord)


def _kept_with(run: Run, measures: Measures, what: type[Kept]) -> Kept | None:
    """Return what was kept beside the measures, if it is of the same weights, heads and corpus.

    Raises:
        CheckpointError: if its file is damaged.
    """
    here = given_measures(run, measures.step)
    if here is not None and here.measures is measures:
        return next(each for each in vars(here).values() if isinstance(each, what))
    path = what.path(run.folder, measures.step)
    found = cached(
        f"{what.what} read",
        (str(path), stamp_if_there(path)),
        lambda: what.read(run.folder, measures.step),
        facts=lambda _: {"run": run.name, "step": measures.step},
    )
    if found is None or (found.sha256, found.corpus) != (measures.sha256, measures.corpus):
        return None
    [arrays] = (each for each in vars(found).values() if isinstance(each, Mapping))
    shapes = {kind: array.shape[-2:] for kind, array in arrays.items()}
    return found if shapes == run.description.shapes else None


def errors_of_differences(
    run: Run, measures: Measures, name: str, heads: Sequence[Head]
) -> tuple[_Doubles, str] | None:
    """Return the standard errors of differences of a measure, (n, n), and of what they are.

    Without costs by sentence, those of costs are as if each head were measured on other sentences.
    None where nothing is known of a measure's differences.
    """
    if name == "cost":
        return _errors_of_costs(run, measures, heads)
    try:
        found = _kept_with(run, measures, Resamples) if name in RESAMPLED else None
    except CheckpointError as error:
        return independent_errors([np.nan] * len(heads)), f"unknown: {describe_error(error)}"
    if found is None or name not in found.names:
        return None
    table = np.stack([found.of(name, head) for head in heads], axis=1)
    return resampled_errors(table), f"on the same {found.corpus.sentences:,} sentences"


def _errors_of_costs(run: Run, measures: Measures, heads: Sequence[Head]) -> tuple[_Doubles, str]:
    try:
        costs, problem = _kept_with(run, measures, SentenceCosts), ""
    except CheckpointError as error:
        costs, problem = None, f" ({describe_error(error).rstrip('.')})"
    if costs is None:
        own = [float(measures.cost_errors[head.kind][head.layer, head.head]) for head in heads]
        return independent_errors(own), (
            "taken as if each head were measured on other sentences, which is mostly more than "
            f"on the same: costs by sentence were not kept when this was measured{problem}"
        )
    places = [list(run.description.all_heads()).index(head) for head in heads]
    return difference_errors(all_costs(costs)[:, places], costs.tokens), (
        f"on the same {len(costs.tokens):,} sentences"
    )


def apart_note(values: Sequence[float], errors: _Doubles, of: str) -> str:
    """Say how many pairs of heads differ in a measure, and how many would by chance."""
    apart = stand_apart(np.array(values, np.float32), errors)
    if not apart.pairs:
        return ""
    return (
        f" Of {apart.pairs:,} pairs of these heads {apart.differ:,} differ by more than twice the "
        f"error of their difference, {of}. If no two heads differed, some {apart.by_chance:.0f} "
        f"would by chance.{_all_at_once(apart)}"
    )


def _all_at_once(apart: Apart) -> str:
    return (
        f" {apart.all_at_once:,} differ even if all are compared at once (each at 5% over "
        f"{apart.pairs:,}, Bonferroni)."
    )


def changes_note(run: Run, measures: Measures, name: str, heads: Sequence[Head]) -> str:
    """Say how many heads have changed in a measure since the checkpoint before.

    Empty where it is not known.
    """
    if (found := _changes(run, measures, name, heads)) is None:
        return ""
    earlier, differences, errors = found
    apart = changed(differences, errors)
    return (
        f" From checkpoint {earlier:,} to {measures.step:,}, {apart.differ:,} of these "
        f"{apart.pairs:,} heads have changed by more than twice the error of the change, on the "
        "same sentences; if none had, "
        f"some {apart.by_chance:.1f} would by chance.{_all_at_once(apart)}"
    )


def change_note(run: Run, measures: Measures, name: str, head: Head, what: str) -> str:
    """Say by how much a measure of a head, ``what``, has changed since the checkpoint before.

    Empty where there is none on the same sentences.
    """
    if (found := _changes(run, measures, name, [head])) is None:
        return ""
    earlier, [difference], [error] = found
    sure = abs(difference) > 2 * error
    unit = f" {DESCRIBED[name].unit}".rstrip()
    return (
        f"from checkpoint {earlier:,} to {measures.step:,} its {what} changed by "
        f"{with_error(difference, error, '+.3f')}{unit}, on the same sentences"
        f"{'' if sure else ', which may be chance'}"
    )


def _changes(
    run: Run, measures: Measures, name: str, heads: Sequence[Head]
) -> tuple[int, _Doubles, _Doubles] | None:
    """Return the measured step before, the changes since then, (n,), and their errors, (n,)."""
    before = [step for step in run.steps() if step < measures.step][-1:]
    earlier = measures_of(run, before).by_step.get(before[0]) if before else None
    if earlier is None or name not in ("cost", *RESAMPLED):
        return None
    both = (measures, earlier)
    try:
        if name == "cost":
            now, then = (_kept_with(run, each, SentenceCosts) for each in both)
            pairs = [now and then and cost_change(now, then, head) for head in heads]
            if not all(pairs):
                return None
            found = np.array(pairs)
            return earlier.step, found[:, 0], found[:, 1]
        resamples = [_kept_with(run, each, Resamples) for each in both]
    except CheckpointError:  # the list of heads says so
        return None
    tables = [
        np.stack([each.of(name, head) for head in heads], axis=1)
        for each in resamples
        if each is not None and name in each.names
    ]
    values = np.array(
        [
            [each.values[name][head.kind][head.layer, head.head] for head in heads]
            for each in both
            if name in each.values
        ]
    )
    if len(tables) < 2 or len(values) < 2 or measures.corpus != earlier.corpus:
        return None
    differences = values[0].astype(np.float64) - values[1]
    if not np.isfinite(differences).all():
        return None
    return earlier.step, differences, resampled_change_errors(*tables)
