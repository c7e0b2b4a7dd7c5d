"""Accuracy on pairs, its intervals, what fails, and heads; differences of costs of sentences."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headwise.model.interface import Head
from headwise.viz_app.analysis.pairs import (
    AccuracyLoss,
    accuracy,
    accuracy_curves,
    accuracy_losses,
    failing_pairs,
    groups_of,
    paired_difference,
)
from headwise.viz_app.heads.compared import (
    all_costs,
    changed,
    cost_change,
    difference_errors,
    resampled_change_errors,
    resampled_errors,
    stand_apart,
)
from headwise.viz_app.records.pairs import ContrastivePair, PairScores, outcomes
from tests.floats import near
from tests.viz_app.measures import MARGINS, made_up_costs, made_up_pairs

Z = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""


def wilson(right: int, count: int) -> tuple[float, float]:
    """Solve |p − share| = z √(p (1 − p) / n) for p: a p² + b p + c = 0."""
    share = right / count
    a, b, c = 1 + Z**2 / count, -(2 * share + Z**2 / count), share**2
    root = math.sqrt(b * b - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def counted(*groups: tuple[int, float]) -> np.ndarray:
    return np.concatenate([np.full(times, value, np.float32) for times, value in groups])


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [
        # Newcombe (1998), Table I: 81 of 263 and 15 of 148 by the score method.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_intervals_are_those_of_wilson(right: int, count: int, low: float, high: float) -> None:
    found = accuracy(counted((right, 1), (count - right, 0)))
    assert (found.share, found.count) == (near(right / count), count)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.5e-4)
    assert (found.low, found.high) == near(wilson(right, count), size=count)


def test_a_tie_counts_a_half_and_widens_the_interval() -> None:
    found = accuracy(counted((6, 1), (1, 0.5), (3, 0)))
    assert found.share == near(0.65)
    assert (found.low, found.high) == near((wilson(6, 10)[0], wilson(7, 10)[1]), size=10)


@pytest.mark.parametrize(
    ("right", "wrong", "expected"),
    [
        (-3.0, -5.0, 1),
        (-5.0, -3.0, 0),
        (-4.0, -4.0, 0.5),
        (-40.0, -40.0 - 2.0**-14, 0.5),  # rounding is 40 · 2⁻¹⁸ there
        (-40.0, -40.0 - 2.0**-12, 1),
    ],
)
def test_the_likelier_target_counts(right: float, wrong: float, expected: float) -> None:
    assert outcomes([right], [wrong]).tolist() == [expected]


def test_a_paired_difference_has_the_published_interval() -> None:
    """Fagerland, Lydersen and Laake (2014), Table II: 1, 1, 7 and 12 of 21 children.

    The difference is −0.286, and the interval of Newcombe's square-and-add −0.507 to −0.026.
    """
    first, second = counted((2, 1), (19, 0)), counted((1, 1), (1, 0), (7, 1), (12, 0))
    found = paired_difference(first, second)
    assert found == pytest.approx((-6 / 21, -0.507, -0.026), abs=0.5e-3)
    back = paired_difference(second, first)
    assert back == near((-found[0], -found[2], -found[1]))


def test_pairs_that_fall_together_widen_the_interval() -> None:
    """Of 8 pairs 2 are lost. As one group of two they count once, and apart they count twice.

    The differences less their mean are 3/4 twice and −1/4 six times, with squares of 3/2 in all.
    Sums of groups of two are 3/2 and −1/2 three times, with squares of 3: twice as many.
    """
    model, without = np.ones(8, np.float32), counted((2, 0), (6, 1))
    loss, low, high = paired_difference(model, without)
    together = paired_difference(model, without, np.arange(8) // 2)
    assert together[0] == loss == 0.25
    assert (loss - together[1], together[2] - loss) == near(
        (math.sqrt(2) * (loss - low), math.sqrt(2) * (high - loss))
    )
    # Sums of groups in which one pair is lost and one is not are 1/2 twice, and −1/2 twice: less.
    assert paired_difference(model, without, np.array([0, 1, 0, 1, 2, 2, 3, 3])) == (
        loss,
        low,
        high,
    )


def test_pairs_of_the_same_two_words_are_a_group() -> None:
    pairs = [
        ContrastivePair("a", "Er sieht es", "Sie sieht es", "x"),
        ContrastivePair("b", "Sie sieht es", "Er sieht es", "x"),
        ContrastivePair("c", "Das ist rot", "Das ist blau", "x"),
        ContrastivePair("d", "Dort geht Er", "Dort geht Sie", "y"),
    ]
    assert groups_of(pairs).tolist() == [0, 0, 1, 0]


def test_no_difference_has_an_interval_around_0() -> None:
    same = counted((30, 1), (10, 0))
    difference, low, high = paired_difference(same, same)
    assert difference == 0
    assert low == near(-high)
    assert 0 < high < 0.2
    all_right = counted((10, 1))
    # Nothing is known of the correlation: the lower end is √2 times that of one share.
    assert paired_difference(all_right, all_right)[2] == near(1 - wilson(10, 10)[0])


def test_curves_are_of_all_pairs_and_of_each_phenomenon() -> None:
    measured = made_up_pairs()
    curves = accuracy_curves(measured, measured.checkpoints)
    shares = {curve.phenomenon: [each.share for each in curve.values] for curve in curves}
    assert shares == {"": [0.375, 0.75], "gender": [0.5, 1.0], "negation": [0.25, 0.5]}
    assert [curve.values[0].count for curve in curves] == [4, 2, 2]
    assert {tuple(curve.steps) for curve in curves} == {(0, 20)}
    one = replace(measured, pairs=tuple(replace(p, phenomenon="x") for p in measured.pairs))
    assert [curve.phenomenon for curve in accuracy_curves(one, one.checkpoints)] == ["x"]


def test_failing_pairs_are_listed_the_worst_first() -> None:
    measured = made_up_pairs()
    first, last = measured.checkpoints.values()
    assert first.margins.tolist() == [*MARGINS[0]]
    assert failing_pairs(measured, first) == [2, 0, 3]
    assert failing_pairs(measured, first, "negation") == [2, 3]
    assert failing_pairs(measured, last, "gender") == []
    rounded = PairScores(0, "", np.array([-9.0, -9.0 + 1e-7, -5, -5]), np.array([-8.0, -8, -4, -6]))
    assert failing_pairs(measured, rounded) == [0, 1, 2]  # equal within rounding: in their order


def test_heads_are_ordered_by_what_the_accuracy_loses() -> None:
    measured = made_up_pairs()
    losses = accuracy_losses(measured)
    assert [each.head for each in losses[:3]] == [
        Head("cross", 1, 2),
        Head("encoder_self", 0, 0),
        Head("encoder_self", 0, 1),
    ]
    right = Fraction(sum(margin > 0 for margin in MARGINS[20]), 4)
    assert [each.loss for each in losses[:3]] == near([float(right), 0.125, 0.0])
    assert [each.without.share for each in losses[:3]] == near([0.0, 0.625, 0.75])
    assert len(losses) == 18
    assert losses[0].low > 0 > losses[1].low
    assert accuracy_losses(replace(measured, heads_step=None)) == []


def test_what_all_sentences_share_has_no_error_in_a_difference() -> None:
    """The second head costs each sentence as much as the first and 2 nats a token more."""
    tokens = np.array([4, 1, 5], np.int32)
    one = np.array([3.0, -1.0, 2.5])
    errors = difference_errors(np.stack([one, one + 2 * tokens], axis=1), tokens)
    assert errors == near(np.zeros((2, 2)))


def test_the_error_of_a_difference_is_that_of_its_ratio_by_hand() -> None:
    """Sentences of one token each: the error of a mean, over n and not n − 1."""
    a, b = np.array([1.0, 4.0, 2.0, 1.0]), np.array([0.0, 1.0, 3.0, 0.0])
    errors = difference_errors(np.stack([a, b], axis=1), np.ones(4, np.int32))
    assert errors[0, 1] == errors[1, 0] == near(np.std(a - b) / 2)
    assert errors[0, 0] == errors[1, 1] == near(0)


def test_a_change_is_of_the_same_sentences_only() -> None:
    now, before = made_up_costs(60), made_up_costs(20)
    head = Head("cross", 1, 2)
    columns = [each.costs["cross"][:, 1, 2].astype(float) for each in (now, before)]
    found = cost_change(now, before, head)
    assert found is not None
    assert found[0] == near((columns[0].sum() - columns[1].sum()) / now.tokens.sum())
    assert found[1] == near(difference_errors(np.stack(columns, 1), now.tokens)[0, 1])
    others = replace(before, places=np.array([0, 1, 2, 3], np.int32))
    assert cost_change(now, others, head) is None


def test_pairs_that_differ_are_counted_beside_those_of_chance() -> None:
    """Errors of 1: 2.5 apart is beyond two of them, not beyond what six pairs ask together."""
    errors = np.ones((4, 4))
    apart = stand_apart(np.array([0, 0.5, 2.5, 10], np.float32), errors)
    assert (apart.pairs, apart.differ, apart.all_at_once) == (6, 4, 3)
    assert apart.by_chance == pytest.approx(6 * 0.0455, abs=1e-3)
    assert stand_apart(np.zeros(1, np.float32), np.zeros((1, 1))).pairs == 0


def test_errors_of_resampled_differences_leave_out_what_is_shared() -> None:
    """What moves with the sentences in both heads, or at both checkpoints, is no error."""
    random = np.random.default_rng(0)
    shared, own = random.standard_normal((200, 1)), random.standard_normal((200, 2)) / 9
    table = shared + own
    errors = resampled_errors(table)
    assert errors[0, 1] == errors[1, 0] == near(np.std(own[:, 0] - own[:, 1], ddof=1))
    assert errors[0, 0] == near(0)
    before = shared - own
    assert resampled_change_errors(table, before).tolist() == near(np.std(2 * own, 0, ddof=1))
    apart = changed(np.array([0.1, -3.0, 2.5]), np.ones(3))
    assert (apart.pairs, apart.differ, apart.all_at_once) == (3, 2, 2)


def test_a_loss_is_said_in_points() -> None:
    found = AccuracyLoss(Head("cross", 0, 0), accuracy(counted((9, 1), (1, 0))), 0.0625, -0.01, 0.2)
    assert found.said == "6.2 points (95% interval -1.0 to +20.0)"


def test_the_error_is_about_what_resamples_of_the_sentences_give() -> None:
    random = np.random.default_rng(0)
    tokens = random.integers(3, 12, 400).astype(np.int32)
    both = random.standard_normal(400)[:, None] + random.standard_normal((400, 2)) / 3 + 1
    costs = both * tokens[:, None]
    found = difference_errors(costs, tokens)[0, 1]
    drawn = random.integers(400, size=(4_000, 400))
    means = costs[drawn].sum(axis=1) / tokens[drawn].sum(axis=1)[:, None]
    assert found == pytest.approx(np.std(means[:, 0] - means[:, 1]), rel=0.1)
    assert found < 0.7 * np.hypot(*means.std(axis=0))  # what independent sentences would give


def test_columns_are_heads_in_the_order_of_kinds() -> None:
    costs = made_up_costs()
    table = all_costs(costs)
    assert table.shape == (4, 18)
    np.testing.assert_array_equal(table[:, 6 + 4], costs.costs["decoder_self"][:, 1, 1])
