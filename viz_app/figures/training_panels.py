"""The small charts of a training: what each shows, where it is, and its axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwise.viz_app.figures.step_axis import StepAxis
from headwise.viz_app.figures.theme import Properties, Theme
from headwise.viz_app.records.measures import RunCurves

_GAP, _BOTTOM = 44, 44
_HEIGHTS = (250, 150, 150, 150)
"""Pixels between the charts, below them, and of each row of charts."""


@dataclass(frozen=True)
class Panel:
    """A panel is a chart of one or more quantities of the log."""

    title: str
    names: tuple[str, ...]
    form: str
    """How Plotly formats a value on hover."""
    axis: Mapping[str, object] = field(default_factory=lambda: {"rangemode": "tozero"})


PANELS = (
    Panel("loss, nats per token", ("train_loss", "train_sample_loss", "valid_loss"), ".4f", {}),
    Panel("BLEU", ("bleu",), ".2f"),
    Panel(
        "learning rate", ("learning_rate",), ".3~g", {"rangemode": "tozero", "exponentformat": "e"}
    ),
    Panel("chrF", ("chrf",), ".2f"),
    Panel("norm of the gradient", ("gradient_norm",), ".4~g"),
    Panel(
        "target tokens per second",
        ("tokens_per_second",),
        ",.0f",
        {"rangemode": "tozero", "tickformat": ",d"},
    ),
    Panel("exact translations", ("exact",), ".1%", {"range": [0, 1.05], "tickformat": ".0%"}),
)
"""All panels, two a row, from the left and from the top."""


def drawn_panels(runs: Sequence[RunCurves]) -> list[Panel]:
    """Return the panels in which a run has a line, and that of the loss in any case."""
    return [
        panel
        for place, panel in enumerate(PANELS)
        if place == 0 or any(len(run.curves.get(name, ())) for run in runs for name in panel.names)
    ]


def axis_names(place: int) -> tuple[str, str]:
    """Return Plotly's names of the two axes of a panel."""
    number = "" if place == 0 else str(place + 1)
    return f"x{number}", f"y{number}"


def panels_layout(
    steps: StepAxis, theme: Theme, *, top: int, panels: Sequence[Panel], titles: Sequence[str]
) -> Properties:
    """Return a layout: axes and titles of some panels, ``top`` pixels below the upper edge.

    Each stays in its column, without gaps; where one column is empty the other has the whole width.
    """
    columns = [[panel for panel in panels if panel in PANELS[first::2]] for first in (0, 1)]
    widths = [(0.0, 0.445), (0.555, 1.0)] if all(columns) else [(0.0, 1.0)] * 2
    heights = _HEIGHTS[: max(map(len, columns))]
    whole = sum(heights) + _GAP * (len(heights) - 1)
    layout: Properties = {
        "height": top + whole + _BOTTOM,
        "margin": {"l": 60, "r": 14, "t": top, "b": _BOTTOM},
        "meta": {"readable": 560},
        "hovermode": "closest",
        "showlegend": True,
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + top / whole,
            "yanchor": "top",
            "itemclick": False,
            "itemdoubleclick": False,
        },
        "annotations": [],
    }
    for place, panel in enumerate(panels):
        side = int(panel in columns[1])
        row = columns[side].index(panel)
        above = sum(heights[:row]) + _GAP * row
        high, low = 1 - above / whole, 1 - (above + heights[row]) / whole
        left, right = widths[side]
        x, y = axis_names(place)
        lowest = panel is columns[side][-1]
        layout[f"xaxis{x[1:]}"] = {
            **steps.layout(),
            "domain": [left, right],
            "anchor": y,
            "showline": True,
            "linecolor": theme.line,
            "showticklabels": lowest,
            "title": {"text": "step", "standoff": 4} if lowest else None,
        }
        layout[f"yaxis{y[1:]}"] = {
            "domain": [low, high],
            "anchor": x,
            "showgrid": True,
            "nticks": 6,
            **panel.axis,
        }
        layout["annotations"].append(
            {
                "text": titles[place],
                "x": left,
                "y": high,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "align": "left",
                "yshift": 3,
                "showarrow": False,
                "font": {"color": theme.muted, "size": 12},
            }
        )
    return layout
