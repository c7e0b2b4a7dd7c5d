"""The axes of training steps that charts share: linear, logarithmic, or a column a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headwise.viz_app.figures.matrix import COLOUR_BAR
from headwise.viz_app.figures.theme import Properties
from headwise.viz_app.records.measures import RunCurves

_LARGEST_CELL, _LETTER = 62, 6.6
"""Pixels of the widest column, and of a letter of a step."""
_LEFT, _RIGHT = 40, COLOUR_BAR + 28
"""Pixels left of the columns, for the labels of rows, and right of them. A colour bar that needs
more would make columns narrower than those of the other figures: long numbers must fit."""


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


@dataclass(frozen=True)
class StepColumns:
    """Columns, one for each checkpoint, stand in line in figures below each other."""

    axis: Properties
    """Properties of the axis of the columns, which are 0, 1, …; labels are steps."""
    labels: int
    """Pixels that the labels of the axis need above or below the columns."""
    _width: int
    _readable: int

    @classmethod
    def of(cls, steps: Sequence[int], width: int) -> StepColumns:
        """Make columns of these steps for a figure that has ``width`` pixels at most."""
        cell = min(_LARGEST_CELL, (width - _LEFT - _RIGHT) / len(steps))
        longest = _LETTER * max(len(f"{step:,}") for step in steps)
        flat = longest + 4 <= 0.75 * cell  # the page may have less room
        least = longest + 4 if flat else min(12.0, cell)
        axis = {
            "range": [-0.5, len(steps) - 0.5],
            "tickangle": 0 if flat else -90,
            **step_ticks(steps, max(1, math.ceil(14 / cell))),
        }
        return cls(
            axis,
            26 if flat else round(longest) + 14,
            round(_LEFT + cell * len(steps) + _RIGHT),
            round(_LEFT + least * len(steps) + _RIGHT),
        )

    def layout(self, *, top: int, bottom: int, height: int) -> Properties:
        """Return size and margins of a figure whose columns are ``height`` pixels high."""
        return {
            "height": top + height + bottom,
            "width": self._width,
            "meta": {"readable": self._readable},
            "margin": {"l": _LEFT, "r": _RIGHT, "t": top, "b": bottom},
        }


def step_ticks(steps: Sequence[int], every: int) -> Properties:
    """Return properties of an axis of checkpoints, 0, 1, …, that labels some with their steps."""
    kept = range(0, len(steps), every)
    return {"tickvals": list(kept), "ticktext": [f"{steps[at]:,}" for at in kept]}
