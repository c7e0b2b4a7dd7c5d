"""Differences of costs on the same sentences: their errors, and how many pairs stand apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headwise.model.interface import Head
from headwise.viz_app.analysis.paired import (
    all_costs,
    changed,
    cost_change,
    difference_errors,
    resampled_change_errors,
    resampled_errors,
    stand_apart,
)
from tests.floats import near
from tests.viz_app.measures import made_up_costs


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


def test_columns_are_heads_in_the_order_of_kinds() -> None:
    costs = made_up_costs()
    table = all_costs(costs)
    assert table.shape == (4, 18)
    np.testing.assert_array_equal(table[:, 6 + 4], costs.costs["decoder_self"][:, 1, 1])
