"""What a part of the benchmarks found: tables, rules and every measurement.

A part measures in rounds: in each, everything that is compared runs once, in turn, so that what
disturbs the machine disturbs all of them; ratios are taken round by round, and medians over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Rows under column names; floats are shown with three digits, None as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Rule:
    """What must hold of a measured figure."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def held(self) -> bool:
        """Whether it does; a figure that is not a number does not."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def missed_by(self) -> float:
        """By what part of the limit it is missed, 0 where it is held."""
        return 0.0 if self.held else abs(self.value - self.limit) / self.limit


@dataclass(frozen=True)
class Curve:
    """One line of a plot on two logarithmic axes."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Plot:
    """Curves over one quantity."""

    title: str
    x_title: str
    y_title: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Findings:
    """What a part found. ``raw`` holds every single measurement, for the JSON file."""

    tables: tuple[Table, ...]
    rules: tuple[Rule, ...] = ()
    notes: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    raw: Mapping[str, Sequence[float]] = field(default_factory=dict)
    fault: str = ""
    """Why it could not be measured."""


Tick = Callable[[str], None]
"""Called by a part after each of its steps, with what comes next or was done."""
