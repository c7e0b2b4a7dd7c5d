from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from headwise.viz_app.figures.curves import MOST_RUNS, training_curves
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.records.measures import Curve, OverfittingOnset, RunCurves


def curve(values: Mapping[int, float]) -> Curve:
    return Curve(np.array([*values], dtype=np.int64), np.array([*values.values()]))


def run_of(name: str, **changes: object) -> RunCurves:
    curves = {
        "train_loss": curve({10: 6.0, 20: 4.0, 30: 3.0}),
        "valid_loss": curve({0: 8.0, 20: 4.5, 30: 5.0}),
        "bleu": curve({0: 0.0, 20: 3.0, 30: 2.5}),
        "learning_rate": curve({10: 1e-4, 20: 2e-4, 30: 1e-4}),
    }
    return RunCurves(name, **({"curves": curves} | changes))


def test_every_curve_is_drawn_in_its_panel() -> None:
    run = run_of("a")
    figure = training_curves([run], step=20, theme=LIGHT)
    found = {trace.name: trace for trace in figure.data}
    assert list(found) == ["training batches", "valid", "BLEU", "learning rate"]
    for name, key, axis in [
        ("training batches", "train_loss", "y"),
        ("valid", "valid_loss", "y"),
        ("BLEU", "bleu", "y2"),
        ("learning rate", "learning_rate", "y3"),
    ]:
        np.testing.assert_array_equal(found[name].x, run.curves[key].steps)
        np.testing.assert_array_equal(found[name].y, np.float32(run.curves[key].values))
        assert found[name].yaxis == axis
    assert list(found["valid"].customdata) == ["0,a", "20,a", "30,a"]
    assert found["training batches"].customdata is None
    assert [trace.showlegend for trace in figure.data] == [True, True, False, False]


def test_exact_translations_have_a_panel_where_they_are_logged() -> None:
    run = run_of("a", curves=run_of("a").curves | {"exact": curve({0: 0.0, 20: 0.25, 30: 1.0})})
    figure = training_curves([run_of("b"), run], step=20, theme=LIGHT)
    [line] = [trace for trace in figure.data if trace.yaxis == "y4"]
    assert line.y.tolist() == [0, 0.25, 1]
    assert list(line.customdata) == ["0,a", "20,a", "30,a"]
    assert "exact translations" in [note.text for note in figure.layout.annotations]
    assert figure.layout.yaxis4.tickformat == ".0%"
    assert figure.layout.yaxis4.domain[0] >= 0


SAMPLE = {"train_sample_loss": curve({0: 8.1, 20: 3.5, 30: 2.0})}
NOISE = "training batches, with label smoothing 0.1 and dropout 0.1"


def test_losses_that_are_measured_alike_are_a_pair_with_marks() -> None:
    run = run_of("a", curves=run_of("a").curves | SAMPLE, batches=NOISE)
    batches, sample, valid, *_ = training_curves([run], step=20, theme=LIGHT).data
    assert [trace.name.replace("<br>", " ") for trace in (batches, sample, valid)] == [
        NOISE,
        "train sample",
        "valid",
    ]
    assert (batches.mode, sample.mode, valid.mode) == ("lines", *["lines+markers"] * 2)
    assert batches.line.width < sample.line.width == valid.line.width
    assert (sample.marker.symbol, valid.marker.symbol) == ("circle-open", "circle")
    np.testing.assert_array_equal(sample.y, np.float32([8.1, 3.5, 2.0]))
    assert sample.customdata == valid.customdata == ("0,a", "20,a", "30,a")
    assert all(trace.showlegend for trace in (batches, sample, valid))
    assert [trace.hovertemplate.split("<br>")[0] for trace in (batches, sample, valid)] == [
        NOISE,
        "train sample",
        "valid",
    ]


def test_a_long_name_in_the_legend_has_room() -> None:
    plain, noisy = (
        training_curves([run_of("a", **changes)], step=0, theme=LIGHT)
        for changes in ({}, {"batches": NOISE})
    )
    lines = noisy.data[0].name.count("<br>")
    assert lines == 1
    assert noisy.layout.margin.t - plain.layout.margin.t == 20 * lines


def test_marks_of_several_runs_are_explained_above_the_loss() -> None:
    """The legend names each run once, also one that has no validation loss."""
    sampled = run_of("a", curves=run_of("a").curves | SAMPLE, batches=NOISE)
    old = run_of("b", curves={"train_loss": curve({10: 2.0})})
    for runs, title in [
        (
            [sampled, old],
            "filled marks: valid; open marks: train sample; thin: training batches",
        ),
        ([run_of("c"), old], "filled marks: valid; thin: training batches"),
    ]:
        figure = training_curves(runs, step=0, theme=LIGHT)
        assert figure.layout.annotations[0].text == f"{title}<br>loss, nats per token"
        named = [trace for trace in figure.data if trace.showlegend]
        assert [trace.name for trace in named] == [run.name for run in runs]
        assert [trace.mode for trace in named] == ["lines+markers", "lines"]
    thin = figure.data[0]
    assert thin.hovertemplate.startswith("c: training batches<br>")


def test_a_line_in_every_panel_is_at_the_checkpoint_in_use() -> None:
    figure = training_curves([run_of("a")], step=20, theme=DARK)
    lines = [shape for shape in figure.layout.shapes if shape.line.color == DARK.accent]
    assert [line.xref for line in lines] == ["x", "x2", "x3"]
    assert {(line.x0, line.x1) for line in lines} == {(20, 20)}


def test_step_0_stands_apart_on_a_logarithmic_axis() -> None:
    figure = training_curves([run_of("a")], step=0, theme=LIGHT, log_steps=True, log_loss=True)
    valid = next(trace for trace in figure.data if trace.name == "valid")
    assert 0 < valid.x[0] < 10
    assert np.isnan(valid.y[1])  # no line leads to it
    assert valid.x[2:].tolist() == [20, 30]
    assert valid.text[0] == "0"
    assert (valid.customdata[0], valid.customdata[2]) == ("0,a", "20,a")
    at_zero = [s for s in figure.layout.shapes if s.line.color == LIGHT.accent]
    assert at_zero[0].x0 == valid.x[0]
    dotted = [s for s in figure.layout.shapes if s.line.dash == "dot"]
    assert len(dotted) == 3
    assert valid.x[0] < dotted[0].x0 < 10
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.layout.yaxis2.type is None


def test_runs_differ_in_colour_dashes_and_markers() -> None:
    runs = [run_of(f"run {n}") for n in range(MOST_RUNS)]
    figure = training_curves(runs, step=20, theme=LIGHT)
    valid = [trace for trace in figure.data if trace.showlegend]
    assert [trace.name for trace in valid] == [run.name for run in runs]
    for look in ("line.color", "line.dash", "marker.symbol"):
        kind, name = look.split(".")
        assert len({trace[kind][name] for trace in valid}) == MOST_RUNS


def test_overfitting_is_shaded_and_named() -> None:
    turned = run_of("<b>", overfitting=OverfittingOnset(step=20, loss=4.5, last=30))
    figure = training_curves([run_of("a"), turned], step=0, theme=LIGHT)
    [shade] = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (shade.x0, shade.x1, shade.xref, shade.fillcolor) == (20, 30, "x", LIGHT.series[1])
    assert figure.layout.annotations[-1].text.endswith(
        "&lt;b&gt;: valid loss is lowest at step 20, from there on it rises: overfitting"
    )
    assert not [
        shape
        for shape in training_curves([run_of("a")], step=0, theme=LIGHT).layout.shapes
        if shape.type == "rect"
    ]


def test_unsmoothed_values_are_drawn_pale() -> None:
    raw = {"train_loss": curve({10: 6.5, 20: 3.5, 30: 3.2})}
    figure = training_curves([run_of("a", raw=raw)], step=0, theme=LIGHT)
    behind, smooth = figure.data[:2]
    np.testing.assert_array_equal(behind.y, np.float32(raw["train_loss"].values))
    assert behind.opacity < 1
    assert smooth.name == "training batches"


@pytest.mark.parametrize("number", [0, MOST_RUNS + 1])
def test_too_few_or_too_many_runs_are_refused(number: int) -> None:
    runs: Sequence[RunCurves] = [run_of("a")] * number
    with pytest.raises(ValueError, match=rf"^expected 1 to 6 runs, got {number}$"):
        training_curves(runs, step=0, theme=LIGHT)
