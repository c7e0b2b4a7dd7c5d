"""The training curves of a run, read from its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Curve:
    """A curve holds one logged quantity: its steps (n,), rising, and values (n,), all finite."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class OverfittingOnset:
    """Overfitting begins: validation loss rises from here on while train loss goes on falling."""

    step: int
    """The milestone with the lowest validation loss."""
    loss: float
    """The validation loss there, in nats per token."""
    last: int
    """The last milestone at which validation loss was measured."""


@dataclass(frozen=True)
class RunCurves:
    """All curves of one run are held here under the names that its log uses."""

    name: str
    curves: Mapping[str, Curve]
    raw: Mapping[str, Curve] = field(default_factory=dict)
    """The unsmoothed curves of those that ``curves`` holds smoothed."""
    overfitting: OverfittingOnset | None = None
    """None if the run does not overfit."""
    batches: str = "training batches"
    """Of what ``train_loss`` is the mean, with what makes it another measure than the other losses:
    "training batches, with label smoothing 0.1"."""
