from __future__ import annotations

import math

import numpy as np
import pytest

from headwise.viz_app.figures.step_axis import StepAxis
from headwise.viz_app.records.measures import Curve, RunCurves
from tests.floats import near


def run_of(*steps: int) -> RunCurves:
    return RunCurves("a", {"bleu": Curve(np.array(steps), np.ones(len(steps)))})


def test_a_linear_axis_draws_steps_at_their_values() -> None:
    axis = StepAxis.of([run_of(0, 50, 200)], log=False)
    assert [axis.place(step) for step in (0, 50, 200)] == [0, 50, 200]
    low, high = axis.layout()["range"]
    assert low < 0
    assert high > 200


def test_a_logarithmic_axis_draws_step_0_left_of_the_line() -> None:
    axis = StepAxis.of([run_of(0, 50, 200), run_of(10_000)], log=True)
    assert (axis.first, axis.last, axis.has_zero) == (50, 10_000, True)
    assert [axis.place(step) for step in (50, 200, 10_000)] == [50, 200, 10_000]
    layout = axis.layout()
    low, high = layout["range"]
    assert 10**low < axis.place(0) < axis.line < 50
    assert 10**high > 10_000
    assert layout["ticktext"] == ["0", "100", "1,000", "10,000"]
    assert layout["tickvals"] == [axis.place(0), 100, 1_000, 10_000]


def test_an_axis_without_step_0_has_no_tick_for_it() -> None:
    axis = StepAxis.of([run_of(20, 60)], log=True)
    assert not axis.has_zero
    layout = axis.layout()
    assert layout["ticktext"] == ["20", "50"]
    assert layout["range"][0] == near(math.log10(axis.line))


@pytest.mark.parametrize("steps", [(), (0,)])
def test_an_axis_of_very_few_steps_can_be_drawn(steps: tuple[int, ...]) -> None:
    low, high = StepAxis.of([run_of(*steps)], log=True).layout()["range"]
    assert low < high
