"""Which figure of a failure finds detached targets best, fitted on a run's example sentences.

A *detached target* is the reference of another example sentence that is about as long, forced; a
*true target* is the sentence's own. All that is chosen or fitted is so on one half of the sentences
(those with an even number), at the newest checkpoint, and every AUC that is reported is of the
other half. A target is only ever forced on sentences of its own half.

``N`` sentences, ``L`` layers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.detached import Doubles
from headwise.viz_app.measuring.failures import RawFigures
from headwise.viz_app.records.measures import (
    BY_LAYER,
    ENOUGH,
    FAILURES,
    LARGEST_IS_WORST,
    Detection,
)

_MOST_COMBINED = 4
_LEAST_GAIN = 0.005
"""By how much another figure has to raise the AUC of a combination, in the half of the choice."""
_PENALTY = 1.0
"""λ of the L2 penalty λ/2 ‖w‖² on the weights of standardised figures, the bias left out."""
_RESAMPLES = 1_000
_DECIMALS = 5
"""As in the files: of equal figures none is larger."""


def detached_pairs(sentences: Sequence[EncodedPair]) -> list[EncodedPair]:
    """Give sentences the target of another one of the same half that is nearest in length.

    Left out are sentences for which there is none with another source and another target.
    """
    found = []
    for half in (0, 1):
        order = [s for s in sentences if s.number % 2 == half]
        order.sort(key=lambda s: (len(s.target), s.number))
        for place, sentence in enumerate(order):
            others = [
                (abs(len(other.target) - len(sentence.target)), abs(at - place), at)
                for at, other in enumerate(order)
                if other.target != sentence.target and other.source != sentence.source
            ]
            if others:
                found.append(replace(sentence, target=order[min(others)[2]].target))
    return sorted(found, key=lambda s: s.number)


def auc(true: Doubles, detached: Doubles) -> float:
    """Return the probability that a detached target has the larger figure, equal ones half.

    It is the statistic of Mann and Whitney (1947) over the number of pairs; NaN figures are left
    out, and without any it is NaN.
    """
    wins, of_true, of_detached = _compared(true, detached)
    pairs = of_true.sum() * of_detached.sum()
    return float(wins.sum() / pairs) if pairs else math.nan


def auc_interval(true: Doubles, detached: Doubles) -> tuple[float, float]:
    """Return the 95% interval of ``auc`` by resamples of the sentences (N,), each with both.

    (The percentiles of Efron 1979.)
    """
    wins, of_true, of_detached = _compared(true, detached)
    generator = np.random.default_rng(0)
    n = len(true)
    if not n:
        return math.nan, math.nan
    times = generator.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES).astype(np.float64)
    pairs = (times @ of_true) * (times @ of_detached)
    if not (pairs > 0).any():
        return math.nan, math.nan
    found = ((times @ wins) * times).sum(axis=1)[pairs > 0] / pairs[pairs > 0]
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def _compared(true: Doubles, detached: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Compare each detached target with each true one, (N, N), and say which have figures."""
    true, detached = np.round(true, _DECIMALS), np.round(detached, _DECIMALS)
    wins = (detached[:, None] > true) + (detached[:, None] == true) / 2
    return wins, *(np.isfinite(side).astype(np.float64) for side in (true, detached))


def equal_error_threshold(true: Doubles, detached: Doubles) -> float:
    """Return the threshold that as many true targets exceed as detached ones do not, as shares.

    Of several that come as near to it, the one in the middle; NaN without figures.
    """
    true, detached = (side[np.isfinite(side)] for side in (true, detached))
    if not len(true) or not len(detached):
        return math.nan
    values = np.unique(np.concatenate([true, detached]))
    middles = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
    exceed = (true > middles[:, None]).mean(axis=1)
    missed = (detached <= middles[:, None]).mean(axis=1)
    gap = np.round(np.abs(exceed - missed), _DECIMALS)
    best = np.flatnonzero(gap == gap.min())
    return float(middles[best[len(best) // 2]])


def fit_logistic(features: Doubles, labels: Doubles) -> Doubles:
    """Fit a logistic regression with an L2 penalty by Newton's method: (N, K), (N,) → (K + 1,).

    It minimises Σ ln(1 + e^(−s z)) + λ/2 ‖w‖², s = ±1 and λ = 1, over the weights w and the bias,
    which comes last.
    """
    inputs = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    penalty = np.diag([_PENALTY] * features.shape[1] + [0.0])
    weights = np.zeros(inputs.shape[1])
    for _ in range(30):
        shares = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (shares - labels) + penalty @ weights
        curvature = (inputs.T * (shares * (1 - shares))) @ inputs + penalty
        weights = weights - np.linalg.solve(curvature, gradient)
    return weights


@dataclass(frozen=True)
class Detector:
    """What was chosen and fitted at the newest checkpoint of a run, for all its checkpoints."""

    layers: Mapping[str, int]
    """The best layer of each name in ``BY_LAYER``, from 0."""
    layer_aucs: Mapping[str, Sequence[float]]
    """The AUC of every layer in the half of the choice."""
    default: str
    threshold: float
    """The equal-error threshold of the default figure, which is signed: larger is worse."""
    weights: Mapping[str, float]
    """Of the combination, by figure, for one standard deviation; empty without one."""
    bias: float
    scales: Mapping[str, tuple[float, float]]
    """Mean and standard deviation of the signed figures that are combined."""

    def figures(self, raw: RawFigures) -> dict[str, float]:
        """Return the figure for each name in ``FAILURES``: the combination's is its log-odds."""
        found = {name: float(raw.by_layer[name][layer]) for name, layer in self.layers.items()}
        found = {**raw.figures, **found, "combined": math.nan}
        if self.weights:
            found["combined"] = self.bias + sum(
                weight * np.nan_to_num((signed(name, found[name]) - mean) / deviation)
                for (name, weight), (mean, deviation) in zip(
                    self.weights.items(), self.scales.values(), strict=True
                )
            )
        return {name: float(found[name]) for name in FAILURES}

    def are_detached(self, raw: Sequence[RawFigures]) -> list[list[float]]:
        """Return for each target 1 if its default figure is beyond the threshold, else 0.

        Nothing is in the list of a target without the figure, or where nothing could be fitted.
        """
        values = [signed(self.default, self.figures(each)[self.default]) for each in raw]
        known = not math.isnan(self.threshold)
        return [
            [float(value > self.threshold)] if known and math.isfinite(value) else []
            for value in values
        ]

    def detection(
        self, true: Mapping[int, RawFigures], detached: Mapping[int, RawFigures]
    ) -> Detection:
        """Say how well each figure finds the detached targets of the half that was held out.

        ``true`` and ``detached`` have the figures of the same sentences, by their numbers.
        """
        held_out = [number for number in detached if number % 2]
        sides = [[of[number] for number in held_out] for of in (true, detached)]
        columns = [[self.figures(raw) for raw in side] for side in sides]
        aucs = {}
        for name in FAILURES:
            values = [_column(name, side) for side in columns]
            aucs[name] = (auc(*values), *auc_interval(*values))
        false, found = (_share(self.are_detached(side)) for side in sides)
        return Detection(
            default=self.default,
            sentences=len(held_out),
            aucs=aucs,
            layers=self.layers,
            layer_aucs=self.layer_aucs,
            weights=self.weights,
            beyond=(false, found),
        )


def signed(name: str, figure: float) -> float:
    """Return a figure so that the larger is the worse."""
    return figure if name in LARGEST_IS_WORST else -figure


def _column(name: str, figures: Sequence[Mapping[str, float]]) -> Doubles:
    return np.array([signed(name, each[name]) for each in figures])


def _share(flags: Sequence[Sequence[float]]) -> float:
    known = [each[0] for each in flags if each]
    return sum(known) / len(known) if known else math.nan


def fit_detector(true: Mapping[int, RawFigures], detached: Mapping[int, RawFigures]) -> Detector:
    """Choose the layers, the combination, the default and its threshold, on even sentences."""
    numbers = [number for number in detached if number % 2 == 0]
    sides = [[of[number] for number in numbers] for of in (true, detached)]
    layer_aucs = {name: _by_layer(name, *sides) for name in BY_LAYER}
    layers = {name: int(np.nan_to_num(found).argmax()) for name, found in layer_aucs.items()}
    alone = Detector(layers, layer_aucs, FAILURES[0], math.nan, {}, math.nan, {})
    figures = [[alone.figures(raw) for raw in side] for side in sides]
    columns = {name: [_column(name, side) for side in figures] for name in FAILURES}
    aucs = {name: np.nan_to_num(round(auc(*sides), 4)) for name, sides in columns.items()}
    best = max(aucs, key=lambda name: aucs[name])
    combined = _combine(columns, best, aucs[best])
    found = replace(alone, default=best)
    if combined is not None:
        weights, bias, scales, reached = combined
        found = replace(found, weights=weights, bias=bias, scales=scales)
        found = replace(found, default="combined" if reached >= ENOUGH else best)
    values = [
        np.array([signed(found.default, found.figures(raw)[found.default]) for raw in side])
        for side in sides
    ]
    return replace(found, threshold=equal_error_threshold(*values))


def _by_layer(name: str, true: Sequence[RawFigures], detached: Sequence[RawFigures]) -> list[float]:
    n_layers = len(true[0].by_layer[name]) if true else 1
    return [
        auc(*(np.array([raw.by_layer[name][layer] for raw in side]) for side in (true, detached)))
        for layer in range(n_layers)
    ]


def _combine(
    columns: Mapping[str, Sequence[Doubles]], first: str, reached: float
) -> tuple[dict[str, float], float, dict[str, tuple[float, float]], float] | None:
    """Add to the best figure, one after another, the one with which the fitted rule's AUC is best.

    Returns:
        Weights, bias, scales and AUC of the combination; None if no figure raises the AUC.
    """
    stacked = {name: np.concatenate(sides) for name, sides in columns.items()}
    scales = {
        name: (float(np.nanmean(values)), float(np.nanstd(values)))
        for name, values in stacked.items()
        if np.isfinite(values).any() and np.nanstd(values) > 0
    }
    features = {
        name: np.nan_to_num((stacked[name] - mean) / deviation)
        for name, (mean, deviation) in scales.items()
    }
    names, kept = [first], None
    labels = np.repeat([0.0, 1.0], [len(side) for side in columns[first]])
    while len(names) < _MOST_COMBINED:
        tried = []
        for name in features.keys() - set(names) if first in features else ():
            table = np.stack([features[each] for each in (*names, name)], axis=1)
            fitted = fit_logistic(table, labels)
            odds = table @ fitted[:-1] + fitted[-1]
            tried.append((auc(odds[labels == 0], odds[labels == 1]), name, fitted))
        if not tried:
            break
        value, name, fitted = max(tried, key=lambda each: (round(each[0], 4), each[1]))
        if value < reached + _LEAST_GAIN:
            break
        names, reached = [*names, name], value
        kept = fitted
    if kept is None:
        return None
    weights = dict(zip(names, kept[:-1].tolist(), strict=True))
    return weights, float(kept[-1]), {name: scales[name] for name in names}, reached
