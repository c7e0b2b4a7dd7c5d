"""The page Inside a head draws what a layer trace computed here says, whatever is chosen."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from playwright.sync_api import expect

from model.checkpoint import Run, load_weights, open_run
from viz_app.analysis.grid import make_grid
from viz_app.analysis.inside import (
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
    strongest,
)
from viz_app.layer_records import LayerTrace
from viz_app.layer_trace import run_layer_trace
from viz_app.records import Floats, Kind, Trace
from viz_app.trace import run_trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "We saw three black cats on the white roof."
NAMES = {"encoder_self": "Encoder self", "decoder_self": "Decoder self", "cross": "Cross"}
CLOSE = 1e-5
"""Of the largest number of a chart."""
CELLS = """chart => Array.from(chart._fullData[0].z, row => Array.from(row, value =>
    Number.isFinite(value) ? value : null))"""
WEIGHTS = "Array.from(gd._fullData[1].z[0])"
LIST = {"within": "input", "by": "value"}
FRAME = "[gd.layout.shapes[0].x0, gd.layout.shapes[0].x1]"


class Place(NamedTuple):
    """What is followed, all counted from 0."""

    kind: Kind
    layer: int
    head: int
    query: int = 0
    key: int | None = None
    """The heaviest where it is None."""

    @property
    def address(self) -> dict[str, object]:
        return {"kind": NAMES[self.kind], "layer": self.layer + 1, "head": self.head + 1}


Recorded = Callable[[Kind, int], LayerTrace]


@pytest.fixture
def trace(run: Run, trace_at: Callable[..., Trace]) -> Trace:
    return trace_at(run.steps()[-1], SENTENCE)


@pytest.fixture
def recorded(run: Run, trace: Trace) -> Recorded:
    """Layers of ``trace``."""
    model = load_weights(run, run.steps()[-1]).model
    return cache(lambda kind, layer: run_layer_trace(model, trace, kind, layer))


def expected_of(record: LayerTrace, place: Place, key: int) -> dict[str, tuple[str, Floats]]:
    """Each chart → which of its values are looked at, and what they have to be."""
    attention, feed_forward = record.attention, record.feed_forward
    steps = follow_head(attention, place.head, place.query)
    shares = head_shares(attention, place.query)
    hidden = follow_feed_forward(feed_forward, place.query)
    heaviest = strongest(steps.weights, 8)
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
        "units": ("x", hidden.hidden[strongest(hidden.hidden, 10)]),
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
        largest = float(np.abs(values).max())
        app.expect_drawn(name, values, values=axis, tolerance=CLOSE * largest)
    expect_stages(app, record, place, key)
    grid = make_grid(trace, place.kind)
    app.expect_text("query", f"{place.query + 1}: {grid.rows[place.query]}", **LIST)
    app.expect_text("pair", f"{key + 1}: {grid.columns[key]}", **LIST)
    app.expect_labels("stages", "x", grid.columns)
    queries = [f"q: {grid.rows[place.query]}", *(f"k: {label}" for label in grid.columns)]
    app.expect_labels("projections", "y", queries)
    assert {name: app.chosen(name) for name in place.address} == {
        name: str(value) for name, value in place.address.items()
    }
    assert app.page.get_by_role("alert").count() == 0


def expect_stages(app: App, record: LayerTrace, place: Place, key: int) -> None:
    """Products, scaled and masked scores, the weights, and the frame around a key."""
    allowed = record.attention.allowed[place.query]
    steps = follow_head(record.attention, place.head, place.query)
    stages = np.array([steps.products, steps.scaled, np.where(allowed, steps.scaled, np.nan)])
    tolerance = CLOSE * float(np.abs(stages[:2]).max())
    app.wait(
        f"""([expected, tolerance, frame]) => {{
            const chart = document.querySelector('.st-key-stages .js-plotly-plot');
            if (chart?.layout?.shapes?.[0].x0 !== frame) return false;
            const drawn = ({CELLS})(chart);
            return drawn[0].length === expected[0].length && expected.every((row, y) =>
                row.every((value, x) => value === null ? drawn[y][x] === null :
                    drawn[y][x] !== null && Math.abs(drawn[y][x] - value) <= tolerance));
        }}""",
        [np.where(np.isnan(stages), None, stages).tolist(), tolerance, key - 0.5],
    )
    drawn = np.array(app.read("stages", f"({CELLS})(gd)"), dtype=np.float64)
    np.testing.assert_allclose(drawn, stages, rtol=0, atol=tolerance)
    weights = app.read("stages", WEIGHTS)
    np.testing.assert_allclose(weights, steps.weights, rtol=0, atol=CLOSE)
    assert app.read("stages", FRAME) == [key - 0.5, key + 0.5]
    grey = app.read("stages", "gd._fullData.slice(2).map(t => Array.from(t.z[1]))")
    assert grey == ([] if allowed.all() else [(~allowed).astype(int).tolist()])


def formulas(app: App) -> list[str]:
    """What is typeset, as it was written."""
    written = app.page.locator(".stMain annotation[encoding='application/x-tex']")
    return [text.strip() for text in written.all_text_contents()]


@pytest.mark.parametrize(
    "place",
    [Place("decoder_self", 1, 2), Place("encoder_self", 0, 3), Place("cross", 2, 1)],
    ids=str,
)
def test_a_link_opens_a_head_and_every_chart_is_its(
    app: App, trace: Trace, recorded: Recorded, place: Place
) -> None:
    app.open("/inside", q=SENTENCE, **place.address)
    expect_page(app, trace, recorded(place.kind, place.layer), place)


def test_every_chart_follows_another_query_key_kind_and_head(
    app: App, trace: Trace, recorded: Recorded
) -> None:
    place = Place("decoder_self", 1, 2)
    app.open("/inside", q=SENTENCE, **place.address)
    expect_page(app, trace, recorded("decoder_self", 1), place)

    def see(**changes: object) -> None:
        nonlocal place
        place = place._replace(**changes)
        expect_page(app, trace, recorded(place.kind, place.layer), place)

    rows = list(enumerate(make_grid(trace, "decoder_self").rows))
    for at, label in (rows[4], rows[-1]):
        app.pick("query", f"{at + 1}: {label}")
        see(query=at)
    app.pick("query", f"3: {rows[2][1]}")
    see(query=2)
    columns = make_grid(trace, "decoder_self").columns
    for key in (1, len(columns) - 1):  # the last is masked
        app.pick("pair", f"{key + 1}: {columns[key]}")
        see(key=key)
    app.choose("head", "1")
    see(head=0, key=None)
    app.choose("kind", "Cross")
    see(kind="cross")
    app.choose("layer", "3")
    see(layer=2)
    app.choose("kind", "Encoder self")
    see(kind="encoder_self", query=0)


def test_the_list_of_keys_shows_the_heaviest_of_every_query(
    app: App, trace: Trace, recorded: Recorded
) -> None:
    """Before and after a person has chosen another one."""
    place = Place("cross", 1, 3)
    record = recorded("cross", 1)
    app.open("/inside", q=SENTENCE, **place.address)
    grid = make_grid(trace, "cross")
    heaviest = [int(row.argmax()) for row in record.attention.weights[3]][:7]
    assert len(set(heaviest)) > 3
    for query, key in enumerate(heaviest):
        if query:
            app.pick("query", f"{query + 1}: {grid.rows[query]}")
        expect_stages(app, record, place._replace(query=query), key)
        app.expect_text("pair", f"{key + 1}: {grid.columns[key]}", **LIST)
        if query % 3 == 1:  # a person's own choice does not last
            other = (key + 2) % len(grid.columns)
            app.pick("pair", f"{other + 1}: {grid.columns[other]}")
            expect_stages(app, record, place._replace(query=query), other)
            app.expect_text("pair", f"{other + 1}: {grid.columns[other]}", **LIST)


def test_the_head_is_kept_on_the_way_to_translate_and_back(
    app: App, trace: Trace, recorded: Recorded
) -> None:
    place = Place("decoder_self", 1, 2)
    app.open("/inside", q=SENTENCE, **place.address)
    expect_page(app, trace, recorded("decoder_self", 1), place)
    go_to(app, "Translate")
    grid = make_grid(trace, "decoder_self")
    app.expect_drawn("large", grid.apply(trace.attention["decoder_self"])[1, 2])
    app.choose("head", "4")
    app.expect_drawn("large", grid.apply(trace.attention["decoder_self"])[1, 3])
    go_to(app, "Inside a head")
    expect_page(app, trace, recorded("decoder_self", 1), place._replace(head=3))


def go_to(app: App, title: str) -> None:
    app.page.get_by_role("link", name=title).click()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_open(
    new_app: Callable[..., App], trace: Trace, recorded: Recorded, scheme: str
) -> None:
    app = new_app(color_scheme=scheme)
    place = Place("decoder_self", 2, 0)
    app.open("/inside", q=SENTENCE, **place.address)
    expect_page(app, trace, recorded("decoder_self", 2), place)
    ground = app.page.locator(".stApp").evaluate("e => getComputedStyle(e).backgroundColor")
    dark = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(","))) < 3 * 64
    assert dark is (scheme == "dark")
    zero = app.read("projections", "gd._fullData[0].colorscale[3][1]")
    assert zero == {"light": "#f7f7f7", "dark": "#171b24"}[scheme]


@pytest.mark.parametrize(
    ("name", "sentence", "norm"),
    [
        ("copy", "b a d g e", r"x + \mathrm{%s}(\mathrm{LayerNorm}(x))"),
        ("books-small", "My sister is here.", r"\mathrm{LayerNorm}(x + \mathrm{%s}(x))"),
    ],
)
def test_runs_of_either_norm_open_with_their_formula(
    app: App, name: str, sentence: str, norm: str
) -> None:
    run = open_run(name)
    model = load_weights(run, run.steps()[-1]).model
    trace = run_trace(model, run.tokenizers, sentence)
    place = Place("decoder_self", 1, 1)
    app.open("/inside", run=name, q=sentence, **place.address)
    expect_page(app, trace, run_layer_trace(model, trace, "decoder_self", 1), place)
    expect(app.page.locator(".stMain .katex-display")).to_have_count(8)
    written = formulas(app)
    assert [written[5], written[7]] == [norm % "Attention", norm % "FFN"]
    biases = [formula for formula in (written[0], written[4]) if "b_" in formula]
    assert len(biases) == (2 if run.info.model.attention_bias else 0)
