from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.analysis.curves import (
    RISE,
    curve_of,
    downsample,
    find_overfitting,
    find_overfitting_in,
    progress,
    smooth,
)
from headwise.viz_app.records.measures import Curve, OverfittingOnset
from tests.floats import assert_near, near

CHECKPOINTS = Path(__file__).parents[3] / "checkpoints"


def curve(steps: Sequence[int], values: Sequence[float]) -> Curve:
    return Curve(np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))


def rows_of(run: str) -> list[dict[str, Any]]:
    lines = (CHECKPOINTS / run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# From rows to curves


def test_curve_has_finite_numbers_by_rising_step() -> None:
    rows = [
        {"step": 5, "loss": 3.0},
        {"step": 0, "loss": 7},
        {"step": 1, "bleu": 2.0},
        {"step": 2, "loss": float("nan")},
        {"step": 3, "loss": "low"},
        {"step": 4, "loss": None},
        {"step": 5, "loss": 2.5},
    ]
    found = curve_of(rows, "loss")
    assert found.steps.tolist() == [0, 5]
    assert found.values.tolist() == [7.0, 2.5]
    assert len(curve_of(rows, "chrf")) == 0


def test_thinned_curve_has_ends_and_extremes() -> None:
    values = np.sin(np.arange(10_000) / 7.0)
    values[4_321], values[7_777] = 9.0, -9.0
    whole = curve(range(10_000), values.tolist())
    thin = downsample(whole, 100)
    assert len(thin) <= 100
    assert {0, 4_321, 7_777, 9_999} <= set(thin.steps.tolist())
    np.testing.assert_array_equal(thin.values, values[thin.steps])
    assert (np.diff(thin.steps) > 0).all()
    assert downsample(whole, 10_000) is whole
    assert 990 < len(downsample(whole)) <= 1_000


@pytest.mark.parametrize("most", [4, 5, 6])
def test_thinning_to_few_points(most: int) -> None:
    values = [3.0, 1.0, 2.0, 9.0, 5.0, 4.0, 4.5, 6.0]
    thin = downsample(curve(range(8), values), most)
    assert len(thin) <= most
    assert {0, 1, 3, 7} <= set(thin.steps.tolist())


def test_smoothing_is_a_weighted_mean_of_earlier_values() -> None:
    found = smooth(curve([1, 2, 3], [4.0, 1.0, 7.0]), 0.5)
    # 4; (4/2 + 1) / (1/2 + 1); (4/4 + 1/2 + 7) / (1/4 + 1/2 + 1)
    assert_near(found.values, [4.0, 2.0, 8.5 / 1.75])
    assert found.steps.tolist() == [1, 2, 3]
    assert smooth(found, 0.0).values.tolist() == found.values.tolist()


@pytest.mark.parametrize("weight", [-0.1, 1.0])
def test_smoothing_weight_out_of_range_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=r"^weight: expected 0 <= weight < 1, got"):
        smooth(curve([1], [1.0]), weight)


# Where the loss turns up

STEPS = [0, 10, 20, 30, 40]
FALLING = curve(range(1, 41), np.linspace(8, 0.1, 40).tolist())


def test_overfitting_begins_at_lowest_validation_loss() -> None:
    valid = curve(STEPS, [8.0, 4.0, 3.0, 3.2, 3.1])
    assert find_overfitting(valid, FALLING) == OverfittingOnset(step=20, loss=3.0, last=40)


@pytest.mark.parametrize(
    "losses",
    [
        [8.0, 4.0, 3.0, 2.9, 2.8],  # falls
        [8.0, 4.0, 3.0, 2.9, 3.2],  # only one milestone is behind the lowest
        [8.0, 4.0, 3.0, 3.0 + RISE / 2, 3.2],  # one is hardly higher
        [8.0, 4.0, 3.0, 3.0 + RISE, 3.2],  # neither is this
        [3.0, 4.0, 3.5, 3.6, 3.7],  # nothing was learned
    ],
)
def test_no_overfitting_without_lasting_rise(losses: list[float]) -> None:
    assert find_overfitting(curve(STEPS, losses), FALLING) is None


def test_diverging_training_does_not_overfit() -> None:
    """From 11 to 20 the train loss is 2 in the mean, from 31 to 40 it is 3."""
    valid = curve(STEPS, [8.0, 4.0, 3.0, 3.2, 3.4])
    train = curve(range(1, 41), [4.0] * 10 + [2.0] * 10 + [2.5] * 10 + [3.0] * 10)
    assert find_overfitting(valid, train) is None
    lower = curve(range(1, 41), [4.0] * 10 + [2.0] * 20 + [1.9] * 10)
    assert find_overfitting(valid, lower) is not None


def test_latest_train_loss_is_since_last_but_one_milestone() -> None:
    """From 11 to 20 the train loss is 2, then 3, and 1 from 51 to 60 only."""
    valid = curve([0, 10, 20, 30, 40, 50, 60], [8.0, 4.0, 3.0, 3.2, 3.3, 3.4, 3.5])
    levels = [4.0] * 10 + [2.0] * 10 + [3.0] * 30 + [1.0] * 10
    assert find_overfitting(valid, curve(range(1, 61), levels)) == OverfittingOnset(
        step=20, loss=3.0, last=60
    )


def test_overfitting_is_found_with_four_milestones() -> None:
    valid = curve(STEPS[:4], [8.0, 3.0, 3.2, 3.1])
    assert find_overfitting(valid, FALLING) == OverfittingOnset(step=10, loss=3.0, last=30)


@pytest.mark.parametrize(("before", "last"), [(9.0, 0.0), (2.0, 2.0)], ids=["1.8", "2.0"])
def test_train_loss_between_milestones_excludes_the_first(before: float, last: float) -> None:
    """From 11 to 20 its mean is given; from 31 to 40 it is 0.1 more: nothing was learned."""
    then = (9 * 2.0 + last) / 10
    train = curve(
        range(1, 41), [before] * 10 + [2.0] * 9 + [last] + [before] * 9 + [2.0] + [then + 0.1] * 10
    )
    assert find_overfitting(curve(STEPS, [8.0, 4.0, 3.0, 3.2, 3.4]), train) is None


def test_no_overfitting_without_train_loss() -> None:
    valid = curve(STEPS, [8.0, 4.0, 3.0, 3.2, 3.4])
    assert find_overfitting(valid, curve([], [])) is None
    assert find_overfitting(curve(STEPS[:3], [3.0, 2.0, 4.0]), FALLING) is None


@pytest.mark.parametrize(
    ("run", "step"), [("books-small", 2_000), ("en-es", None), ("de-en", None), ("copy", None)]
)
def test_only_the_small_shipped_run_overfits(run: str, step: int | None) -> None:
    rows = rows_of(run)
    curves = {name: curve_of(rows, name) for name in LOSSES}
    turn = find_overfitting_in(curves)
    assert (turn and turn.step) == step
    older = find_overfitting_in(curves | {"train_sample_loss": curve([], [])})
    assert older == turn


LOSSES = ("train_loss", "train_sample_loss", "valid_loss")


@pytest.mark.parametrize(
    ("sample", "batches", "overfits"),
    [
        ([8.0, 4.0, 3.0, 2.0, 1.0], [3.0] * 40, True),
        ([8.0, 4.0, 3.0, 3.1, 3.2], FALLING.values.tolist(), False),  # it diverges
        ([], FALLING.values.tolist(), True),  # an older log
        ([3.1, 3.2], FALLING.values.tolist(), True),  # one that was old at first
    ],
)
def test_the_sample_decides_where_every_milestone_has_it(
    sample: list[float], batches: list[float], overfits: bool
) -> None:
    curves = {
        "valid_loss": curve(STEPS, [8.0, 4.0, 3.0, 3.2, 3.4]),
        "train_sample_loss": curve(STEPS[len(STEPS) - len(sample) :], sample),
        "train_loss": curve(range(1, 41), batches),
    }
    assert (find_overfitting_in(curves) is not None) == overfits


# How far it is


def test_remaining_time_is_estimated_from_the_last_speed() -> None:
    """40 tokens a step: 75 steps are 3,000 tokens, at 12.5 a second 240 seconds."""
    rows = [
        {"step": 20, "tokens": 810, "tokens_per_second": 99.0},
        {"step": 25, "tokens": 1_000, "tokens_per_second": 12.5},
        {"step": 25, "valid_loss": 3.0},
    ]
    far = progress(rows, 100)
    assert far is not None
    assert far.seconds == near(240)
    assert str(far) == "step 25 of 100, 12 tokens/s, about 4 min left"


def test_progress_without_speed_in_first_row() -> None:
    rows = [
        {"step": 1, "tokens": 40, "tokens_per_second": 0.0},
        {"step": 2, "tokens": 80, "tokens_per_second": 16.0},
    ]
    far = progress(rows, 3)
    assert far is not None
    assert far.seconds == near(2.5)


@pytest.mark.parametrize(
    ("speed", "written"),
    [
        (5_143.0, "step 1,000 of 10,000, 5,100 tokens/s, about 58 min left"),
        (300_000.0, "step 1,000 of 10,000, 300,000 tokens/s, about 1 min left"),
        (3_000_000.0, "step 1,000 of 10,000, 3,000,000 tokens/s, less than a minute left"),
        (1_000.0, "step 1,000 of 10,000, 1,000 tokens/s, about 5 h left"),
    ],
)
def test_progress_rounds_speed_to_two_digits(speed: float, written: str) -> None:
    rows = [{"step": 1_000, "tokens": 2_000_000, "tokens_per_second": speed}]
    assert str(progress(rows, 10_000)) == written


@pytest.mark.parametrize(
    ("speed", "left"),
    [
        (29.0, "less than a minute"),
        (31.0, "about 1 min"),
        (99.4 * 60, "about 99 min"),
        (99.6 * 60, "about 2 h"),
        (200 * 60, "about 3 h"),
    ],
)
def test_remaining_time_in_minutes_or_hours(speed: float, left: str) -> None:
    """A step takes this many seconds, and one is left."""
    rows = [{"step": 1, "tokens": speed, "tokens_per_second": 1.0}]
    assert str(progress(rows, 2)).endswith(f", {left} left")


@pytest.mark.parametrize("steps", [5, 3])
def test_no_remaining_time_at_the_end(steps: int) -> None:
    far = progress([{"step": 5, "tokens": 10, "tokens_per_second": 0.5}], steps)
    assert far is not None
    assert (far.speed, far.seconds) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("step", "tokens", "speed", "said"),
    [
        (7, 700, 0.0, "step 7 of 9"),
        (7, 700, -5.0, "step 7 of 9"),
        (0, 0, 40.0, "step 0 of 9, 40 tokens/s"),
        (1, 40, 40.0, "step 1 of 9, 40 tokens/s, less than a minute left"),
    ],
)
def test_progress_of_incomplete_rows(step: int, tokens: int, speed: float, said: str) -> None:
    rows = [{"step": step, "tokens": tokens, "tokens_per_second": speed}]
    assert str(progress(rows, 9)) == said


def test_progress_without_speed_has_only_the_step() -> None:
    assert str(progress([{"step": 0, "valid_loss": 8.0}], 1_000)) == "step 0 of 1,000"
    assert progress([], 1_000) is None


def test_infinite_remaining_time_is_left_out() -> None:
    rows = [
        {"step": 1, "tokens": 10**400},
        {"step": 2, "tokens": -(10**400)},
        {"step": 3, "tokens": 7},
        {"step": 4, "tokens": sys.float_info.max},
    ]
    assert curve_of(rows, "tokens").steps.tolist() == [3, 4]
    odd = progress([{"step": 1, "tokens": 1e308, "tokens_per_second": 1e-9}], 20)
    assert odd is not None
    assert odd.seconds is None
    assert "left" not in str(odd)
