from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from headwise.viz_app.figures.step_axis import StepAxis
from headwise.viz_app.figures.theme import LIGHT, new_figure
from headwise.viz_app.figures.training_panels import (
    PANELS,
    Panel,
    axis_names,
    drawn_panels,
    panels_layout,
)
from headwise.viz_app.records.measures import Curve, RunCurves
from tests.floats import near


def laid_out(panels: Sequence[Panel] = PANELS) -> go.Figure:
    axis = StepAxis(first=10, last=100, log=False, has_zero=True)
    titles = [panel.title for panel in panels]
    return new_figure(LIGHT, [], panels_layout(axis, LIGHT, top=50, panels=panels, titles=titles))


def test_every_panel_has_axes_over_the_same_steps_and_a_title() -> None:
    figure = laid_out()
    layout = figure.layout
    places = set()
    for place, panel in enumerate(PANELS):
        x, y = axis_names(place)
        across, down = layout[f"xaxis{x[1:]}"], layout[f"yaxis{y[1:]}"]
        assert (across.anchor, down.anchor) == (y, x)
        assert across.range == layout.xaxis.range
        assert layout.annotations[place].text == panel.title
        assert layout.annotations[place].y == down.domain[1]
        places.add((*across.domain, *down.domain))
    assert len(places) == len(PANELS)


def test_steps_are_written_below_the_lowest_panels_only() -> None:
    layout = laid_out().layout
    places = range(len(PANELS))
    shown = [layout[f"xaxis{axis_names(place)[0][1:]}"].showticklabels for place in places]
    assert shown == [False] * (len(PANELS) - 2) + [True] * 2


def test_panels_do_not_overlap() -> None:
    layout = laid_out().layout
    left = range(0, len(PANELS), 2)
    downs = [layout[f"yaxis{axis_names(place)[1][1:]}"].domain for place in left]
    assert downs[0][1] == 1
    assert all(upper[0] > lower[1] > lower[0] for upper, lower in pairwise(downs))
    assert downs[-1][0] == near(0, size=1)
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0]


def test_panels_without_a_line_are_left_out() -> None:
    line = Curve(np.array([10]), np.array([0.1]))
    runs = [RunCurves("a", {"learning_rate": line}), RunCurves("b", {"gradient_norm": line})]
    panels = drawn_panels(runs)
    assert [panel.names[-1] for panel in panels] == ["valid_loss", "learning_rate", "gradient_norm"]
    layout = laid_out(panels).layout
    assert [layout[f"xaxis{n}"].showticklabels for n in ("", 2, 3)] == [False, False, True]
    assert {layout[f"xaxis{n}"].domain for n in ("", 2, 3)} == {(0, 1)}  # the other side is empty
    layout = laid_out([panel for panel in PANELS if panel.names[0] != "chrf"]).layout
    assert layout.xaxis4.domain == layout.xaxis.domain
    assert layout.xaxis5.domain == layout.xaxis2.domain  # the last one moves up
    assert layout.yaxis5.domain == layout.yaxis3.domain
