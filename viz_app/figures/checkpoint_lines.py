"""Draws values by checkpoint: measures of a head, named lines, and measures of whole checkpoints.

Checkpoints are evenly spaced, the first on the left.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import plotly.graph_objects as go

from headwise.model.ties import descending
from headwise.viz_app.figures.head_matrix import StepColumns, step_ticks
from headwise.viz_app.figures.lines import LEGEND_ABOVE, line, line_chart, look
from headwise.viz_app.figures.selecting import vertical_line
from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    escape_lines,
    escape_plotly,
    new_figure,
)
from headwise.viz_app.records.texts import shorten
from headwise.viz_app.records.trace import Floats

_LINES, _ABOVE, _BELOW = 340, 12, 44
"""Pixels of the chart of named lines, and of what is above and below its lines."""
_APART, _LONGEST = 17, 26
"""Least pixels between the names of two lines, and most characters of a name."""
_HEIGHT, _TITLE, _TOP = 76, 30, 24
"""Pixels of a small chart, between two, where the title of the lower one is, and above all."""
_LETTERS = 40
"""Most letters of a line that is shown when the mouse rests on a value."""


def measure_lines(
    lines: Mapping[str, Sequence[float]], *, steps: Sequence[int], theme: Theme, marked: int | None
) -> go.Figure:
    """Draw measures of one head, from 0 to 1, by name: a line each, with gaps at NaN.

    A vertical line is at the checkpoint whose index is ``marked``.

    Raises:
        ValueError: if values and steps do not fit, or there are more lines than colours.
    """
    if len(lines) > len(theme.series):
        raise ValueError(f"expected at most {len(theme.series)} lines, got {len(lines)}")
    for name, values in lines.items():
        if len(values) != len(steps):
            raise ValueError(f"{name}: expected {len(steps)} values, got {len(values)}")
    return line_chart(
        [
            line(
                list(range(len(steps))),
                values,
                **look(place, theme),
                name=name,
                hover=f"{escape_plotly(name)}<br>step %{{text}}: %{{y:.2f}}",
                texts=[f"{step:,}" for step in steps],
            )
            for place, (name, values) in enumerate(lines.items())
        ],
        theme=theme,
        x={
            "range": [-0.3, len(steps) - 0.7],
            "tickangle": -90,
            **step_ticks(steps, max(1, math.ceil(len(steps) / 20))),
        },
        y={"range": [-0.03, 1.03], "tickvals": [0, 0.25, 0.5, 0.75, 1]},
        margin={"l": 34, "r": 14, "b": 58},
        height=270 + 19 * len(lines),  # the legend may have a line for each
        legend=LEGEND_ABOVE,
        shapes=[vertical_line(marked, theme=theme)] if marked is not None else [],
    )


def named_lines(
    values: Floats,
    *,
    steps: Sequence[int],
    names: Sequence[str],
    title: str,
    theme: Theme,
    marked: int,
) -> go.Figure:
    """Draw values, (checkpoints, lines), as lines with their names at the right end.

    A vertical line marks the checkpoint whose index is ``marked``; the ``customdata`` of a mark is
    its step.

    Args:
        values: (checkpoints, lines).
        steps: of the checkpoints.
        names: of the lines.
        title: what the values are.
        theme: colours.
        marked: index of a checkpoint.
    """
    looks = [look(place, theme) for place in range(len(names))]
    least, most = float(values.min(initial=0.0)), float(values.max(initial=0.5))
    beyond = 0.04 * (most - least)
    least, most = least - beyond, most + beyond
    inner = _LINES - _ABOVE - _BELOW
    heights = _spread((values[-1] - least) / (most - least) * inner, inner)
    longest = min(_LONGEST, max(map(len, names), default=0))
    left, right = 56, 42 + 8 * longest
    return line_chart(
        [
            line(
                list(range(len(steps))),
                values[:, place],
                **looks[place],
                hover=f"{escape_plotly(name)}<br>step %{{text}}: %{{y:.3f}}",
                texts=[f"{step:,}" for step in steps],
                clicks=[str(step) for step in steps],
            )
            for place, name in enumerate(names)
        ],
        theme=theme,
        x={
            "title": "checkpoint, by training step",
            "range": [-0.3, len(steps) - 0.7],
            **step_ticks(steps, 1),
        },
        y={
            "title": title,
            "range": [least, most],
            "zeroline": True,
            "zerolinecolor": theme.line,
        },
        margin={"l": left, "r": right, "t": _ABOVE, "b": _BELOW},
        height=_LINES,
        meta={"readable": left + min(36 * len(steps), 480) + right},
        shapes=[vertical_line(marked, theme=theme, dash="dot")],
        annotations=[
            {
                "x": 1,
                "y": height / inner,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "middle",
                "xshift": 8,
                "showarrow": False,
                "text": f'<span style="color:{each["colour"]}">●</span> '
                + escape_plotly(shorten(name, _LONGEST)),
                "font": {"color": theme.text, "size": 13},
            }
            for name, each, height in zip(names, looks, heights, strict=True)
        ],
    )


def _spread(heights: Floats, most: float) -> list[float]:
    """Return the heights, moved up, and down again below ``most``, where they are too close."""
    moved = heights.astype(float)
    below, above = -np.inf, most + _APART
    for place in descending(-heights):
        below = moved[place] = max(moved[place], below + _APART)
    for place in descending(-heights)[::-1]:
        above = moved[place] = min(moved[place], above - _APART)
    return [float(height) for height in moved]


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
    reference_name: str = "references"
    """Of what that value is, in a word or two."""


def stage_charts(
    charts: Sequence[StageChart],
    *,
    steps: Sequence[int],
    theme: Theme,
    marked: int | None,
    width: int = 700,
) -> go.Figure:
    """Draw measures of whole checkpoints, as small charts below each other over the same columns.

    Each chart is a trace, with gaps at NaN, whose customdata are the steps. A line through all of
    them is at the checkpoint whose index is ``marked``. The figure has ``width`` pixels at most.

    Raises:
        ValueError: if there are no charts, or a chart does not fit the steps or has no value.
    """
    if not charts:
        raise ValueError("expected at least 1 chart, got none")
    columns = StepColumns.of(steps, width)
    whole = _HEIGHT * len(charts) + _TITLE * (len(charts) - 1)
    data: list[Properties] = []
    axes: Properties = {}
    shapes: list[Properties] = []
    notes: list[Properties] = []
    for place, (chart, colour) in enumerate(zip(charts, cycle(theme.series), strict=False)):
        y = f"y{place + 1}" if place else "y"
        high = 1 - place * (_HEIGHT + _TITLE) / whole
        data.append(_line(chart, steps, colour, y))
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
                _note(chart.reference_name, theme)
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


def _line(chart: StageChart, steps: Sequence[int], colour: str, of: str) -> Properties:
    if {len(chart.values), len(chart.words)} != {len(steps)}:
        raise ValueError(
            f"{chart.name}: expected {len(steps)} values and words, got {len(chart.values)} and "
            f"{len(chart.words)}"
        )
    return line(
        list(range(len(steps))),
        chart.values,
        colour=colour,
        name=chart.name,
        hover="%{text}",
        texts=[
            escape_lines([f"step {step:,}", *textwrap.wrap(words, _LETTERS)])
            for step, words in zip(steps, chart.words, strict=True)
        ],
        clicks=[str(step) for step in steps],
        yaxis=of,
    )


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
