"""What is below the maps is drawn when a person sees it; what draws charts is there before them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from headwise.viz_app.records.trace import Trace
from tests.browser.driver import App

SENTENCE = "Where is the dog?"


def test_sections_are_drawn_when_scrolled_to(
    new_app: Callable[..., App], newest: int, trace_at: Callable[..., Trace]
) -> None:
    app = new_app(viewport={"width": 1280, "height": 500})
    app.open()
    place = app.page.locator(".st-key-below_maps .in_sight")
    place.wait_for(state="attached")
    app.choose(head="2", kind="encoder_self")
    assert not app.page.locator(".st-key-at").count()
    place.scroll_into_view_if_needed()
    place.wait_for(state="detached")
    app.type(SENTENCE)
    likeliest = trace_at(newest, SENTENCE).predictions.top_log_probability[0]
    app.expect_drawn("top_tokens", np.exp(likeliest), values="x")


def test_plotly_is_loaded_before_there_is_a_chart(app: App) -> None:
    app.open("/learn")
    loaded = """() => performance.getEntriesByType('resource')
        .filter(file => file.name.includes('/PlotlyChart.')).length"""
    app.expect(loaded, 1)
    assert app.page.locator(".stPlotlyChart").count() == 0
