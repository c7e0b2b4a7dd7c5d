"""Draws the curves of trainings, as small charts over the same steps.

Runs differ in colour, dashes and the shape of their markers; a milestone has a marker. Validation
loss has filled markers, the loss of a sample of the training pairs, measured alike, has open ones.
The loss of training batches, which is another measure, is a thin line.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.lines import DASHES, line
from headwise.viz_app.figures.selecting import vertical_line
from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    escape_plotly,
    new_figure,
)
from headwise.viz_app.figures.training_panels import (
    PANELS,
    Panel,
    StepAxis,
    all_panels,
    axis_names,
    drawn_panels,
    panels_layout,
)
from headwise.viz_app.records.measures import Curve, OverfittingOnset, RunCurves

MOST_RUNS = 6
"""Most runs in one figure: as many as there are colours of lines."""
MILESTONE_CURVES = ("train_sample_loss", "valid_loss", "bleu", "chrf", "exact")
"""Quantities of our log that are measured at milestones only; their markers can be clicked."""
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_LINE, _TITLE = 20, 24
"""Pixels of a line of text above the charts, and of a chart's title."""
_WIDTH = 700
"""Pixels that a line of the legend has, at least."""
_WORDS = {"train_sample_loss": "train sample", "valid_loss": "valid"}
_MARKERS = {
    "valid_loss": "filled marks: valid",
    "train_sample_loss": "open marks: train sample",
    "train_loss": "thin: training batches",
}
"""How the curves of the loss are told apart where the legend names runs."""


def is_of_milestones(name: str) -> bool:
    """Return whether a quantity is logged at milestones only: also what a Trainer evaluated."""
    return name in MILESTONE_CURVES or name.startswith("eval_")


def training_curves(
    runs: Sequence[RunCurves],
    *,
    step: int,
    theme: Theme,
    log_steps: bool = False,
    log_loss: bool = False,
) -> go.Figure:
    """Draw the panels of some runs, as far as logged: losses, scores, learning rate, speed.

    A marker's ``customdata`` is its step and its run, ``"500,en-es"``. Traces are in the order of
    panels, runs and curves; unsmoothed values come before the curve that smooths them.

    Args:
        runs: the first is the one whose checkpoint is in use.
        step: the step of that checkpoint, which a line marks in each chart.
        log_steps: whether the axis of steps is logarithmic.
        log_loss: whether the axis of the loss is.

    Raises:
        ValueError: if there are no runs, or more runs than colours.
    """
    if not 0 < len(runs) <= MOST_RUNS:
        raise ValueError(f"expected 1 to {MOST_RUNS} runs, got {len(runs)}")
    steps = StepAxis.of(runs, log=log_steps)
    overfitted = [
        (run, run.overfitting, colour)
        for run, colour in zip(runs, theme.series, strict=False)
        if run.overfitting is not None
    ]
    panels = drawn_panels(runs)
    titles = _titles(panels, runs)
    above = _TITLE + _LINE * titles[0].count("<br>")
    top = _LINE * (_legend_lines(runs) + len(overfitted)) + above + 6
    every = all_panels(runs)
    layout = panels_layout(steps, theme, top=top, panels=panels, titles=titles, every=every)
    if len(runs) == 1:
        layout["legend"]["traceorder"] = "reversed"  # first the pair that can be compared
    if log_loss:
        layout["yaxis"] |= _loss_axis(runs)
    data: list[Properties] = []
    shapes: list[Properties] = []
    for place, panel in enumerate(panels):
        for number, run in enumerate(runs):
            for name in _drawn_names(run, panel):
                if name in run.raw:
                    data.append(_raw(run.raw[name], place, number, steps, theme))
                data.append(_line(run, name, panel, place, number, len(runs) > 1, steps, theme))
        x, y = axis_names(place)
        below = {"xref": x, "yref": f"{y} domain", "layer": "below"}
        shapes.append(vertical_line(steps.place(step), theme=theme, **below))
        if steps.log and steps.has_zero:
            dotted = {"color": theme.line, "width": 1.5, "dash": "dot"}
            shapes.append(vertical_line(steps.line, theme=theme, name="", line=dotted, **below))
    for row, (run, onset, colour) in enumerate(overfitted):
        shapes.append(_shade(onset, colour, steps))
        lines = len(overfitted) - row
        layout["annotations"].append(_overfitting(run.name, onset, colour, above + _LINE * lines))
    return new_figure(theme, data, layout | {"shapes": shapes})


def _titles(panels: Sequence[Panel], runs: Sequence[RunCurves]) -> list[str]:
    first, *others = (escape_plotly(panel.title) for panel in panels)
    if len(runs) > 1:  # the legend names these only
        drawn = {name for run in runs for name in _drawn_names(run, panels[0])}
        markers = [marker for name, marker in _MARKERS.items() if name in drawn]
        first = f"{'; '.join(markers)}<br>{first}"
    return [first, *others]


def _drawn_names(run: RunCurves, panel: Panel) -> list[str]:
    """Return the quantities of a panel that a run has logged."""
    return [name for name in panel.names if len(run.curves.get(name, ()))]


def _legend_lines(runs: Sequence[RunCurves]) -> int:
    if len(runs) == 1:
        return len(_wrapped(runs[0].batches))
    longest = max(len(run.name) for run in runs)
    return math.ceil(len(runs) / max(_WIDTH // (52 + 7 * longest), 1))


def _wrapped(name: str) -> list[str]:
    """Return the lines that a name has in the legend."""
    return textwrap.wrap(name, 36)


def _loss_axis(runs: Sequence[RunCurves]) -> dict[str, object]:
    """Return a logarithmic axis, with labels at 2 and 5 too unless the range is wide."""
    losses = [run.curves[n].values for run in runs for n in PANELS[0].names if n in run.curves]
    above = np.concatenate([*losses, [1.0]])
    above = above[above > 0]
    return {"type": "log", "dtick": 1 if above.max() > 100 * above.min() else "D2"}


def _raw(curve: Curve, place: int, number: int, steps: StepAxis, theme: Theme) -> Properties:
    """Return a trace of the unsmoothed values, pale."""
    x, y = axis_names(place)
    return line(
        _places(curve, steps),
        curve.values,
        colour=theme.series[number],
        mode="lines",
        width=1,
        xaxis=x,
        yaxis=y,
        opacity=0.3,
        showlegend=False,
    )


def _places(curve: Curve, steps: StepAxis) -> np.ndarray:
    return np.array([steps.place(step) for step in curve.steps.tolist()], dtype=np.float64)


def _line(
    run: RunCurves,
    name: str,
    panel: Panel,
    place: int,
    number: int,
    several: bool,
    steps: StepAxis,
    theme: Theme,
) -> Properties:
    """Return a trace of one quantity of one run."""
    x, y = axis_names(place)
    curve = run.curves[name]
    what = {"train_loss": run.batches, **_WORDS}.get(name, panel.title)
    marked = is_of_milestones(name)
    shape = "-open" if name == "train_sample_loss" else ""
    in_legend = place == 0 and (not several or name == _drawn_names(run, panel)[-1])
    places, values = _places(curve, steps), curve.values.astype(np.float32)
    numbers, reach = curve.steps, _reach(run, name)
    if steps.log and len(curve) > 1 and curve.steps[0] <= 0:
        # No line leads from step 0 over the dotted line.
        places, values, reach = (
            np.insert(each, 1, np.nan, axis=-1) for each in (places, values, reach)
        )
        numbers = np.insert(numbers, 1, 0)
    said = escape_plotly(f"{run.name}: {what}" if several else what)
    return line(
        places,
        values,
        colour=theme.series[number],
        dash=DASHES[number],
        name=[run.name] if several else _wrapped(what),
        hover=f"{said}<br>step %{{{'text' if marked else 'x:,d'}}}<br>%{{y:{panel.form}}}",
        texts=[f"{step:,}" for step in numbers.tolist()] if marked else None,
        clicks=[f"{step},{run.name}" for step in numbers.tolist()] if marked else None,
        reach=reach if name in run.intervals else None,
        mode="lines+markers" if marked else "lines",
        width=None if marked else 1.2,
        symbol=_SYMBOLS[number] + shape,
        xaxis=x,
        yaxis=y,
        showlegend=in_legend,
        cliponaxis=not marked,
    )


def _reach(run: RunCurves, name: str) -> np.ndarray:
    """Return how far each value's interval reaches below and above it, (2, n); NaN without one."""
    curve = run.curves[name]
    reach = np.full((2, len(curve)), np.nan, np.float32)
    for row, end in enumerate(run.intervals.get(name, ())):
        at = dict(zip(end.steps.tolist(), end.values.tolist(), strict=True))
        ends = np.array([at.get(step, np.nan) for step in curve.steps.tolist()])
        # A percentile of the resamples may lie on the other side of the value.
        reach[row] = np.maximum((curve.values - ends) * (1 if row == 0 else -1), 0)
    return reach


def _shade(onset: OverfittingOnset, colour: str, steps: StepAxis) -> Properties:
    """Return a shape that shades the chart of the loss from where valid loss rises."""
    return {
        "type": "rect",
        "x0": steps.place(onset.step),
        "x1": steps.place(onset.last),
        "xref": "x",
        "y0": 0,
        "y1": 1,
        "yref": "y domain",
        "layer": "below",
        "fillcolor": colour,
        "opacity": 0.12,
        "line": {"width": 0},
    }


def _overfitting(name: str, onset: OverfittingOnset, colour: str, above: int) -> Properties:
    """Return an annotation, ``above`` pixels over the charts, that names what is shaded."""
    return {
        "text": f'<span style="color:{colour}">■</span> {escape_plotly(name)}: valid loss is '
        f"lowest at step {onset.step:,}, from there on it rises: overfitting",
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": 1,
        "yref": "paper",
        "yanchor": "top",
        "yshift": above,
        "showarrow": False,
        "font": {"size": 12},
    }
