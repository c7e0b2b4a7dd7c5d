"""Draws measures of whole checkpoints, as small charts below each other over the same checkpoints.

Columns are checkpoints, where those of ``figures.head_matrix`` are.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.selecting import vertical_line
from headwise.viz_app.figures.step_axis import StepColumns
from headwise.viz_app.figures.theme import Properties, Theme, escape_plotly, new_figure

_HEIGHT, _TITLE, _TOP = 76, 30, 24
"""Pixels of a chart, between two charts, where the title of the lower one is, and above all."""
_LETTERS = 40
"""Most letters of a line that is shown when the mouse rests on a value."""


@dataclass(frozen=True)
class StageChart:
    """A chart has one measure of the checkpoints."""

    name: str
    values: Sequence[float]
    """A value for each checkpoint, NaN where there is none."""
    words: Sequence[str]
    """What is shown when the mouse rests on each value."""
    reference: float | None = None
    """The value of the references, which a dotted line marks."""


def stage_charts(
    charts: Sequence[StageChart],
    *,
    steps: Sequence[int],
    theme: Theme,
    marked: int | None,
    width: int = 700,
) -> go.Figure:
    """Draw measures by checkpoint, a trace each, with gaps at NaN; customdata are the steps.

    Args:
        charts: from the top.
        steps: steps of the checkpoints.
        theme: colours.
        marked: index of a checkpoint to mark by a line through all charts.
        width: pixels that the figure has at most.

    Raises:
        ValueError: if there are no charts, or more than colours, or a chart does not fit the steps
            or has no value.
    """
    if not 0 < len(charts) <= len(theme.series):
        raise ValueError(f"expected 1 to {len(theme.series)} charts, got {len(charts)}")
    columns = StepColumns.of(steps, width)
    whole = _HEIGHT * len(charts) + _TITLE * (len(charts) - 1)
    data: list[Properties] = []
    axes: Properties = {}
    shapes: list[Properties] = []
    notes: list[Properties] = []
    for place, (chart, colour) in enumerate(zip(charts, theme.series, strict=False)):
        y = f"y{place + 1}" if place else "y"
        high = 1 - place * (_HEIGHT + _TITLE) / whole
        data.append(_line(chart, steps, colour) | {"yaxis": y})
        axes[f"yaxis{y[1:]}"] = {
            "domain": [max(high - _HEIGHT / whole, 0.0), high],
            "range": _range(chart),
            "nticks": 4,
            "showgrid": True,
        }
        notes.append(
            _note(chart.name, theme)
            | {"x": 0, "y": high, "yref": "paper", "yanchor": "bottom", "yshift": 3}
        )
        if chart.reference is not None:
            dotted = {"color": theme.muted, "width": 1.5, "dash": "dot"}
            at = {"xref": "x domain", "yref": y, "x0": 0, "x1": 1}
            shapes.append(
                {"type": "line", "line": dotted, "layer": "below", **at}
                | {"y0": chart.reference, "y1": chart.reference}
            )
            notes.append(
                _note("references", theme)
                | {"x": 1, "y": chart.reference, "yref": y, "yanchor": "middle", "xshift": 4}
            )
    if marked is not None:
        shapes.append(vertical_line(marked, theme=theme, yref="paper", layer="below"))
    return new_figure(
        theme,
        data,
        {
            **columns.layout(top=_TOP, bottom=columns.labels, height=whole),
            "hovermode": "closest",
            "hoverlabel": {"align": "left"},
            "xaxis": {"anchor": data[-1]["yaxis"], **columns.axis},
            **axes,
            "shapes": shapes,
            "annotations": notes,
        },
    )


def _line(chart: StageChart, steps: Sequence[int], colour: str) -> Properties:
    if {len(chart.values), len(chart.words)} != {len(steps)}:
        raise ValueError(
            f"{chart.name}: expected {len(steps)} values and words, got {len(chart.values)} and "
            f"{len(chart.words)}"
        )
    opaque = {"marker": {"opacity": 1}}
    return {
        "type": "scatter",
        "x": list(range(len(steps))),
        "y": np.asarray(chart.values, np.float32),
        "name": escape_plotly(chart.name),
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1.5},
        "marker": {"size": 7, "color": colour},
        "customdata": [str(step) for step in steps],
        "text": [
            "<br>".join([f"step {step:,}", *map(escape_plotly, textwrap.wrap(words, _LETTERS))])
            for step, words in zip(steps, chart.words, strict=True)
        ],
        "selected": opaque,
        "unselected": opaque,
        "hovertemplate": "%{text}<extra></extra>",
    }


def _range(chart: StageChart) -> list[float]:
    """Return an axis with some space above and below the values and the reference."""
    shown = np.array([*chart.values, np.nan if chart.reference is None else chart.reference])
    if np.isnan(shown).all():
        raise ValueError(f"{chart.name}: expected a value to draw, got none")
    least, most = float(np.nanmin(shown)), float(np.nanmax(shown))
    space = 0.12 * (most - least) or 0.5
    return [least - space, most + space]


def _note(text: str, theme: Theme) -> Properties:
    return {
        "text": escape_plotly(text),
        "xref": "x domain",
        "xanchor": "left",
        "showarrow": False,
        "font": {"color": theme.muted, "size": 12},
    }
