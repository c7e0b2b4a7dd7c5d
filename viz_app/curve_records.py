"""What a run's log says over its steps, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Curve:
    """One figure of a log: steps (n,), rising, and values (n,), all finite."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)


@dataclass(frozen=True)
class Turn:
    """Where the loss on valid sentences turns up while that on train sentences goes on falling."""

    step: int
    """The milestone where it is lowest."""
    loss: float
    """In nats per piece."""
    last: int
    """The last milestone measured."""


@dataclass(frozen=True)
class RunCurves:
    """The curves of one run, by the names that its log has for them."""

    name: str
    curves: Mapping[str, Curve]
    raw: Mapping[str, Curve] = field(default_factory=dict)
    """Those that ``curves`` has smoothed, as they were."""
    turn: Turn | None = None
