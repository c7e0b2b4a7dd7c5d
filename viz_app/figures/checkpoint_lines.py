"""Draws values by checkpoint: measures of a head, named lines, and measures of whole checkpoints.

Checkpoints are evenly spaced, the first on the left.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import plotly.graph_objects as go

from headwise.model.ties import descending
from headwise.viz_app.figures.drawings import svg_image
from headwise.viz_app.figures.lines import LEGEND_ABOVE, line, line_chart, look
from headwise.viz_app.figures.matrix import COLOUR_BAR, vertical_line
from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    escape_lines,
    escape_plotly,
    new_figure,
    note,
)
from headwise.viz_app.records.trace import Floats, shorten

_LINES, _ABOVE, _BELOW, _NAMED = 340, 12, 44, 480
"""Pixels of the chart of named lines, above and below them, and across many checkpoints."""
_APART, _LONGEST = 17, 26  # pixels between two names, at least, and letters of a name, at most
_HEIGHT, _TITLE, _TOP = 76, 30, 24
"""Pixels of a small chart, between two, where the title of the lower one is, and above all."""
_LETTERS = 40  # most letters of a line that is shown when the mouse rests on a value
_MOST_WIDTH, _LARGEST_CELL, _LETTER = 700, 62, 6.6  # of columns, of one, of a letter of a step
_MANY = 400  # pixels of many columns with little room, which stay with their labels
_LEFT, _RIGHT = 40, COLOUR_BAR + 8
"""Pixels left of the columns, for the labels of rows, and right of them. A colour bar that needs
more would make columns narrower than those of the other figures: long numbers must fit."""

_SPARK_WIDTH, _SPARK_HEIGHT = 240, 36  # pixels of a line without axes


@dataclass(frozen=True)
class StepColumns:
    """Columns, one for each checkpoint, stand in line in figures below each other."""

    axis: Properties  # properties of the axis of the columns, which are 0, 1, …; labels are steps
    labels: int  # pixels that the labels of the axis need above or below the columns
    _width: int
    _readable: int

    @classmethod
    def of(cls, steps: Sequence[int]) -> StepColumns:
        cell = min(_LARGEST_CELL, (_MOST_WIDTH - _LEFT - _RIGHT) / len(steps))
        longest = _LETTER * max(len(f"{step:,}") for step in steps)
        flat = longest + 4 <= 0.75 * cell  # the page may have less room
        least = longest + 4 if flat else min(12.0, cell, _MANY / len(steps))
        ends = {"range": [-0.5, len(steps) - 0.5], "tickangle": 0 if flat else -90}
        return cls(
            ends | step_ticks(steps, max(1, math.ceil(14 / (cell if flat else least)))),
            26 if flat else round(longest) + 14,
            round(_LEFT + cell * len(steps) + _RIGHT),
            round(_LEFT + least * len(steps) + _RIGHT),
        )

    def layout(self, *, top: int, bottom: int, height: int) -> Properties:
        """Return size and margins of a figure whose columns are ``height`` pixels high."""
        margin = {"l": _LEFT, "r": _RIGHT, "t": top, "b": bottom}
        size = {"height": top + height + bottom, "width": self._width, "margin": margin}
        return size | {"meta": {"readable": self._readable}}


def step_ticks(steps: Sequence[int], every: int) -> Properties:
    """Return properties of an axis of checkpoints, 0, 1, …, that labels some with their steps.

    The table of a chart and its readout take the names of the others from ``labelalias``.
    """
    names, kept = [f"{step:,}" for step in steps], range(0, len(steps), every)
    labels = {"tickvals": list(kept), "ticktext": [names[at] for at in kept]}
    return labels | {"labelalias": {str(at): name for at, name in enumerate(names)}}


def _line(values: Floats | Sequence[float], steps: Sequence[int], **given: Any) -> Properties:
    """Return a trace of a value for each checkpoint, whose texts are steps unless others are."""
    texts = {"texts": [f"{step:,}" for step in steps]}
    return line(list(range(len(steps))), values, **texts | given)


def measure_lines(
    lines: Mapping[str, Sequence[float]], *, steps: Sequence[int], theme: Theme, marked: int | None
) -> go.Figure:
    """Draw measures of one head, from 0 to 1, by name: a line each, with gaps at NaN.

    A vertical line is at the checkpoint whose index is ``marked``.
    """
    every = max(1, math.ceil(len(steps) / 20))
    said = {name: f"{escape_plotly(name)}<br>step %{{text}}: %{{y:.3r}}" for name in lines}
    return line_chart(
        [
            _line(values, steps, **look(place, theme), name=name, hover=said[name])
            for place, (name, values) in enumerate(lines.items())
        ],
        theme=theme,
        x={"range": [-0.3, len(steps) - 0.7], "tickangle": -90, **step_ticks(steps, every)},
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
    """Draw values, (checkpoints, lines), as lines with their names at the right end, under a title.

    A vertical line is at the ``marked`` checkpoint; ``customdata`` of a mark is its step.
    """
    looks = [look(place, theme) for place in range(len(names))]
    least, most = float(values.min(initial=0.0)), float(values.max(initial=0.5))
    beyond = 0.04 * (most - least)
    least, most = least - beyond, most + beyond
    inner = _LINES - _ABOVE - _BELOW
    heights = _spread((values[-1] - least) / (most - least) * inner, inner)
    left, right = 56, 42 + 8 * min(_LONGEST, max(map(len, names), default=0))
    clicks = [str(step) for step in steps]
    longest = _LETTER * max(len(f"{step:,}") for step in steps)
    hovers = [f"{escape_plotly(name)}<br>step %{{text}}: %{{y:.3r}}" for name in names]
    end = {"x": 1, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "middle"}
    font = {"color": theme.text, "size": 13}
    return line_chart(
        [
            _line(values[:, place], steps, **looks[place], hover=hover, clicks=clicks)
            for place, hover in enumerate(hovers)
        ],
        theme=theme,
        x={
            "title": "checkpoint, by training step",
            "range": [-0.3, len(steps) - 0.7],
            **step_ticks(steps, math.ceil(len(steps) * (longest + 8) / _NAMED)),
        },
        y={"title": title, "range": [least, most], "zeroline": True, "zerolinecolor": theme.line},
        margin={"l": left, "r": right, "t": _ABOVE, "b": _BELOW},
        height=_LINES,
        meta={"readable": left + min(36 * len(steps), _NAMED) + right},
        shapes=[vertical_line(marked, theme=theme, dash="dot")],
        annotations=[
            note(
                f'<span style="color:{each["colour"]}">●</span> '
                + escape_plotly(shorten(name, _LONGEST)),
                theme,
                **end | {"y": height / inner, "xshift": 8, "font": font},
            )
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
    values: Sequence[float]  # a value for each checkpoint, NaN where there is none
    words: Sequence[str]  # what is shown when the mouse rests on each value
    reference: float | None = None  # the value of the references, which a dotted line marks
    reference_name: str = "references"  # of what that value is, in a word or two

    def range(self) -> list[float]:
        """Return an axis with some space above and below the values and the reference."""
        shown = np.array([*self.values, np.nan if self.reference is None else self.reference])
        least, most = float(np.nanmin(shown)), float(np.nanmax(shown))
        space = 0.12 * (most - least) or 0.5
        return [least - space, most + space]


def stage_charts(
    charts: Sequence[StageChart], *, steps: Sequence[int], theme: Theme, marked: int | None
) -> go.Figure:
    """Draw measures of whole checkpoints, as small charts below each other over the same columns: a
    trace each, with gaps at NaN and steps as customdata. A line is at the ``marked`` one.
    """
    columns, clicks = StepColumns.of(steps), [str(step) for step in steps]
    whole = _HEIGHT * len(charts) + _TITLE * (len(charts) - 1)
    data: list[Properties] = []
    shapes: list[Properties] = []
    notes: list[Properties] = []
    axes: Properties = {}
    left = {"xref": "x domain", "xanchor": "left"}
    for place, (chart, colour) in enumerate(zip(charts, cycle(theme.series), strict=False)):
        y = f"y{place + 1}" if place else "y"
        high = 1 - place * (_HEIGHT + _TITLE) / whole
        texts = [
            escape_lines([f"step {step:,}", *textwrap.wrap(words, _LETTERS)])
            for step, words in zip(steps, chart.words, strict=True)
        ]
        named = {"name": chart.name, "hover": "%{text}", "texts": texts, "clicks": clicks}
        data.append(_line(chart.values, steps, colour=colour, **named, yaxis=y))
        space = {"domain": [max(high - _HEIGHT / whole, 0.0), high], "range": chart.range()}
        axes[f"yaxis{y[1:]}"] = {**space, "nticks": 4, "showgrid": True}
        above = {"x": 0, "y": high, "yref": "paper", "yanchor": "bottom", "yshift": 3}
        notes.append(note(escape_plotly(chart.name), theme, **left, **above))
        if chart.reference is not None:
            dotted = {"color": theme.muted, "width": 1.5, "dash": "dot"}
            ends = {"x0": 0, "x1": 1, "y0": chart.reference, "y1": chart.reference}
            across = {"xref": "x domain", "yref": y, "layer": "below", **ends}
            shapes.append({"type": "line", "line": dotted, **across})
            end = {"x": 1, "y": chart.reference, "yref": y, "yanchor": "middle", "xshift": 4}
            notes.append(note(escape_plotly(chart.reference_name), theme, **left, **end))
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


def spark_line(values: Sequence[float], *, marked: int, theme: Theme) -> str:
    """Return a line through values by checkpoint, NaN for none, as the address of an image without
    axes, from 0 or below, with a dot at the ``marked`` one. Empty with fewer than two values.
    """
    known = [(place, value) for place, value in enumerate(values) if not math.isnan(value)]
    if len(known) < 2:
        return ""
    low, high = min(0.0, *(value for _, value in known)), max(0.0, *(value for _, value in known))
    across, down = (_SPARK_WIDTH - 8) / (len(values) - 1), (_SPARK_HEIGHT - 8) / (high - low or 1)
    points = {place: (4 + place * across, 4 + (high - value) * down) for place, value in known}
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points.values())
    ground = 4 + high * down
    drawn = (
        f'<path d="M0 {ground:.1f}H{_SPARK_WIDTH}" stroke="{theme.line}"/>'
        f'<polyline points="{line}" fill="none" stroke="{theme.muted}" stroke-width="1.5"/>'
    )
    if marked in points:
        x, y = points[marked]
        drawn += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{theme.accent}"/>'
    return svg_image(drawn, _SPARK_WIDTH, _SPARK_HEIGHT)
