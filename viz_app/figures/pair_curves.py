"""Draws the accuracy on contrastive pairs over training: a chart for each phenomenon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.lines import line
from headwise.viz_app.figures.selecting import vertical_line
from headwise.viz_app.figures.theme import Properties, Theme, escape_plotly, new_figure
from headwise.viz_app.figures.training_panels import Panel, StepAxis, axis_names, panels_layout
from headwise.viz_app.records.measures import Curve, RunCurves
from headwise.viz_app.records.pairs import CHANCE, AccuracyCurve

_TOP = 28
_AXIS = {"range": [-0.03, 1.05], "tickvals": [0, 0.25, 0.5, 0.75, 1], "tickformat": ".0%"}


def accuracy_charts(
    curves: Sequence[AccuracyCurve],
    *,
    step: int,
    theme: Theme,
    log_steps: bool = False,
) -> go.Figure:
    """Draw accuracies with their intervals, a chart a curve, two a row, and the level of chance.

    Each curve is a trace, after one of chance; the ``customdata`` of a mark is its step and its
    phenomenon, as in ``"500,tense"``, without a phenomenon where the curve is of all pairs.

    Args:
        curves: each has at least one step.
        step: the step of the checkpoint in use, which a line marks in each chart.
        log_steps: whether the axis of steps is logarithmic.

    Raises:
        ValueError: if there are no curves.
    """
    if not curves:
        raise ValueError("expected at least one curve, got none")
    panels = [
        Panel(curve.phenomenon or "all pairs", (curve.phenomenon,), ".0%", _AXIS)
        for curve in curves
    ]
    titles = [
        f"{escape_plotly(panel.title)}: {curve.values[0].count:,} pairs"
        for panel, curve in zip(panels, curves, strict=True)
    ]
    steps = StepAxis.of([_as_logged(curve) for curve in curves], log=log_steps)
    layout = panels_layout(steps, theme, top=_TOP, panels=panels, titles=titles, every=panels)
    layout["showlegend"] = False
    data: list[Properties] = []
    shapes: list[Properties] = []
    for place, curve in enumerate(curves):
        x, y = axis_names(place)
        chance = _chance(layout[f"xaxis{x[1:]}"], theme)
        data += [each | {"xaxis": x, "yaxis": y} for each in (chance, _line(curve, steps, theme))]
        below = {"xref": x, "yref": f"{y} domain", "layer": "below"}
        shapes.append(vertical_line(steps.place(step), theme=theme, **below))
    layout["annotations"].append(
        {
            "text": "chance",
            "x": 0.9,
            "xref": "x domain",
            "xanchor": "right",
            "y": CHANCE,
            "yref": "y",
            "yanchor": "top",
            "showarrow": False,
            "font": {"color": theme.muted, "size": 12},
        }
    )
    return new_figure(theme, data, layout | {"shapes": shapes})


def _chance(axis: Properties, theme: Theme) -> Properties:
    """Return a trace along an axis of steps: a shape would lie below the grid's line, or above all.

    (``between`` them is a layer that the browser's Plotly does not know.)
    """
    ends = [10**end for end in axis["range"]] if axis.get("type") == "log" else axis["range"]
    chance = [CHANCE, CHANCE]
    return line(ends, chance, colour=theme.muted, dash="dot", name="chance", mode="lines")


def _as_logged(curve: AccuracyCurve) -> RunCurves:
    shares = np.array([each.share for each in curve.values])
    steps = np.array(curve.steps, np.int64)
    return RunCurves(curve.phenomenon, {"accuracy": Curve(steps, shares)})


def _line(curve: AccuracyCurve, steps: StepAxis, theme: Theme) -> Properties:
    texts = [
        f"step {step:,}<br>right in {each.share:.1%} of {each.count:,}<br>95% interval "
        f"{each.low:.1%} to {each.high:.1%}"
        for step, each in zip(curve.steps, curve.values, strict=True)
    ]
    low, share, high = (
        np.array([getattr(each, name) for each in curve.values])
        for name in ("low", "share", "high")
    )
    return line(
        [steps.place(step) for step in curve.steps],
        share,
        colour=theme.series[0],
        name=curve.phenomenon or "all pairs",
        hover="%{text}",
        texts=texts,
        clicks=[f"{step},{curve.phenomenon}" for step in curve.steps],
        reach=[share - low, high - share],
        cliponaxis=False,
    )
