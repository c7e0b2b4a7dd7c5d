"""The small charts of a training: what each shows, where it is, and its axes.

The axis of training steps is linear or logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwise.viz_app.figures.lines import LEGEND_NAMES
from headwise.viz_app.figures.theme import Properties, Theme, note
from headwise.viz_app.records.measures import RunCurves
from headwise.viz_app.records.trace import shorten

_GAP, _BOTTOM = 40, 44
_FIRST, _OTHERS = 230, 125  # pixels of the first row of charts, and of each other one


@dataclass(frozen=True)
class StepAxis:
    """An axis of training steps knows where each step is drawn. A logarithmic axis has no place for
    step 0, so step 0 is drawn left of a dotted line that no curve crosses.
    """

    first: int  # the least step above 0
    last: int
    log: bool
    has_zero: bool  # whether there is a step 0

    @classmethod
    def of(cls, runs: Sequence[RunCurves], *, log: bool) -> StepAxis:
        """Make an axis that holds all steps of some runs."""
        steps = [step for run in runs for c in run.curves.values() for step in c.steps.tolist()]
        last = max([1, *steps])
        first = min((step for step in steps if step > 0), default=last)
        return cls(first=first, last=last, log=log, has_zero=min([1, *steps]) <= 0)

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
            ends = {"range": [-margin, self.last + margin]}
            return {**ends, "nticks": 6, "tickformat": ",d", "tick0": 0}
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


_FROM_0 = {"rangemode": "tozero"}


@dataclass(frozen=True)
class Panel:
    """A panel is a chart of one or more quantities of the log."""

    title: str
    names: tuple[str, ...]
    form: str  # how Plotly formats a value on hover
    axis: Mapping[str, object] = field(default_factory=lambda: _FROM_0)


PANELS = (
    Panel("loss, nats per token", ("train_loss", "train_sample_loss", "valid_loss"), ".3r", {}),
    Panel("BLEU", ("bleu",), ".3r"),
    Panel("learning rate", ("learning_rate",), ".3~g", _FROM_0 | {"exponentformat": "e"}),
    Panel("chrF", ("chrf",), ".3r"),
    Panel("norm of the gradient", ("gradient_norm",), ".4~g"),
    Panel(
        "target tokens per second", ("tokens_per_second",), ",.0f", _FROM_0 | {"tickformat": ",d"}
    ),
    Panel("exact translations", ("exact",), ".1%", {"range": [0, 1.05], "tickformat": ".0%"}),
)
KNOWN = frozenset(name for panel in PANELS for name in panel.names)  # the quantities in them
_MOST_LETTERS = 60  # letters of a title that fit over a panel
MOST_OWN = 40  # most panels of other quantities, which have names that a training gave them


def all_panels(runs: Sequence[RunCurves]) -> list[Panel]:
    """Return all panels there could be, those of other quantities in the order of their names."""
    own = sorted({name for run in runs for name in run.curves} - KNOWN)
    return [
        *PANELS,
        *(Panel(shorten(name, _MOST_LETTERS), (name,), ".4~g", {}) for name in own[:MOST_OWN]),
    ]


def drawn_panels(runs: Sequence[RunCurves]) -> list[Panel]:
    """Return the panels in which a run has a line, and that of the loss in any case."""
    return [
        panel
        for place, panel in enumerate(all_panels(runs))
        if place == 0 or any(len(run.curves.get(name, ())) for run in runs for name in panel.names)
    ]


def axis_names(place: int) -> tuple[str, str]:
    """Return Plotly's names of the two axes of a panel."""
    number = "" if place == 0 else str(place + 1)
    return f"x{number}", f"y{number}"


def panels_layout(
    steps: StepAxis,
    theme: Theme,
    *,
    top: int,
    panels: Sequence[Panel],
    titles: Sequence[str],
    every: Sequence[Panel] = PANELS,
) -> Properties:
    """Return a layout: axes and titles of some panels, ``top`` pixels below the upper edge.

    Each stays in the column that it has among ``every``, two a row, without gaps; where one column
    is empty the other has the whole width.
    """
    columns = [[panel for panel in panels if panel in every[first::2]] for first in (0, 1)]
    widths = [(0.0, 0.445), (0.555, 1.0)] if all(columns) else [(0.0, 1.0)] * 2
    heights = [_FIRST, *[_OTHERS] * (max(map(len, columns)) - 1)]
    whole = sum(heights) + _GAP * (len(heights) - 1)
    above = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1 + top / whole, "yanchor": "top"}
    corner = {"xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    layout: Properties = {
        "height": top + whole + _BOTTOM,
        "margin": {"l": 60, "r": 14, "t": top, "b": _BOTTOM},
        "meta": {"readable": 560},
        "hovermode": "closest",
        "showlegend": True,
        "legend": above | LEGEND_NAMES,
        "annotations": [],
    }
    for place, panel in enumerate(panels):
        side = int(panel in columns[1])
        column, (left, right) = columns[side], widths[side]
        row, lowest = column.index(panel), panel is column[-1]
        over = sum(heights[:row]) + _GAP * row
        high, low = 1 - over / whole, 1 - (over + heights[row]) / whole
        x, y = axis_names(place)
        layout[f"xaxis{x[1:]}"] = {
            **steps.layout(),
            **{"domain": [left, right], "anchor": y, "showline": True, "linecolor": theme.line},
            "showticklabels": lowest,
            "title": {"text": "step", "standoff": 4} if lowest else None,
        }
        across = {"domain": [low, high], "anchor": x, "showgrid": True, "nticks": 6}
        layout[f"yaxis{y[1:]}"] = {**across, **panel.axis}
        at = {"x": left, "y": high, "align": "left", "yshift": 3}
        layout["annotations"].append(note(titles[place], theme, **corner, **at))
    return layout
