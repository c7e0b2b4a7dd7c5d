"""The page Inside a head draws what a layer trace computed here says, whatever is chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import Kind
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.inside import (
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
    largest_positive,
)
from headwise.viz_app.records.model import LayerTrace
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import rounding

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "We saw three black cats on the white roof."


class Place(NamedTuple):
    """What is followed, all counted from 0."""

    kind: Kind
    layer: int
    head: int
    query: int = 0
    key: int | None = None
    """The heaviest where it is None."""

    @property
    def address(self) -> dict[str, str]:
        return {
            "kind": self.kind,
            "layer": str(self.layer + 1),
            "head": str(self.head + 1),
        }


def expected_of(record: LayerTrace, place: Place, key: int) -> dict[str, tuple[str, Floats]]:
    """Each chart → which of its values are looked at, and what they have to be."""
    attention, feed_forward = record.attention, record.feed_forward
    steps = follow_head(attention, place.head, place.query)
    shares = head_shares(attention, place.query)
    hidden = follow_feed_forward(feed_forward, place.query)
    heaviest = largest_positive(steps.weights, 8)
    seen = np.flatnonzero(attention.allowed[place.query])
    rest = steps.weighted[np.setdiff1d(seen, heaviest)]
    others = [rest.sum(axis=0)] if len(rest) else []
    biased = attention.output_projection.bias is not None
    bias = [shares.bias] if biased else []
    expected = {
        "projections": ("z", [steps.query, *steps.keys]),
        "contributions": ("y", steps.query * steps.keys[key]),
        "weighted": ("z", [*steps.weighted[heaviest], *others, steps.output]),
        "shares": ("x", shares.shares if biased else shares.shares[:-1]),
        "parts": ("z", [*shares.parts, *bias, shares.output]),
        "units": ("x", hidden.hidden[largest_positive(hidden.hidden, 10)]),
    }
    for name, sublayer, output in (
        ("residual_attention", attention, shares.output),
        ("residual_feed_forward", feed_forward, hidden.output),
    ):
        around = follow_residual(sublayer, output, place.query)
        first = sublayer.norm_first
        between = [around.read, around.output] if first else [around.output, around.total]
        expected[name] = ("z", [around.stream, *between, around.result])
    return {name: (axis, np.array(values)) for name, (axis, values) in expected.items()}


def expect_page(app: App, trace: Trace, record: LayerTrace, place: Place) -> None:
    """Every chart, the lists and the labels are those of a place."""
    steps = follow_head(record.attention, place.head, place.query)
    key = int(steps.weights.argmax()) if place.key is None else place.key
    for name, (axis, values) in expected_of(record, place, key).items():
        off = rounding(np.float32, float(np.abs(values).max()))
        app.expect_drawn(name, values, values=axis, tolerance=off)
    expect_stages(app, record, place, key)
    grid = make_grid(trace, place.kind)
    app.expect_field("query", f"{place.query + 1}: {grid.rows[place.query]}")
    app.expect_field("key", f"{key + 1}: {grid.columns[key]}")
    app.expect_labels("stages", "x", grid.columns)
    queries = [f"q: {grid.rows[place.query]}", *(f"k: {label}" for label in grid.columns)]
    app.expect_labels("projections", "y", queries)
    app.expect_chosen(**place.address)
    expect(app.page.get_by_role("alert")).to_have_count(0)


def expect_stages(app: App, record: LayerTrace, place: Place, key: int) -> None:
    """Products, scaled and masked scores, the weights, and the frame around a key."""
    allowed = record.attention.allowed[place.query]
    steps = follow_head(record.attention, place.head, place.query)
    stages = np.array([steps.products, steps.scaled, np.where(allowed, steps.scaled, np.nan)])
    off = rounding(np.float32, float(np.abs(stages[:2]).max()))
    app.expect_drawn("stages", stages, tolerance=off)
    app.expect_read("stages", "gd._fullData[1].z[0]", steps.weights, rounding(np.float32, 1))
    frame = "gd.layout.shapes.slice(0, 1).map(shape => [shape.x0, shape.x1])"
    app.expect_read("stages", frame, [[key - 0.5, key + 0.5]])
    grey = [] if allowed.all() else [(~allowed).astype(int).tolist()]
    app.expect_read("stages", "gd._fullData.slice(2).map(trace => trace.z[1])", grey)


def test_every_chart_follows_another_query_key_kind_and_head(
    app: App, run: TrainedRun, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SENTENCE)
    model = load_weights(run, newest).model
    record = cache(lambda kind, layer: run_layer_trace(model, trace, kind, layer))
    place = Place("decoder_self", 1, 2)

    def see(**changes: object) -> None:
        nonlocal place
        place = place._replace(**changes)
        expect_page(app, trace, record(place.kind, place.layer), place)

    app.open("/inside", q=SENTENCE, **place.address)
    see()
    grid = make_grid(trace, "decoder_self")
    app.pick("query", f"3: {grid.rows[2]}")
    see(query=2)
    masked = len(grid.columns) - 1
    app.pick("key", f"{masked + 1}: {grid.columns[masked]}")
    see(key=masked)
    app.choose(head="1")
    see(head=0, key=None)
    app.choose(kind="cross", layer="3")
    see(kind="cross", layer=2)
    app.choose(kind="encoder_self")
    see(kind="encoder_self", query=0)


def test_formulas_of_a_run_with_norms_after_the_sums_are_typeset(app: App) -> None:
    run = open_trained_run("books-small")
    model = load_weights(run, run.steps()[-1]).model
    sentence, place = "My sister is here.", Place("decoder_self", 1, 1)
    trace = run_trace(model, run.tokenizers, sentence)
    app.open("/inside", run="books-small", q=sentence, **place.address)
    expect_page(app, trace, run_layer_trace(model, trace, "decoder_self", 1), place)
    expect(app.page.locator(".stMain .katex-display")).to_have_count(8)
    expect(app.page.locator(".katex-error")).to_have_count(0)
    written = app.page.locator(".stMain annotation[encoding='application/x-tex']")
    for at, name, x in ((5, "Attention", "x"), (7, "FFN", "z")):
        norm = rf"\mathrm{{LayerNorm}}({x} + \mathrm{{{name}}}({x}))"
        expect(written.nth(at)).to_have_text(norm)
