"""Draws the curves of trainings, and of accuracies on pairs, as small charts over the same steps.

Runs differ in colour, dashes and the shape of their markers; a milestone has a marker. Validation
loss has filled markers, the loss of a sample of the training pairs, measured alike, has open ones.
The loss of training batches, which is another measure, is a thin line. Where a training begins to
change its pairs, the chart of the loss has a dotted line with its reason.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.lines import DASHES, line
from headwise.viz_app.figures.matrix import vertical_line
from headwise.viz_app.figures.theme import (
    Properties,
    Theme,
    escape_lines,
    escape_plotly,
    new_figure,
    note,
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
from headwise.viz_app.records.measures import Curve, DataChange, RunCurves
from headwise.viz_app.records.pairs import CHANCE, AccuracyCurve

MOST_RUNS = 6  # most runs in one figure: as many as there are colours of lines
MILESTONE_CURVES = ("train_sample_loss", "valid_loss", "bleu", "chrf", "exact")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_LINE, _TITLE, _TOP = 20, 24, 28
"""Pixels of a line of text above the charts, of a chart's title, and above charts of accuracies."""
_REASON, _NAME = 60, 36  # letters of a line of the reason of a jump, and of a name in the legend
_WIDTH = 700  # pixels that a line of the legend has, at least
_WORDS = {"train_sample_loss": "train sample", "valid_loss": "valid"}
_MARKERS = {
    "valid_loss": "filled marks: valid",
    "train_sample_loss": "open marks: train sample",
    "train_loss": "thin: training batches",
}
_PALE: Properties = {"mode": "lines", "width": 1, "opacity": 0.3, "showlegend": False}
_SHARES = {"range": [-0.03, 1.05], "tickvals": [0, 0.25, 0.5, 0.75, 1], "tickformat": ".0%"}


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
    panels, runs and curves; unsmoothed values come before the curve that smooths them. Each chart
    has a line at the ``step`` of the first run's checkpoint, which is in use. ValueError if there
    are no runs, or more than colours.
    """
    if not 0 < len(runs) <= MOST_RUNS:
        raise ValueError(f"expected 1 to {MOST_RUNS} runs, got {len(runs)}")
    steps = StepAxis.of(runs, log=log_steps)
    coloured = list(zip(runs, theme.series, strict=False))
    overfitted = [(each.name, each.overfitting, of) for each, of in coloured if each.overfitting]
    panels = drawn_panels(runs)
    titles = _titles(panels, runs)
    above = _TITLE + _LINE * titles[0].count("<br>")
    top = _LINE * (_legend_lines(runs) + len(overfitted)) + above + 6
    every = all_panels(runs)
    layout = panels_layout(steps, theme, top=top, panels=panels, titles=titles, every=every)
    if len(runs) == 1:
        layout["legend"]["traceorder"] = "reversed"  # first the pair that can be compared
    if log_loss:
        losses = [run.curves[n].values for run in runs for n in PANELS[0].names if n in run.curves]
        above_0 = np.concatenate([*losses, [1.0]])
        above_0 = above_0[above_0 > 0]
        wide = above_0.max() > 100 * above_0.min()  # else labels stand at 2 and 5 too
        layout["yaxis"] |= {"type": "log", "dtick": 1 if wide else "D2"}
    data: list[Properties] = []
    shapes: list[Properties] = []
    for place, panel in enumerate(panels):
        axes: Properties = dict(zip(("xaxis", "yaxis"), axis_names(place), strict=True))
        for number, run in enumerate(runs):
            names = _drawn_names(run, panel)
            for name in names:
                if raw := run.raw.get(name):
                    pale = _PALE | axes | {"colour": theme.series[number]}
                    data.append(line(_places(raw, steps), raw.values, **pale))
                named = place == 0 and (len(runs) == 1 or name == names[-1])
                drawn = _line(run, name, panel, number, len(runs) > 1, steps, theme)
                data.append(drawn | axes | {"showlegend": named})
        shapes.append(_at_step(step, place, steps, theme))
        if steps.log and steps.has_zero:
            dotted = {"color": theme.line, "width": 1.5, "dash": "dot"}
            shapes.append(
                shapes[-1] | {"x0": steps.line, "x1": steps.line, "name": "", "line": dotted}
            )
    changed = [(each, each.change, colour) for each, colour in coloured if each.change]
    for row, (run, change, colour) in enumerate(changed):
        dotted = {"color": colour, "width": 1.5, "dash": "dot"}
        at = steps.place(change.step)
        shapes.append(vertical_line(at, theme=theme, name="", line=dotted, layer="below"))
        words = f"{run.name}: " * (len(runs) > 1)
        words += "harder pairs" if change.after > change.before else "changed pairs"
        layout["annotations"].append(_named_change(words, run.name, change, colour, row, steps))
    for row, (name, onset, colour) in enumerate(overfitted):
        # The chart of the loss is shaded from where valid loss rises; what that is stands above.
        ends = {"x0": steps.place(onset.step), "x1": steps.place(onset.last), "y0": 0, "y1": 1}
        fill = {"fillcolor": colour, "opacity": 0.12, "line": {"width": 0}}
        axes = {"xref": "x", "yref": "y domain", "layer": "below"}
        shapes.append({"type": "rect", **ends, **axes, **fill})
        words = f"lowest at step {onset.step:,}, higher from there on: overfitting"
        layout["annotations"].append(
            {
                "text": f'<span style="color:{colour}">■</span> {escape_plotly(name)}: '
                f"valid loss is {words}",
                **{"x": 0, "xref": "paper", "xanchor": "left"},
                **{"y": 1, "yref": "paper", "yanchor": "top"},
                "yshift": above + _LINE * (len(overfitted) - row),
                **{"showarrow": False, "font": {"size": 12}},
            }
        )
    return new_figure(theme, data, layout | {"shapes": shapes})


def _at_step(step: int, place: int, steps: StepAxis, theme: Theme) -> Properties:
    """Return a shape: the line in a panel that marks the checkpoint in use."""
    x, y = axis_names(place)
    below = {"xref": x, "yref": f"{y} domain", "layer": "below"}
    return vertical_line(steps.place(step), theme=theme, **below)


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
        return len(textwrap.wrap(runs[0].batches, _NAME))
    longest = max(len(run.name) for run in runs)
    return math.ceil(len(runs) / max(_WIDTH // (52 + 7 * longest), 1))


def _places(curve: Curve, steps: StepAxis) -> np.ndarray:
    return np.array([steps.place(step) for step in curve.steps.tolist()], dtype=np.float64)


def _line(
    run: RunCurves,
    name: str,
    panel: Panel,
    number: int,
    several: bool,
    steps: StepAxis,
    theme: Theme,
) -> Properties:
    """Return a trace of one quantity of one run, the ``number``-th of one or several."""
    curve, marked = run.curves[name], is_of_milestones(name)
    what = {"train_loss": run.batches, **_WORDS}.get(name, panel.title)
    places, values = _places(curve, steps), curve.values.astype(np.float32)
    numbers, reach = curve.steps, _reach(run, name)
    if steps.log and len(curve) > 1 and curve.steps[0] <= 0:
        # No line leads from step 0 over the dotted line.
        places, values, reach = (
            np.insert(each, 1, np.nan, axis=-1) for each in (places, values, reach)
        )
        numbers = np.insert(numbers, 1, 0)
    said = escape_plotly(f"{run.name}: {what}" if several else what)
    shown: Properties = {"mode": "lines", "width": 1.2}
    if marked:
        at = numbers.tolist()
        clicks, texts = [f"{step},{run.name}" for step in at], [f"{step:,}" for step in at]
        shown = {"mode": "lines+markers", "texts": texts, "clicks": clicks}
    return line(
        places,
        values,
        colour=theme.series[number],
        dash=DASHES[number],
        name=[run.name] if several else textwrap.wrap(what, _NAME),
        hover=f"{said}<br>step %{{{'text' if marked else 'x:,d'}}}<br>%{{y:{panel.form}}}",
        reach=reach if name in run.intervals else None,
        symbol=_SYMBOLS[number] + "-open" * (name == "train_sample_loss"),
        cliponaxis=not marked,
        **shown,
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


def _named_change(
    words: str, name: str, change: DataChange, colour: str, row: int, steps: StepAxis
) -> Properties:
    """Return an annotation that names the line; where the mouse rests on it, it says the reason."""
    x, middle = steps.place(change.step), (steps.first + steps.last) / 2
    if steps.log:  # an annotation is where the logarithm is
        x, middle = math.log10(x), math.log10(steps.first * steps.last) / 2
    side = "left" if x < middle else "right"
    at = {"x": x, "xref": "x", "xanchor": side, "y": 1, "yref": "y domain", "yanchor": "top"}
    reason = escape_lines(textwrap.wrap(f"{name}: {change}", _REASON))
    text = f'<span style="color:{colour}">{escape_plotly(words)}</span>'
    look = {"yshift": -14 * row, "showarrow": False, "font": {"size": 12}}
    return {"text": text, "hovertext": reason, **at, **look}


# Pairs


def accuracy_charts(
    curves: Sequence[AccuracyCurve], *, step: int, theme: Theme, log_steps: bool = False
) -> go.Figure:
    """Draw accuracies with their intervals, a chart a curve, two a row, and the level of chance.

    Each curve is a trace after one of chance; ``customdata`` of a mark is step and phenomenon, as
    ``"500,tense"``, "500," of all pairs. A line is at the ``step`` of the checkpoint in use.
    """
    names = [curve.phenomenon or "all pairs" for curve in curves]
    panels = [Panel(name, (name,), ".0%", _SHARES) for name in names]
    titles = [
        f"{escape_plotly(name)}: {curve.values[0].count:,} pairs"
        for name, curve in zip(names, curves, strict=True)
    ]
    logged = [Curve(np.array(each.steps), np.zeros(len(each.steps))) for each in curves]
    steps = StepAxis.of([RunCurves("", {"": curve}) for curve in logged], log=log_steps)
    layout = panels_layout(steps, theme, top=_TOP, panels=panels, titles=titles, every=panels)
    data: list[Properties] = []
    shapes: list[Properties] = []
    for place, (curve, name) in enumerate(zip(curves, names, strict=True)):
        x, y = axis_names(place)
        ends = layout[f"xaxis{x[1:]}"]["range"]
        # A trace, as a shape would lie below the grid's line or above all. (``between`` them is a
        # layer that the browser's Plotly does not know.)
        chance = line(
            [10**end for end in ends] if log_steps else ends,
            [CHANCE, CHANCE],
            colour=theme.muted,
            dash="dot",
            name="chance",
            mode="lines",
        )
        data += [
            each | {"xaxis": x, "yaxis": y}
            for each in (chance, _accuracy(curve, name, steps, theme))
        ]
        shapes.append(_at_step(step, place, steps, theme))
    layout["meta"] = {"readable": 400}  # a page shows them in a column
    inside = {"x": 0.9, "xref": "x domain", "xanchor": "right", "y": CHANCE, "yref": "y"}
    layout["annotations"].append(note("chance", theme, **inside, yanchor="top"))
    return new_figure(theme, data, layout | {"showlegend": False, "shapes": shapes})


def _accuracy(curve: AccuracyCurve, name: str, steps: StepAxis, theme: Theme) -> Properties:
    texts = [
        f"step {step:,}<br>right in {each.share:.1%} of {each.count:,}<br>95% interval "
        f"{each.low:.1%} to {each.high:.1%}"
        for step, each in zip(curve.steps, curve.values, strict=True)
    ]
    low, share, high = np.array([(each.low, each.share, each.high) for each in curve.values]).T
    return line(
        [steps.place(step) for step in curve.steps],
        share,
        colour=theme.series[0],
        name=name,
        hover="%{text}",
        texts=texts,
        clicks=[f"{step},{curve.phenomenon}" for step in curve.steps],
        reach=[share - low, high - share],
        cliponaxis=False,
    )
