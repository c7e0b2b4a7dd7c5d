"""The columns of checkpoints that figures below each other have in common, evenly spaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from viz_app.figures.matrix import COLOUR_BAR
from viz_app.figures.theme import Properties

_LARGEST_CELL, _LETTER = 62, 6.6
"""Pixels of the widest column, and of a letter of a step."""
_LEFT, _RIGHT = 40, COLOUR_BAR + 28
"""Pixels left of the columns, for the labels of rows, and right of them. A colour bar that needs
more would make columns narrower than those of the other figures: long numbers must fit."""


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
