"""Curves read from the rows of a log, where overfitting begins, and the progress of a training."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.viz_app.records.measures import Curve, DataChange, OverfittingOnset

RISE = 0.05
"""Smallest rise of a loss that is overfitting, in nats; that of a learned task varies less."""
MOST_POINTS = 1_000  # most points of a curve that is drawn

LogRow = Mapping[str, Any]  # a line of a log, such as ``metrics.jsonl``: name → value


def curve_of(rows: Iterable[LogRow], name: str) -> Curve:
    """Read one logged quantity from the rows of a log. Rows without a finite number under ``name``
    are left out. If a step occurs more than once, its last row counts.
    """
    found: dict[int, float] = {}
    for row in rows:
        value = row.get(name)
        if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
            found[row["step"]] = float(value)
    steps = sorted(found)
    return Curve(np.array(steps, dtype=np.int64), np.array([found[step] for step in steps]))


def downsample(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """Reduce a curve to at most ``most`` points (at least 4). The first and last points remain, and
    of each of equally many steps between them the points with the lowest and the highest value.
    """
    if len(curve) <= most:
        return curve
    inner = np.arange(1, len(curve) - 1)
    chosen = [0, len(curve) - 1]
    for stretch in np.array_split(inner, (most - 2) // 2):
        values = curve.values[stretch]
        chosen += [int(stretch[values.argmin()]), int(stretch[values.argmax()])]
    places = np.unique(chosen)
    return Curve(curve.steps[places], curve.values[places])


def spread(steps: Sequence[int], most: int) -> list[int]:
    """Return at most ``most`` of some checkpoints, spread evenly, the first and the last included.

    ValueError if ``most`` is below 2.
    """
    if most < 2:
        raise ValueError(f"expected at least 2 checkpoints, got {most}")
    places = np.linspace(0, len(steps) - 1, min(len(steps), most)).round().astype(int)
    return [steps[place] for place in places.tolist()]


def smooth(curve: Curve, weight: float) -> Curve:
    """Smooth a curve by an exponential moving average, with the bias correction of Adam.

    ``weight`` is the decay, from 0, which changes nothing, to below 1.
    """
    if not 0 <= weight < 1:
        raise ValueError(f"weight: expected 0 <= weight < 1, got {weight}")
    values, total, weights = [], 0.0, 0.0
    for value in curve.values.tolist():
        total, weights = weight * total + value, weight * weights + 1
        values.append(total / weights)
    return Curve(curve.steps, np.array(values))


def find_overfitting(valid: Curve, train: Curve) -> OverfittingOnset | None:
    """Find the milestone from which a training overfits; None if it does not overfit.

    It has the lowest validation loss, at least two follow, each of them is higher by more than
    ``RISE``, and train loss has fallen: its mean after the last but one milestone is lower than up
    to this one from the one before. (If both losses rise, the training diverges.) Both are in nats
    per token.
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
    return OverfittingOnset(
        int(valid.steps[lowest]), float(valid.values[lowest]), int(valid.steps[-1])
    )


def find_overfitting_in(curves: Mapping[str, Curve]) -> OverfittingOnset | None:
    """Find where a training overfits from its curves, under the names of the log.

    Train loss is that of the sample of training pairs or, where a milestone lacks it, of
    batches.
    """
    valid, sample = curves["valid_loss"], curves["train_sample_loss"]
    sampled = bool(np.isin(valid.steps, sample.steps).all())
    return find_overfitting(valid, sample if sampled else curves["train_loss"])


def find_data_change(tokens: Curve, loss: Curve, *, plain_tokens: int) -> DataChange | None:
    """Find where a training leaves the pairs of its corpus as they are for changed ones.

    ``tokens`` are the target tokens that it has read at a step, ``loss`` is the mean of training
    batches since the row before, ``plain_tokens`` are those of the epochs with pairs as they are.
    Between rows steps are of equal size. None if there are no such epochs, or no row of changed
    pairs alone yet.
    """
    if plain_tokens <= 0 or not len(tokens) or tokens.values[-1] <= plain_tokens:
        return None
    read, steps = ([0, *each.tolist()] for each in (tokens.values, tokens.steps))
    last = round(float(np.interp(plain_tokens, read, steps)))
    before = loss.values[loss.steps <= last]
    after = loss.values[1:][loss.steps[:-1] >= last]
    if not len(before) or not len(after):
        return None
    return DataChange(last + 1, float(before[-1]), float(after[0]))


def _mean_between(curve: Curve, after: int, until: int) -> float:
    values = curve.values[(curve.steps > after) & (curve.steps <= until)]
    return float(values.mean()) if len(values) else math.nan


@dataclass(frozen=True)
class Progress:
    """A training has reached this step at this speed; as a string it reads like a status line."""

    step: int
    steps: int
    loss: float | None  # loss of training batches in the latest row that has it; None if none has
    speed: float | None  # target tokens per second in the latest row that has it; None if none has
    seconds: float | None  # estimated until the last step, without the time of milestones

    def __str__(self) -> str:
        parts = [f"step {self.step:,} of {self.steps:,}"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.3g}")
        if self.speed is not None:
            two_digits = round(self.speed, min(2 - len(str(int(self.speed))), 0))
            parts.append(f"{int(two_digits):,} tokens/s")
        if self.seconds is not None:
            parts.append(f"{duration(self.seconds)} left")
        return ", ".join(parts)


def progress(rows: Iterable[LogRow], steps: int) -> Progress | None:
    """Read the progress of a training of ``steps`` steps from its log; None if the log is empty."""
    rows = list(rows)
    if not rows:
        return None
    step = max(row["step"] for row in rows)
    tokens, speeds = curve_of(rows, "tokens"), curve_of(rows, "tokens_per_second")
    losses = curve_of(rows, "train_loss").values
    speed = float(speeds.values[-1]) if len(speeds) and speeds.values[-1] > 0 else None
    seconds = None
    if speed is not None and len(tokens) and tokens.steps[-1] > 0:
        tokens_a_step = float(tokens.values[-1]) / int(tokens.steps[-1])
        left = max(steps - step, 0) * tokens_a_step / speed
        seconds = left if math.isfinite(left) else None  # a log may say anything
    return Progress(step, steps, float(losses[-1]) if len(losses) else None, speed, seconds)


def duration(seconds: float) -> str:
    """Write about how long something takes."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes} min" if minutes < 100 else f"about {round(minutes / 60)} h"
