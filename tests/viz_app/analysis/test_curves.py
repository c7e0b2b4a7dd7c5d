from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.analysis.curves import (
    RISE,
    curve_of,
    downsample,
    find_data_change,
    find_overfitting,
    find_overfitting_in,
    progress,
    smooth,
    spread,
)
from headwise.viz_app.records.measures import Curve, DataChange, OverfittingOnset
from tests.floats import assert_near, near

CHECKPOINTS = Path(__file__).parents[3] / "checkpoints"


def curve(steps: Sequence[int], values: Sequence[float]) -> Curve:
    return Curve(np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64))


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
        {"step": 6, "loss": 10**400},
        {"step": 7, "loss": -(10**400)},
        {"step": 8, "loss": sys.float_info.max},
    ]
    found = curve_of(rows, "loss")
    assert found.steps.tolist() == [0, 5, 8]
    assert found.values.tolist() == [7.0, 2.5, sys.float_info.max]
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
    for most in (4, 5, 6):
        thin = downsample(curve(range(8), [3.0, 1.0, 2.0, 9.0, 5.0, 4.0, 4.5, 6.0]), most)
        assert len(thin) <= most
        assert {0, 1, 3, 7} <= set(thin.steps.tolist())


def test_smoothing_is_a_weighted_mean_of_earlier_values() -> None:
    found = smooth(curve([1, 2, 3], [4.0, 1.0, 7.0]), 0.5)
    # 4; (4/2 + 1) / (1/2 + 1); (4/4 + 1/2 + 7) / (1/4 + 1/2 + 1)
    assert_near(found.values, [4.0, 2.0, 8.5 / 1.75])
    assert found.steps.tolist() == [1, 2, 3]
    assert smooth(found, 0.0).values.tolist() == found.values.tolist()
    for weight in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r"^weight: expected 0 <= weight < 1, got"):
            smooth(found, weight)


# Where the loss turns up

STEPS = range(0, 70, 10)
FALLING = np.linspace(8, 0.1, 40).tolist()
RISING = [8.0, 4.0, 3.0, 3.2, 3.4]
onset = partial(OverfittingOnset, loss=3.0)


@pytest.mark.parametrize(
    ("valid", "train", "expected"),
    [
        ([8.0, 4.0, 3.0, 3.2, 3.1], FALLING, onset(20, last=40)),
        ([8.0, 3.0, 3.2, 3.1], FALLING, onset(10, last=30)),
        ([3.0, 2.0, 4.0], FALLING, None),  # too few milestones
        ([8.0, 4.0, 3.0, 2.9, 2.8], FALLING, None),  # falls
        ([8.0, 4.0, 3.0, 2.9, 3.2], FALLING, None),  # one milestone only is behind the lowest
        ([8.0, 4.0, 3.0, 3.0 + RISE / 2, 3.2], FALLING, None),  # one is hardly higher
        ([8.0, 4.0, 3.0, 3.0 + RISE, 3.2], FALLING, None),  # neither is this
        ([3.0, 4.0, 3.5, 3.6, 3.7], FALLING, None),  # nothing was learned
        (RISING, [], None),
        # It diverges: from 11 to 20 the train loss is 2 in the mean, from 31 to 40 it is 3.
        (RISING, [4.0] * 10 + [2.0] * 10 + [2.5] * 10 + [3.0] * 10, None),
        (RISING, [4.0] * 10 + [2.0] * 20 + [1.9] * 10, onset(20, last=40)),
        # The latest train loss is that since the last milestone but one.
        (
            [*RISING, 3.4, 3.5],
            [4.0] * 10 + [2.0] * 10 + [3.0] * 30 + [1.0] * 10,
            onset(20, last=60),
        ),
        # A mean between milestones has the last step and not the first: 1.8 and 1.9, 2.0 and 2.1.
        (RISING, [9.0] * 10 + [2.0] * 9 + [0.0] + [9.0] * 9 + [2.0] + [1.9] * 10, None),
        (RISING, [2.0] * 20 + [2.0] * 10 + [2.1] * 10, None),
    ],
)
def test_overfitting_begins_at_the_lowest_validation_loss_before_a_lasting_rise(
    valid: list[float], train: list[float], expected: OverfittingOnset | None
) -> None:
    losses = curve(range(1, len(train) + 1), train)
    assert find_overfitting(curve(STEPS[: len(valid)], valid), losses) == expected


def test_only_the_small_shipped_run_overfits() -> None:
    for run, step in (("books-small", 2_000), ("en-es", None), ("de-en", None), ("copy", None)):
        lines = (CHECKPOINTS / run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        names = ("train_loss", "train_sample_loss", "valid_loss")
        turn = find_overfitting_in({name: curve_of(rows, name) for name in names})
        assert (turn and turn.step) == step


@pytest.mark.parametrize(
    ("sample", "batches", "overfits"),
    [
        ([8.0, 4.0, 3.0, 2.0, 1.0], [3.0] * 40, True),
        ([8.0, 4.0, 3.0, 3.1, 3.2], FALLING, False),  # it diverges
        ([], FALLING, True),  # an older log
        ([3.1, 3.2], FALLING, True),  # one that was old at first
    ],
)
def test_the_sample_decides_where_every_milestone_has_it(
    sample: list[float], batches: list[float], overfits: bool
) -> None:
    curves = {
        "valid_loss": curve(STEPS[:5], RISING),
        "train_sample_loss": curve(STEPS[5 - len(sample) : 5], sample),
        "train_loss": curve(range(1, 41), batches),
    }
    assert (find_overfitting_in(curves) is not None) == overfits


# Where its pairs change


@pytest.mark.parametrize(
    ("plain", "change"),
    [
        (300, DataChange(31, 4.0, 5.0)),  # at the end of a row
        (250, DataChange(26, 5.0, 6.0)),  # within one, whose loss is of both
        (400, None),  # no row of changed pairs alone
        (0, None),
        (1_000, None),  # not yet
    ],
)
def test_pairs_change_where_plain_epochs_are_read(plain: int, change: DataChange | None) -> None:
    """Ten tokens a step, and the loss of a row is the mean since the row before."""
    tokens = curve([10, 20, 30, 40, 45], [100, 200, 300, 400, 450])
    loss = curve([10, 20, 30, 40], [6.0, 5.0, 4.0, 5.0])
    if plain == 250:
        loss = curve([10, 20, 30, 40], [6.0, 5.0, 5.5, 6.0])
    assert find_data_change(tokens, loss, plain_tokens=plain) == change
    assert find_data_change(curve([], []), loss, plain_tokens=300) is None


# How far it is


def row(step: int, tokens: float, speed: float) -> dict[str, Any]:
    return {"step": step, "tokens": tokens, "tokens_per_second": speed}


@pytest.mark.parametrize(
    ("rows", "steps", "seconds", "said"),
    [
        # 40 tokens a step: 75 steps are 3,000 tokens, at the last speed of 12.5 a second.
        (
            [row(20, 810, 99.0), row(25, 1_000, 12.5), {"step": 25, "valid_loss": 3.0}],
            100,
            240,
            "step 25 of 100, 12 tokens/s, about 4 min left",
        ),
        ([row(2, 5, 0.5)], 6, 20, "step 2 of 6, 0 tokens/s, less than a minute left"),
        ([row(1, 40, 0.0), row(2, 80, 16.0)], 3, 2.5, "step 2 of 3, 16 tokens/s, less than a "),
        ([row(5, 10, 0.5)], 3, 0, "step 5 of 3, 0 tokens/s, less than a minute left"),
        ([row(7, 700, -5.0)], 9, None, "step 7 of 9"),
        ([{"step": 2, "train_loss": 2.349}, row(7, 0, 0)], 9, None, "step 7 of 9, loss 2.35"),
        ([row(0, 0, 40.0)], 9, None, "step 0 of 9, 40 tokens/s"),
        ([{"step": 0, "valid_loss": 8.0}], 1_000, None, "step 0 of 1,000"),
        ([row(1, 1e308, 1e-9)], 20, None, "step 1 of 20, 0 tokens/s"),
    ],
)
def test_progress(rows: list[dict[str, Any]], steps: int, seconds: float | None, said: str) -> None:
    far = progress(rows, steps)
    assert far is not None
    assert far.seconds == (None if seconds is None else near(seconds))
    assert str(far) == said or (said.endswith(" ") and str(far).startswith(said))
    assert progress([], steps) is None


def test_speed_has_two_digits_and_time_a_unit() -> None:
    """One step is left, of as many tokens as take that long."""
    for speed, left, written in (
        (4.7, 29.0, "5 tokens/s, less than a minute left"),
        (5_143.0, 58.3 * 60, "5,100 tokens/s, about 58 min left"),
        (300_000.0, 31.0, "300,000 tokens/s, about 1 min left"),
        (1_000.0, 99.4 * 60, "1,000 tokens/s, about 99 min left"),
        (1_000.0, 99.6 * 60, "1,000 tokens/s, about 2 h left"),
    ):
        assert str(progress([row(1, speed * left, speed)], 2)) == f"step 1 of 2, {written}"


def test_checkpoints_are_spread_from_the_first_to_the_last() -> None:
    steps = [0, 10, 20, 40, 80, 160, 320]
    assert spread(steps, 7) == spread(steps, 99) == steps
    assert spread(steps, 3) == [0, 40, 320]
    assert spread(steps, 4) == [0, 20, 80, 320]
    assert spread([5], 3) == [5]
    with pytest.raises(ValueError, match="at least 2 checkpoints, got 1"):
        spread(steps, 1)
