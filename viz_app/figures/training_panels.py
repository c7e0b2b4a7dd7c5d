"""Where the small charts of a training are, and their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from viz_app.figures.step_axis import StepAxis
from viz_app.figures.theme import Theme

_GAP, _BOTTOM = 44, 44
_HEIGHTS = (250, 150, 150)
"""Pixels: between and below the charts, and of each row of them."""


@dataclass(frozen=True)
class Panel:
    """A chart of one or more figures of the log."""

    title: str
    names: tuple[str, ...]
    form: str
    """Of a value under the mouse."""
    axis: Mapping[str, object] = field(default_factory=lambda: {"rangemode": "tozero"})


PANELS = (
    Panel("loss, nats per piece", ("train_loss", "valid_loss"), ".4f", {}),
    Panel("BLEU", ("bleu",), ".2f"),
    Panel(
        "learning rate", ("learning_rate",), ".3~g", {"rangemode": "tozero", "exponentformat": "e"}
    ),
    Panel("chrF", ("chrf",), ".2f"),
    Panel("norm of the gradient", ("gradient_norm",), ".4~g"),
    Panel(
        "target pieces per second",
        ("tokens_per_second",),
        ",.0f",
        {"rangemode": "tozero", "tickformat": ",d"},
    ),
)
"""From the left and from the top, two a row."""


def axes_of(place: int) -> tuple[str, str]:
    """What Plotly calls the two axes of a panel."""
    number = "" if place == 0 else str(place + 1)
    return f"x{number}", f"y{number}"


def lay_out(
    figure: go.Figure, steps: StepAxis, theme: Theme, *, top: int, titles: Sequence[str]
) -> None:
    """Give a figure the axes of all panels and their titles, with so much room above them."""
    whole = sum(_HEIGHTS) + _GAP * (len(_HEIGHTS) - 1)
    figure.update_layout(
        height=top + whole + _BOTTOM,
        margin={"l": 60, "r": 14, "t": top, "b": _BOTTOM},
        hovermode="closest",
        showlegend=True,
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1 + top / whole,
            "yanchor": "top",
            "itemclick": False,
            "itemdoubleclick": False,
        },
    )
    base = figure.layout.xaxis.to_plotly_json(), figure.layout.yaxis.to_plotly_json()
    axes: dict[str, object] = {}
    for place, panel in enumerate(PANELS):
        row, column = divmod(place, 2)
        above = sum(_HEIGHTS[:row]) + _GAP * row
        high, low = 1 - above / whole, 1 - (above + _HEIGHTS[row]) / whole
        left, right = (0.0, 0.465) if column == 0 else (0.535, 1.0)
        x, y = axes_of(place)
        lowest = row == len(_HEIGHTS) - 1
        axes[f"xaxis{x[1:]}"] = {
            **base[0],
            **steps.layout(),
            "domain": [left, right],
            "anchor": y,
            "showline": True,
            "linecolor": theme.line,
            "showticklabels": lowest,
            **({"title": {**base[0]["title"], "text": "step", "standoff": 4}} if lowest else {}),
        }
        axes[f"yaxis{y[1:]}"] = {
            **base[1],
            "domain": [low, high],
            "anchor": x,
            "showgrid": True,
            "nticks": 6,
            **panel.axis,
        }
        figure.add_annotation(
            text=titles[place],
            x=left,
            y=high,
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            yshift=3,
            showarrow=False,
            font={"color": theme.muted, "size": 12},
        )
    figure.update_layout(axes)
