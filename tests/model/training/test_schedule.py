from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from headwise.model.config import TrainingConfig
from headwise.model.training.batches import learning_rate
from tests.floats import near


def make(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**({"steps": 119, "learning_rate": 0.6, "warmup_steps": 20} | changes))


@pytest.mark.parametrize("schedule", ["cosine", "noam", "trapezoid"])
@pytest.mark.parametrize(("step", "rate"), [(1, 0.03), (5, 0.15), (19, 0.57), (20, 0.6)])
def test_warm_up_is_linear(schedule: str, step: int, rate: float) -> None:
    assert learning_rate(step, make(schedule=schedule)) == near(rate)
    without = learning_rate(1, make(schedule=schedule, warmup_steps=0))
    assert without == pytest.approx(0.6, rel=1e-3)  # about the peak


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        ("cosine", 45, 0.3 * (1 + math.sqrt(0.5))),  # a quarter of the way: cos 45°
        ("cosine", 70, 0.3),
        ("cosine", 119, 0.3 * (1 - math.cos(math.pi / 100))),
        ("cosine", 120, 0.0),
        ("cosine", 121, 0.0),
        ("noam", 80, 0.3),  # four times the steps, half the rate
        ("noam", 120, 0.6 / math.sqrt(6)),
        ("trapezoid", 80, 0.6),
        ("trapezoid", 81, 0.585),
        ("trapezoid", 90, 0.45),
        ("trapezoid", 119, 0.015),
        ("trapezoid", 120, 0.0),
        ("trapezoid", 121, 0.0),
        ("constant", 1, 0.6),
        ("constant", 119, 0.6),
    ],
)
def test_hand_computed_points(schedule: str, step: int, rate: float) -> None:
    config = make(schedule=schedule, decay_steps=39 if schedule == "trapezoid" else 0)
    assert learning_rate(step, config) == near(rate, size=0.6)


@pytest.mark.parametrize(("decay", "rate"), [(0, 1), (1, 1 / 2), (3, 1 / 4)])
def test_the_last_steps_of_a_trapezoid_fall(decay: int, rate: float) -> None:
    config = make(schedule="trapezoid", decay_steps=decay)
    assert learning_rate(119, config) == near(0.6 * rate)
    assert learning_rate(119 - decay, config) == 0.6


@pytest.mark.parametrize("warmup", [0, 1, 7])
@pytest.mark.parametrize("steps", [7, 8, 19])
@pytest.mark.parametrize("schedule", ["cosine", "noam", "trapezoid", "constant"])
def test_every_step_has_a_rate_and_falls_only_after_the_warm_up(
    schedule: str, steps: int, warmup: int
) -> None:
    decay = steps - warmup if schedule == "trapezoid" else 0
    config = make(schedule=schedule, steps=steps, warmup_steps=warmup, decay_steps=decay)
    rates = [learning_rate(step, config) for step in range(1, steps + 1)]
    assert all(rate > 0 for rate in rates)
    if schedule != "constant" and warmup:
        assert rates[:warmup] == near([0.6 * step / warmup for step in range(1, warmup + 1)])
        assert all(later < former for former, later in itertools.pairwise(rates[warmup - 1 :]))


def test_noam_falls_as_in_the_paper() -> None:
    """Section 5.3: D^-0.5 · min(step^-0.5, step · warmup^-1.5), up to a constant."""
    config = make(schedule="noam")
    paper = {s: min(s**-0.5, s * 20**-1.5) for s in range(1, 121)}
    ratios = [learning_rate(step, config) / value for step, value in paper.items()]
    assert ratios == near([ratios[0]] * 120)


@pytest.mark.parametrize("step", [0, -1])
def test_steps_count_from_one(step: int) -> None:
    with pytest.raises(ValueError, match=f"step: expected 1 or more, got {step}"):
        learning_rate(step, make())
