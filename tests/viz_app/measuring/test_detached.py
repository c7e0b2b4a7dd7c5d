"""Signs that a target left its source, and which of them finds planted detached targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog, minimize
from scipy.stats import mannwhitneyu, wasserstein_distance

from headwise.model.config import BOS, EOS
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.data import Pair
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.detached import (
    SentenceMass,
    UsualMass,
    masses_in_batch,
    unaligned,
    wass_to_unif,
)
from headwise.viz_app.measuring.detection import (
    auc,
    auc_interval,
    detached_pairs,
    equal_error_threshold,
    fit_detector,
    fit_logistic,
)
from headwise.viz_app.measuring.failures import RawFigures
from headwise.viz_app.records.measures import BY_LAYER, FAILURES
from headwise.viz_app.trace.attention import run_maps
from tests.floats import PASS, near
from tests.model.pretrained.tiny import FAMILY_NAMES, build
from tests.viz_app.measuring.conftest import PAIR, WORDS

PAIRS = [
    ([5, 17, 9, 30, 8, EOS], [BOS, 12, 7, 33, EOS]),
    ([5, 5, EOS], [BOS, 9, 8, 7, 6, 5, EOS]),
]
"""Ids of different lengths, so that a batch has padding on both sides."""


def numbered(pairs: Any) -> list[EncodedPair]:
    return [EncodedPair(n, Pair(str(n), ""), *pair) for n, pair in enumerate(pairs)]


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test_masses_in_a_batch_are_those_of_each_sentence_alone(name: str) -> None:
    model = build(name, dtype=torch.float64).ours
    found = masses_in_batch(model, numbered(PAIRS))
    for number, (source, target) in enumerate(PAIRS):
        with torch.inference_mode():
            maps, _ = run_maps(model, torch.tensor([source]), torch.tensor([target[:-1]]))
        heads = maps["cross"][0].numpy().mean(axis=1)  # (L, H, T, S) → (L, T, S)
        expected = (heads / heads.sum(axis=-1, keepdims=True)).mean(axis=1)
        assert found[number].mass == near(expected, operations=PASS)
        assert found[number].mass.sum(axis=-1) == near(np.ones(len(expected)), operations=PASS)
        assert found[number].length == len(target) - 1


def transport(first: Any, second: Any, cost: Any) -> float:
    """The least cost of moving one mass to the other, by linear programming."""
    n = len(first)
    rows = [np.kron(np.eye(n)[i], np.ones(n)) for i in range(n)]
    columns = [np.kron(np.ones(n), np.eye(n)[i]) for i in range(n)]
    sums = np.concatenate([first, second])
    return float(linprog(cost.ravel(), A_eq=np.array(rows + columns), b_eq=sums).fun)


def test_distance_to_uniform_is_the_least_cost_of_moving() -> None:
    masses = np.random.default_rng(2).dirichlet(np.ones(5), size=3)
    uniform = np.full(5, 1 / 5)
    expected = [transport(mass, uniform, 1 - np.eye(5)) for mass in masses]
    assert wass_to_unif(masses).tolist() == near(expected, dtype=np.float32)
    assert wass_to_unif(np.array([[1.0, 0, 0, 0], [0.25] * 4])).tolist() == near([0.75, 0.0])


def test_distance_to_data_is_the_mean_of_the_four_nearest_of_that_length() -> None:
    generator = np.random.default_rng(3)
    sizes, lengths = [4, 6, 5, 7, 4, 6, 5, 5], [20, 21, 19, 20, 21, 19, 20, 40]
    usual = [
        SentenceMass(f"source {n}", length, generator.dirichlet(np.ones(size), size=2))
        for n, (size, length) in enumerate(zip(sizes, lengths, strict=True))
    ]
    # Of another length, but nearer than all; of this length, but with the same source.
    own = SentenceMass("source 0", 20, usual[7].mass)

    def distance(other: SentenceMass, layer: int) -> float:
        sides = own.mass[layer], other.mass[layer]
        return float(wasserstein_distance(*(range(len(side)) for side in sides), *sides))

    expected = [
        np.mean(sorted(distance(other, layer) for other in usual[1:7])[:4]) for layer in (0, 1)
    ]
    assert UsualMass(usual).wass_to_data(own).tolist() == near(expected)
    # Nothing is as long as this: all but its own source are compared, this very mass among them.
    long = SentenceMass("source 0", 90, usual[7].mass)
    expected = [
        np.mean(sorted(distance(other, layer) for other in usual[1:])[:4]) for layer in (0, 1)
    ]
    assert UsualMass(usual).wass_to_data(long).tolist() == near(expected)
    assert np.isnan(UsualMass(usual[:1]).wass_to_data(own)).all()
    assert all(np.isnan(UsualMass([]).distances(own)[name]).all() for name in BY_LAYER[1:3])


def test_combination_of_distances_takes_the_first_where_it_is_rare() -> None:
    masses = np.random.default_rng(4).dirichlet(np.ones(4), size=(30, 1))
    usual = UsualMass([SentenceMass(str(n), 9, mass) for n, mass in enumerate(masses)])
    unif = [wass_to_unif(mass)[0] for mass in masses]
    data = [usual.wass_to_data(SentenceMass(str(n), 9, mass))[0] for n, mass in enumerate(masses)]
    assert usual.wass_combo(np.array([min(unif)]), np.array([7.0])).tolist() == [7.0]
    assert usual.wass_combo(np.array([max(unif)]), np.array([7.0])).tolist() == near([max(data)])
    found = usual.distances(SentenceMass("one", 9, np.array([[0, 0, 0, 1.0]])))
    scale = (max(data) - min(data)) / (max(unif) - min(unif))
    assert found["wass_combo"].tolist() == near([min(data) + (0.75 - min(unif)) * scale])


def test_words_that_align_to_nothing_by_hand() -> None:
    """Rows predict el, perro, rojo and </s>; keys are the, red, dog and </s>, which is no word."""
    sentence = EncodedPair(
        0, PAIR, WORDS.encode_source(PAIR.source), WORDS.encode_target(PAIR.target)
    )
    first = [[0.1, 0.1, 0.1, 0.7], [0.5, 0, 0, 0.5], [0.3, 0.2, 0.1, 0.4], [0, 0, 0, 1.0]]
    second = [[0.7, 0.1, 0.1, 0.1]] * 3 + [[0, 0, 0, 1.0]]
    found = unaligned(WORDS, sentence, torch.tensor([first, second]))
    assert found.tolist() == near([2 / 3, 0.0])


def test_tokens_of_a_word_align_together(tokenizers: TokenizerPair) -> None:
    """A source word of several tokens counts as much as they have together."""
    source, target = tokenizers.encode_source("preocupes"), tokenizers.encode_target("ve")
    assert len(source) > 2
    sentence = EncodedPair(0, Pair("", ""), source, target)
    row = torch.tensor([0.55 / (len(source) - 1)] * (len(source) - 1) + [0.45])
    maps = row.expand(1, len(target) - 1, -1)
    assert maps[0, 0].argmax() == len(source) - 1
    assert unaligned(tokenizers, sentence, maps).tolist() == [0.0]


def test_detached_target_is_of_the_same_half_and_about_as_long() -> None:
    lengths = [3, 9, 4, 30, 20, 8, 5]
    given = numbered([([10 + n, EOS], [BOS, *[20 + n] * k, EOS]) for n, k in enumerate(lengths)])
    found = detached_pairs(given)
    donors = [next(g.number for g in given if g.target == pair.target) for pair in found]
    assert [pair.number for pair in found] == [*range(7)]
    assert [pair.source for pair in found] == [pair.source for pair in given]
    assert donors == [2, 5, 0, 1, 6, 1, 2]
    alike = numbered([([5, EOS], [BOS, n, EOS]) for n in range(6, 10)])
    assert detached_pairs(alike) == []  # the sources are the same


def test_auc_is_that_of_mann_and_whitney() -> None:
    generator = np.random.default_rng(5)
    true, detached = generator.integers(0, 9, 40) / 2, generator.integers(3, 12, 40) / 2
    expected = mannwhitneyu(detached, true).statistic / 40**2
    assert auc(true, detached) == near(expected)
    low, high = auc_interval(true, detached)
    assert low < expected < high
    drawn = [generator.integers(40, size=40) for _ in range(1_000)]
    by_hand = [mannwhitneyu(detached[rows], true[rows]).statistic / 40**2 for rows in drawn]
    assert np.abs(np.percentile(by_hand, [2.5, 97.5]) - [low, high]).max() < 0.02  # chance
    assert auc(np.append(true, np.nan), np.append(detached, np.nan)) == near(expected)
    assert auc(true, true) == 0.5
    assert np.isnan([auc(np.ones(0), np.ones(0)), *auc_interval(np.ones(0), np.ones(0))]).all()


def test_equal_error_threshold_by_hand() -> None:
    assert equal_error_threshold(np.array([1.0, 2, 3]), np.array([5.0, 6, np.nan])) == 4
    # A quarter of the true ones exceed 3.5, and a quarter of the detached ones do not.
    true, detached = np.array([0.0, 1, 2, 5]), np.array([3.0, 4, 6, 7])
    assert equal_error_threshold(true, detached) == 3.5
    assert np.isnan(equal_error_threshold(np.ones(0), np.ones(0)))


def test_fitted_rule_has_the_least_penalised_loss() -> None:
    generator = np.random.default_rng(6)
    features, labels = generator.standard_normal((50, 2)), np.repeat([0.0, 1.0], 25)
    features[25:, 0] += 1.5

    def loss(weights: Any) -> float:
        odds = features @ weights[:-1] + weights[-1]
        return float(np.logaddexp(0, np.where(labels == 1, -odds, odds)).sum()) + float(
            weights[:-1] @ weights[:-1] / 2
        )

    expected = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-7}).x
    assert np.abs(fit_logistic(features, labels) - expected).max() < 1e-4  # as the search is


def planted(seed: int, **shifts: float) -> tuple[dict[int, RawFigures], dict[int, RawFigures]]:
    """Figures of 200 sentences of two layers; those of detached targets are shifted to the worse.

    Of the figures by layer only the second layer's is shifted.
    """
    generator = np.random.default_rng(seed)

    def make(times: float) -> dict[int, RawFigures]:
        found = {}
        for number in range(200):
            values = {n: generator.normal() + times * shifts.get(n, 0) for n in FAILURES[:-1]}
            layers = {n: np.array([generator.normal(), values.pop(n)]) for n in BY_LAYER}
            good = {n: value if n == "repetition" else -value for n, value in values.items()}
            found[number] = RawFigures(good, layers)
        return found

    return make(0), make(1)


def test_planted_layer_and_figure_are_chosen() -> None:
    true, detached = planted(7, unaligned=2.5, left_out=0.5)
    detector = fit_detector(true, detached)
    found = detector.detection(true, detached)
    assert (found.default, found.layers["unaligned"], found.sentences) == ("unaligned", 1, 100)
    held_out = [n for n in true if n % 2]
    values = [[of[n].by_layer["unaligned"][1] for n in held_out] for of in (true, detached)]
    assert found.aucs["unaligned"][0] == near(mannwhitneyu(values[1], values[0]).statistic / 1e4)
    assert abs(found.aucs["repetition"][0] - 0.5) < 0.15  # three standard errors
    beyond = [np.mean(np.array(side) > detector.threshold) for side in values]
    assert list(found.beyond) == near(beyond)
    assert beyond[0] < 0.2 < 0.8 < beyond[1]
    flags = detector.are_detached([detached[n] for n in held_out])
    assert np.mean(flags) == near(beyond[1])


def test_several_weak_figures_are_combined_if_that_is_enough() -> None:
    strong = dict.fromkeys(("log_probability", "left_out", "source_contribution"), 1.1)
    found = fit_detector(*planted(8, **strong)).detection(*planted(9, **strong))
    assert found.default == "combined"
    assert {*strong} <= {*found.weights}
    assert len(found.weights) <= 4
    assert all(found.weights[name] > 0 for name in strong)  # each to the worse
    assert found.aucs["combined"][0] > 0.85 > max(found.aucs[name][0] for name in strong)
    weak = dict.fromkeys(strong, 0.3)
    found = fit_detector(*planted(8, **weak)).detection(*planted(9, **weak))
    assert found.default != "combined"
    assert found.aucs["combined"][0] < 0.85


def test_nothing_is_found_without_detached_targets() -> None:
    detector = fit_detector({}, {})
    found = detector.detection({}, {})
    assert (found.default, found.weights, found.sentences) == ("log_probability", {}, 0)
    assert np.isnan([*found.beyond, *found.aucs["unaligned"]]).all()
    one, _ = planted(10)
    assert detector.are_detached([one[0]]) == [[]]
