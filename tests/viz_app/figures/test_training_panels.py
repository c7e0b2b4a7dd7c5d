from __future__ import annotations

import plotly.graph_objects as go

from viz_app.figures.step_axis import StepAxis
from viz_app.figures.theme import LIGHT, new_figure
from viz_app.figures.training_panels import PANELS, axes_of, lay_out


def laid_out() -> go.Figure:
    figure = new_figure(LIGHT)
    axis = StepAxis(first=10, last=100, log=False, begins=True)
    lay_out(figure, axis, LIGHT, top=50, titles=[panel.title for panel in PANELS])
    return figure


def test_every_panel_has_axes_over_the_same_steps_and_a_title() -> None:
    figure = laid_out()
    layout = figure.layout
    places = set()
    for place, panel in enumerate(PANELS):
        x, y = axes_of(place)
        across, down = layout[f"xaxis{x[1:]}"], layout[f"yaxis{y[1:]}"]
        assert (across.anchor, down.anchor) == (y, x)
        assert across.range == layout.xaxis.range
        assert layout.annotations[place].text == panel.title
        assert layout.annotations[place].y == down.domain[1]
        places.add((*across.domain, *down.domain))
    assert len(places) == len(PANELS)


def test_steps_are_written_below_the_lowest_panels_only() -> None:
    layout = laid_out().layout
    shown = [layout[f"xaxis{axes_of(place)[0][1:]}"].showticklabels for place in range(6)]
    assert shown == [False] * 4 + [True] * 2


def test_panels_do_not_overlap() -> None:
    layout = laid_out().layout
    downs = [layout[f"yaxis{axes_of(place)[1][1:]}"].domain for place in (0, 2, 4)]
    assert downs[0][1] == 1
    assert downs[0][0] > downs[1][1] > downs[1][0] > downs[2][1]
    assert abs(downs[2][0]) < 1e-9
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0]
