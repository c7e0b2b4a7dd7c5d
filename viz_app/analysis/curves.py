"""Curves out of the rows of a log; where they turn up; how far a training is."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viz_app.curve_records import Curve, Turn

RISE = 0.05
"""Nats by which a loss must rise to count: a perplexity that is 5 % higher. What a loss does from
milestone to milestone once a task is learned is less."""
MOST_POINTS = 1_000
_MINUTE = 60

Row = Mapping[str, Any]


def curve_of(rows: Iterable[Row], name: str) -> Curve:
    """One figure over the steps: rows without it, or with something else than a finite number, are
    left out; of a step that comes twice the later row counts."""
    found: dict[int, float] = {}
    for row in rows:
        value = row.get(name)
        if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
            found[row["step"]] = float(value)
    steps = sorted(found)
    return Curve(np.array(steps, dtype=np.int64), np.array([found[step] for step in steps]))


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """At most so many points (at least 4): the first, the last, and of each stretch between them
    the lowest and the highest."""
    if len(curve) <= most:
        return curve
    inner = np.arange(1, len(curve) - 1)
    kept = [0, len(curve) - 1]
    for stretch in np.array_split(inner, (most - 2) // 2):
        values = curve.values[stretch]
        kept += [int(stretch[values.argmin()]), int(stretch[values.argmax()])]
    places = np.unique(kept)
    return Curve(curve.steps[places], curve.values[places])


def smoothed(curve: Curve, weight: float) -> Curve:
    """Running mean in which each value counts ``weight`` times as much as the next.

    The first values are not drawn to zero: weights are divided by their sum (as in Adam).

    Args:
        curve: to be smoothed.
        weight: from 0, which changes nothing, to below 1.

    Raises:
        ValueError: on another weight.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"weight: expected 0 <= weight < 1, got {weight}")
    values, total, weights = [], 0.0, 0.0
    for value in curve.values.tolist():
        total, weights = weight * total + value, weight * weights + 1
        values.append(total / weights)
    return Curve(curve.steps, np.array(values))


def turn_of(valid: Curve, train: Curve) -> Turn | None:
    """Where a model begins to overfit, if it does.

    That is the milestone N at which the loss on valid sentences is lowest, if at least two
    milestones come after it, it is higher by more than ``RISE`` at each of them, and what was
    learned meanwhile is the train sentences: their mean loss since the last but one milestone is
    lower than between N and the milestone before. (Where both losses rise the training diverges.)

    Args:
        valid: loss at milestones, in nats per piece.
        train: loss in between.
    """
    if len(valid) < 4:
        return None
    lowest = int(valid.values.argmin())
    later = valid.values[lowest + 1 :]
    if lowest == 0 or len(later) < 2 or later.min() <= valid.values[lowest] + RISE:
        return None
    then = _mean_between(train, valid.steps[lowest - 1], valid.steps[lowest])
    now = _mean_between(train, valid.steps[-2], valid.steps[-1])
    if not now < then:  # NaN where nothing was logged
        return None
    return Turn(int(valid.steps[lowest]), float(valid.values[lowest]), int(valid.steps[-1]))


def _mean_between(curve: Curve, after: int, until: int) -> float:
    values = curve.values[(curve.steps > after) & (curve.steps <= until)]
    return float(values.mean()) if len(values) else math.nan


@dataclass(frozen=True)
class Progress:
    """How far a training is."""

    step: int
    steps: int
    speed: float | None
    """Target pieces a second, by the last row that says it."""
    seconds: float | None
    """Left at that speed, what milestones take not counted."""

    def __str__(self) -> str:
        parts = [f"step {self.step:,} of {self.steps:,}"]
        if self.speed is not None:
            parts.append(f"{_two_digits(self.speed):,} tokens/s")
        if self.seconds is not None:
            parts.append(f"{_duration(self.seconds)} left")
        return ", ".join(parts)


def progress(rows: Iterable[Row], steps: int) -> Progress | None:
    """How far a training of so many steps is by its log; None before the first row."""
    rows = list(rows)
    if not rows:
        return None
    step = max(row["step"] for row in rows)
    pieces, speeds = curve_of(rows, "tokens"), curve_of(rows, "tokens_per_second")
    speed = float(speeds.values[-1]) if len(speeds) and speeds.values[-1] > 0 else None
    seconds = None
    if speed is not None and len(pieces) and pieces.steps[-1] > 0:
        pieces_a_step = float(pieces.values[-1]) / int(pieces.steps[-1])
        left = max(steps - step, 0) * pieces_a_step / speed
        seconds = left if math.isfinite(left) else None  # a log may say anything
    return Progress(step, steps, speed, seconds)


def _two_digits(number: float) -> int:
    """Rounded to its first two digits, or to a whole number."""
    return int(round(number, min(2 - len(str(int(number))), 0)))


def _duration(seconds: float) -> str:
    minutes = round(seconds / _MINUTE)
    if minutes < 1:
        return "less than a minute"
    if minutes < 100:
        return f"about {minutes} min"
    return f"about {round(minutes / 60)} h"
