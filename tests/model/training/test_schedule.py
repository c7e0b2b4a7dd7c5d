from __future__ import annotations

import math
from typing import Any

import pytest

from model.config import TrainingConfig
from model.training.schedule import learning_rate


def make(**changes: Any) -> TrainingConfig:
    return TrainingConfig(**({"steps": 120, "learning_rate": 0.6, "warmup_steps": 20} | changes))


@pytest.mark.parametrize("schedule", ["cosine", "noam", "trapezoid"])
@pytest.mark.parametrize(("step", "rate"), [(1, 0.03), (5, 0.15), (19, 0.57), (20, 0.6)])
def test_warm_up_is_linear(schedule: str, step: int, rate: float) -> None:
    assert learning_rate(step, make(schedule=schedule)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("schedule", "step", "rate"),
    [
        ("cosine", 45, 0.3 * (1 + math.sqrt(0.5))),  # a quarter of the way: cos 45°
        ("cosine", 70, 0.3),
        ("cosine", 120, 0.0),
        ("cosine", 121, 0.0),
        ("noam", 80, 0.3),  # four times the steps, half the rate
        ("noam", 120, 0.6 / math.sqrt(6)),
        ("trapezoid", 80, 0.6),
        ("trapezoid", 90, 0.45),
        ("trapezoid", 119, 0.015),
        ("trapezoid", 120, 0.0),
        ("trapezoid", 121, 0.0),
        ("constant", 1, 0.6),
        ("constant", 120, 0.6),
    ],
)
def test_hand_computed_points(schedule: str, step: int, rate: float) -> None:
    config = make(schedule=schedule, decay_steps=40 if schedule == "trapezoid" else 0)
    assert learning_rate(step, config) == pytest.approx(rate, abs=1e-12)


def test_a_trapezoid_without_decay_stays_flat() -> None:
    assert learning_rate(120, make(schedule="trapezoid")) == 0.6


def test_noam_falls_as_in_the_paper() -> None:
    """Section 5.3: D^-0.5 · min(step^-0.5, step · warmup^-1.5), up to a constant."""
    config = make(schedule="noam")
    paper = {s: min(s**-0.5, s * 20**-1.5) for s in range(1, 121)}
    ratios = [learning_rate(step, config) / value for step, value in paper.items()]
    assert ratios == pytest.approx([ratios[0]] * 120)


@pytest.mark.parametrize(("schedule", "rate"), [("cosine", 0.6), ("noam", 0.6), ("trapezoid", 0.6)])
def test_without_warm_up_the_first_rate_is_about_the_peak(schedule: str, rate: float) -> None:
    assert learning_rate(1, make(schedule=schedule, warmup_steps=0)) == pytest.approx(
        rate, rel=1e-3
    )


@pytest.mark.parametrize("step", [0, -1])
def test_steps_count_from_one(step: int) -> None:
    with pytest.raises(ValueError, match=f"step: expected 1 or more, got {step}"):
        learning_rate(step, make())
