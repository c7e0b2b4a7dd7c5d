"""The curves of trainings and of accuracies: panels, axis of steps, and what is drawn in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest

from headwise.viz_app.figures.curves import MOST_RUNS, accuracy_charts, training_curves
from headwise.viz_app.figures.theme import DARK, LIGHT, Theme, new_figure
from headwise.viz_app.figures.training_panels import (
    PANELS,
    Panel,
    StepAxis,
    axis_names,
    drawn_panels,
    panels_layout,
)
from headwise.viz_app.records.measures import Curve, DataChange, OverfittingOnset, RunCurves
from headwise.viz_app.records.pairs import Accuracy, AccuracyCurve
from tests.floats import near


def curve(values: Mapping[int, float]) -> Curve:
    return Curve(np.array([*values], dtype=np.int64), np.array([*values.values()]))


CURVES = {
    "train_loss": curve({10: 6.0, 20: 4.0, 30: 3.0}),
    "valid_loss": curve({0: 8.0, 20: 4.5, 30: 5.0}),
    "bleu": curve({0: 0.0, 20: 3.0, 30: 2.5}),
    "learning_rate": curve({10: 1e-4, 20: 2e-4, 30: 1e-4}),
}


def run_of(name: str, **changes: object) -> RunCurves:
    return RunCurves(name, **({"curves": CURVES} | changes))


# The axis of steps


def steps_of(*runs: Sequence[int], log: bool) -> StepAxis:
    curves = [RunCurves("a", {"bleu": curve(dict.fromkeys(steps, 1.0))}) for steps in runs]
    return StepAxis.of(curves, log=log)


@pytest.mark.parametrize("steps", [(), (0,), (0, 50, 200)])
def test_an_axis_holds_its_steps_however_few(steps: tuple[int, ...]) -> None:
    for log in (False, True):
        axis = steps_of(steps, log=log)
        places = [axis.place(step) for step in steps]
        assert places[1:] == list(steps[1:])
        low, high = axis.layout()["range"]
        assert low < high
        assert log or all(low < place < high for place in places)


def test_a_logarithmic_axis_draws_step_0_left_of_the_line() -> None:
    axis = steps_of((0, 50, 200), (10_000,), log=True)
    assert (axis.first, axis.last, axis.has_zero) == (50, 10_000, True)
    assert [axis.place(step) for step in (50, 200, 10_000)] == [50, 200, 10_000]
    layout = axis.layout()
    low, high = layout["range"]
    assert 10**low < axis.place(0) < axis.line < 50
    assert 10**high > 10_000
    assert layout["ticktext"] == ["0", "100", "1,000", "10,000"]
    assert layout["tickvals"] == [axis.place(0), 100, 1_000, 10_000]
    later = steps_of((20, 60), log=True)
    assert (later.has_zero, later.layout()["ticktext"]) == (False, ["20", "50"])
    assert later.layout()["range"][0] == near(math.log10(later.line))


# Panels


def laid_out(panels: Sequence[Panel] = PANELS) -> go.Layout:
    axis = StepAxis(first=10, last=100, log=False, has_zero=True)
    titles = [panel.title for panel in panels]
    layout = panels_layout(axis, LIGHT, top=50, panels=panels, titles=titles)
    return new_figure(LIGHT, [], layout).layout


def test_panels_have_axes_over_the_same_steps_and_do_not_overlap() -> None:
    layout, places, left = laid_out(), set(), []
    for place, panel in enumerate(PANELS):
        x, y = axis_names(place)
        across, down = layout[f"xaxis{x[1:]}"], layout[f"yaxis{y[1:]}"]
        assert (across.anchor, down.anchor, across.range) == (y, x, layout.xaxis.range)
        note = layout.annotations[place]
        assert (note.text, note.y) == (panel.title, down.domain[1])
        places.add((*across.domain, *down.domain))
        assert across.showticklabels == (place >= len(PANELS) - 2)  # below the lowest only
        left += [down.domain] * (place % 2 == 0)
    assert len(places) == len(PANELS)
    assert left[0][1] == 1
    assert all(upper[0] > lower[1] > lower[0] for upper, lower in pairwise(left))
    assert left[-1][0] == near(0, size=1)
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0]


def test_panels_without_a_line_are_left_out() -> None:
    line = curve({10: 0.1})
    runs = [RunCurves("a", {"learning_rate": line}), RunCurves("b", {"gradient_norm": line})]
    panels = drawn_panels(runs)
    assert [panel.names[-1] for panel in panels] == ["valid_loss", "learning_rate", "gradient_norm"]
    layout = laid_out(panels)
    assert [layout[f"xaxis{n}"].showticklabels for n in ("", 2, 3)] == [False, False, True]
    assert {layout[f"xaxis{n}"].domain for n in ("", 2, 3)} == {(0, 1)}  # the other side is empty
    layout = laid_out([panel for panel in PANELS if panel.names[0] != "chrf"])
    assert layout.xaxis4.domain == layout.xaxis.domain  # the last one moves up
    assert (layout.xaxis5.domain, layout.yaxis5.domain) == (
        layout.xaxis2.domain,
        layout.yaxis3.domain,
    )


# Curves


def test_every_curve_is_drawn_in_its_panel_with_a_line_at_the_checkpoint_in_use() -> None:
    curves = CURVES | {"exact": curve({0: 0.0, 20: 0.25, 30: 1.0})}
    figure = training_curves([run_of("a", curves=curves)], step=20, theme=DARK)
    marks = [shape for shape in figure.layout.shapes if shape.line.color == DARK.accent]
    assert [(line.xref, line.x0, line.x1) for line in marks] == [
        (axis, 20, 20) for axis in ("x", "x2", "x3", "x4")
    ]
    names = ["training batches", "valid", "BLEU", "learning rate", "exact translations"]
    assert [trace.name for trace in figure.data] == names
    for trace, name, axis in zip(figure.data, curves, ("y", "y", "y2", "y3", "y4"), strict=True):
        np.testing.assert_array_equal(trace.x, curves[name].steps)
        np.testing.assert_array_equal(trace.y, np.float32(curves[name].values))
        assert trace.yaxis == axis
    clicks = [trace.customdata for trace in figure.data]
    milestones = ("0,a", "20,a", "30,a")
    assert clicks == [None, milestones, milestones, None, milestones]
    assert [trace.showlegend for trace in figure.data] == [True, True, False, False, False]
    assert figure.layout.yaxis4.tickformat == ".0%"
    sampled = run_of("a", curves=CURVES | {"train_sample_loss": curve({0: 8.1, 20: 3.5})})
    batches, sample, valid, *_ = training_curves([sampled], step=20, theme=LIGHT).data
    assert batches.line.width < sample.line.width == valid.line.width
    assert (sample.marker.symbol, valid.marker.symbol) == ("circle-open", "circle")


def test_step_0_stands_apart_on_a_logarithmic_axis() -> None:
    figure = training_curves([run_of("a")], step=0, theme=LIGHT, log_steps=True, log_loss=True)
    valid = figure.data[1]
    assert 0 < valid.x[0] < 10
    assert np.isnan(valid.y[1])  # no line leads to it
    assert valid.x[2:].tolist() == [20, 30]
    assert (valid.text[0], valid.customdata[0], valid.customdata[2]) == ("0", "0,a", "20,a")
    shapes = figure.layout.shapes
    assert next(s for s in shapes if s.line.color == LIGHT.accent).x0 == valid.x[0]
    dotted = [s.x0 for s in shapes if s.line.dash == "dot"]
    assert valid.x[0] < dotted[0] < 10
    axes = figure.layout
    assert (axes.xaxis.type, axes.yaxis.type, axes.yaxis2.type) == ("log", "log", None)


def test_runs_differ_in_colour_dashes_and_markers() -> None:
    runs = [run_of(f"run {n}") for n in range(MOST_RUNS)]
    named = [t for t in training_curves(runs, step=20, theme=LIGHT).data if t.showlegend]
    assert [trace.name for trace in named] == [run.name for run in runs]
    looks = [(trace.line.color, trace.line.dash, trace.marker.symbol) for trace in named]
    assert [len(set(each)) for each in zip(*looks, strict=True)] == [MOST_RUNS] * 3
    for number in (0, MOST_RUNS + 1):
        with pytest.raises(ValueError, match=rf"^expected 1 to 6 runs, got {number}$"):
            training_curves([run_of("a")] * number, step=0, theme=LIGHT)


def test_overfitting_is_shaded_and_named_and_unsmoothed_values_are_pale() -> None:
    onset = OverfittingOnset(step=20, loss=4.5, last=30)
    raw = {"train_loss": curve({10: 6.5, 20: 3.5, 30: 3.2})}
    turned = run_of("<b>", overfitting=onset, raw=raw)
    figure = training_curves([run_of("a"), turned], step=0, theme=LIGHT)
    [shade] = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (shade.x0, shade.x1, shade.xref, shade.fillcolor) == (20, 30, "x", LIGHT.series[1])
    assert figure.layout.annotations[-1].text.endswith(
        "&lt;b&gt;: valid loss is lowest at step 20, higher from there on: overfitting"
    )
    behind = figure.data[2]
    np.testing.assert_array_equal(behind.y, np.float32(raw["train_loss"].values))
    assert behind.opacity < 1
    assert figure.data[3].opacity is None


def test_where_the_pairs_of_a_run_change_is_a_line_with_its_reason() -> None:
    change = DataChange(21, 2.5, 4.0, "joined pairs")
    runs = [run_of("a"), run_of("<b>", change=change)]
    for log in (False, True):
        figure = training_curves(runs, step=0, theme=LIGHT, log_steps=log)
        [line] = [shape for shape in figure.layout.shapes if shape.line.color == LIGHT.series[1]]
        assert (line.x0, line.x1, line.xref, line.yref) == (21, 21, "x", "y domain")
        named = figure.layout.annotations[-1]
        assert "&lt;b&gt;: harder pairs" in named.text
        assert named.hovertext.replace("<br>", " ") == (
            "&lt;b&gt;: from step 21 on it trains with joined pairs, and the loss of training "
            "batches rises from 2.50 to 4.00"
        )
        assert (named.x, named.xanchor) == (near(math.log10(21) if log else 21), "right")


def test_scores_have_bars_where_their_intervals_are_known() -> None:
    """Also behind step 0 of a logarithmic axis, where the line is broken."""
    scores, low = curve({0: 1.0, 5: 4.0, 9: 6.0}), curve({0: 0.5, 5: 3.0})
    high = curve({0: 2.0, 5: 6.0, 9: 7.0})
    run = RunCurves("a", {"bleu": scores}, intervals={"bleu": (low, high)})
    for log, behind in ((False, ()), (True, (math.nan,))):
        [line] = training_curves([run], step=5, theme=LIGHT, log_steps=log).data
        below, above = line.error_y.arrayminus, line.error_y.array
        np.testing.assert_allclose(below, [0.5, *behind, 1, math.nan])
        np.testing.assert_allclose(above, [1, *behind, 2, 1])
    [line] = training_curves([RunCurves("a", {"bleu": scores})], step=5, theme=LIGHT).data
    assert line.error_y.array is None


# Accuracies on pairs

VALUES = [Accuracy(0.5, 0.3, 0.7, 12), Accuracy(0.75, 0.5, 0.875, 12)]
ACCURACIES = [AccuracyCurve(name, [0, 200], VALUES) for name in ("", "a, <b>", "c")]


def test_each_curve_has_a_chart_with_intervals_and_chance(theme: Theme) -> None:
    figure = accuracy_charts(ACCURACIES, step=200, theme=theme)
    drawn, chances = figure.data[1::2], figure.data[::2]
    assert [trace.yaxis for trace in drawn] == ["y", "y2", "y3"]
    first, second, _ = drawn
    np.testing.assert_array_equal(first.x, [0, 200])
    np.testing.assert_array_equal(first.y, np.float32([0.5, 0.75]))
    assert list(first.error_y.array) == near([0.2, 0.125])
    assert list(first.error_y.arrayminus) == near([0.2, 0.25])
    assert first.customdata == ("0,", "200,")
    assert second.customdata == ("0,a, <b>", "200,a, <b>")
    assert "right in 75.0% of 12<br>95% interval 50.0% to 87.5%" in first.text[1]
    for chance, axis in zip(chances, ("y", "y2", "y3"), strict=True):
        assert (list(chance.y), chance.yaxis, chance.customdata) == ([0.5, 0.5], axis, None)
        assert chance.x == figure.layout.xaxis.range
    marked = [shape.x0 for shape in figure.layout.shapes if shape.name == "mark"]
    assert marked == [200] * 3
    titles = [note.text for note in figure.layout.annotations]
    assert titles[0] == "all pairs: 12 pairs"
    assert "<b>" not in titles[1]
    assert titles[-1] == "chance"


def test_steps_may_be_logarithmic_and_rows_as_many_as_there_are_curves() -> None:
    many = [AccuracyCurve(f"p{n}", [0, 200], VALUES) for n in range(25)]
    figure = accuracy_charts(many, step=0, theme=LIGHT, log_steps=True)
    assert figure.layout.xaxis25.type == "log"
    assert np.log10(figure.data[0].x) == near(np.array(figure.layout.xaxis.range))
    downs = [figure.layout[f"yaxis{n}"].domain for n in ("", *range(3, 26, 2))]
    assert all(upper[0] > lower[1] > lower[0] >= 0 for upper, lower in pairwise(downs))
