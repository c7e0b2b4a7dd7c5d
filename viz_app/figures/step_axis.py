"""The axis of training steps that charts share, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viz_app.records.curves import RunCurves


@dataclass(frozen=True)
class StepAxis:
    """An axis of training steps knows where each step is drawn.

    A logarithmic axis has no place for step 0, so step 0 is drawn left of a dotted line that no
    curve crosses.
    """

    first: int
    """The least step above 0."""
    last: int
    log: bool
    has_zero: bool
    """Whether there is a step 0."""

    @classmethod
    def of(cls, runs: Sequence[RunCurves], *, log: bool) -> StepAxis:
        """Make an axis that holds all steps of some runs."""
        steps = np.concatenate(
            [np.array([1]), *(c.steps for run in runs for c in run.curves.values())]
        )
        later = steps[1:][steps[1:] > 0]
        return cls(
            first=int(later.min(initial=int(steps.max()))),
            last=int(steps.max()),
            log=log,
            has_zero=bool((steps <= 0).any()),
        )

    @property
    def zero(self) -> float:
        """Where step 0 is drawn."""
        return self.first / self._gap**2 if self.log else 0.0

    @property
    def line(self) -> float:
        """Where the dotted line of a logarithmic axis is drawn."""
        return self.first / self._gap

    @property
    def _gap(self) -> float:
        """The factor between the first step and the line, and between the line and step 0."""
        return max((self.last / self.first) ** 0.05, 1.1)

    def place(self, step: int) -> float:
        """Return where a step is drawn."""
        return self.zero if step <= 0 else float(step)

    def layout(self) -> dict[str, object]:
        """Return the properties of Plotly's axis."""
        if not self.log:
            margin = 0.03 * max(self.last, 1)
            return {
                "range": [-margin, self.last + margin],
                "nticks": 6,
                "tickformat": ",d",
                "tick0": 0,
            }
        least = self.zero / self._gap if self.has_zero else self.line
        decades = [10**n for n in range(math.ceil(math.log10(self.last)) + 1)]
        ticks = [tick for tick in decades if self.first <= tick <= self.last]
        if len(ticks) < 3:
            finer = sorted(k * tick for tick in decades for k in (1, 2, 5))
            ticks = [tick for tick in finer if self.first <= tick <= self.last] or [self.first]
        zero = [self.zero] if self.has_zero else []
        return {
            "type": "log",
            "range": [math.log10(least), math.log10(self.last * self._gap)],
            "tickvals": [*zero, *ticks],
            "ticktext": [*("0" for _ in zero), *(f"{tick:,}" for tick in ticks)],
        }
