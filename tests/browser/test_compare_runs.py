"""Two checkpoints, and two runs, set against each other on the page Training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from model.checkpoint import Run, load_weights, open_run
from viz_app.analysis.differences import head_distances, ranked
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import KIND_NAMES
from viz_app.records import KINDS, Floats, Kind, Trace
from viz_app.trace import run_trace
from viz_app.views.choice import head_label

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "These houses are more expensive than those."


def test_heads_of_two_checkpoints_are_ranked_and_a_click_opens_one(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    *_, middle, newest = run.steps()
    early = run.steps()[3]
    target = trace_at(newest, SENTENCE).target_ids
    a, b = (trace_at(step, SENTENCE, target) for step in (early, middle))
    distances: dict[Kind, Floats] = {
        kind: head_distances(a.attention[kind], b.attention[kind]) for kind in KINDS
    }

    def expect_head(kind: Kind, layer: int, head: int) -> None:
        app.expect_drawn("difference", (b.attention[kind] - a.attention[kind])[layer, head])
        app.expect_drawn("map-A", a.attention[kind][layer, head])
        app.expect_drawn("map-B", b.attention[kind][layer, head])
        chosen = [app.chosen(key) for key in ("kind", "layer", "head")]
        assert chosen == [KIND_NAMES[kind], str(layer + 1), str(head + 1)]

    query = {"training": "compare", "q": SENTENCE, "step": early, "other_step": middle}
    app.open("/training", **query, layer=2, head=1)
    expect_head("cross", 1, 0)
    for key, step in (("own-A", early), ("own-B", middle)):
        app.expect_text(key, trace_at(step, SENTENCE).target_text, within="[data-testid=stText]")
    grid = make_grid(a, "cross")
    app.expect_labels("difference", "y", grid.rows)
    app.expect_labels("difference", "x", grid.columns)
    app.wait("() => document.querySelector('.st-key-distances .js-plotly-plot')?._fullData")
    drawn = app.drawn("distances")
    rows = np.hstack([distances[kind] for kind in KINDS])
    np.testing.assert_allclose(drawn[:, ~np.isnan(drawn).all(axis=0)], rows, atol=1e-5)

    app.click_in("distances", 7.5 / 14, 0.5 / 3)  # decoder self, layer 1, head 3
    expect_head("decoder_self", 0, 2)
    (farthest, distance), *_ = ranked(distances)
    button = app.page.locator(".st-key-farthest-0 button")
    assert button.text_content() == f"{head_label(farthest)} · {distance:.2f}"
    button.click()
    expect_head(*farthest)
    app.click_in("overview-mosaic", 3.5 / 4, 2.5 / 3)
    expect_head(farthest[0], 2, 3)


def test_two_runs_are_compared_by_words(app: App, run: Run) -> None:
    books, target = open_run("books-small"), "Estas casas son más caras que aquellas."

    def read(of: Run, step: int) -> tuple[Trace, Any]:
        trace = run_trace(load_weights(of, step).model, of.tokenizers, SENTENCE, target)
        return trace, make_grid(trace, "cross", Reading("words"))

    (a, grid), (b, other) = read(run, run.steps()[-1]), read(books, 2000)
    app.open(
        "/training",
        training="compare",
        q=SENTENCE,
        other_run="books-small",
        other_step=2000,
        shared="your own",
        target=target,
        layer=3,
        head=2,
    )
    maps = [g.apply(t.attention["cross"])[2, 1] for g, t in ((grid, a), (other, b))]
    app.expect_drawn("difference", maps[1] - maps[0], tolerance=2e-6)
    app.expect_drawn("map-A", maps[0])
    app.expect_drawn("map-B", maps[1])
    app.expect_labels("map-B", "y", other.rows)
    app.expect_labels("difference", "y", grid.rows)
