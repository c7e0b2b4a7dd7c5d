"""Compute learning rates, as pure functions of the step."""

from __future__ import annotations

import math

from headwise.model.config import TrainingConfig


def learning_rate(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of optimiser step ``step``, counted from 1.

    All but ``constant`` rise linearly: step 1 has 1 / ``warmup_steps`` of the peak, step
    ``warmup_steps`` is the first at the peak. Then

    * ``noam`` falls with the inverse square root of the step (section 5.3 of the paper, its
      constant replaced by the peak rate);
    * ``cosine`` falls along half a cosine, from the peak at step ``warmup_steps``;
    * ``trapezoid`` stays at the peak, and the last ``decay_steps`` steps fall linearly.

    The last two reach zero at step ``steps`` + 1, which is not taken: a last step at rate zero
    would change nothing.
    """
    if step < 1:
        raise ValueError(f"step: expected 1 or more, got {step}")
    peak, warmup = config.learning_rate, config.warmup_steps
    if config.schedule == "constant":
        return peak
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "noam":
        return peak * math.sqrt(max(warmup, 1) / step)
    if config.schedule == "trapezoid":
        left = config.steps + 1 - step
        return peak * min(1.0, max(left, 0) / (config.decay_steps + 1))
    done = (step - warmup) / max(config.steps + 1 - warmup, 1)
    return peak * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
