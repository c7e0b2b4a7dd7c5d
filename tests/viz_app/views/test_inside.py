"""The page Inside a head, run without a browser on the tiny run."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import (
    TrainedRun,
    create_run,
    load_weights,
    open_trained_run,
    save_weights,
)
from headwise.model.interface import Kind
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.inside import (
    HeadSteps,
    follow_feed_forward,
    follow_head,
    follow_residual,
    head_shares,
    largest_positive,
)
from headwise.viz_app.records.model import LayerTrace
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.layer import run_layer_trace
from tests.floats import near, rounding
from tests.viz_app.views.driver import (
    CATS,
    DOG,
    Start,
    array,
    assert_drawn,
    charts,
    choose,
    errors,
    shown,
    traced,
    unescaped,
    widget,
)

CHARTS = [
    "projections",
    "stages",
    "contributions",
    "weighted",
    "shares",
    "parts",
    "residual_attention",
    "units",
    "residual_feed_forward",
]
K, D, D_FF, H = 5, 14, 23, 3

PAGE = "inside"


class Place(NamedTuple):
    """What is followed; layer and head counted from 1, as people do."""

    kind: Kind = "cross"
    layer: int = 2
    head: int = 1
    query: int = 0
    key: int | None = None
    """The heaviest where it is None."""


@pytest.fixture
def post_norm(
    run: TrainedRun, make_speaker: Callable[..., Transformer], tmp_path: Path
) -> TrainedRun:
    """A run with the norms after the sums and no biases in its attention, untrained."""
    model = make_speaker(norm="post", attention_bias=False)
    values = vars(run.info) | {"name": "post", "model": model.config}
    create_run(tmp_path / "post", type(run.info)(**values), run.tokenizers, run.counts)
    save_weights(tmp_path / "post", model, run="post", step=60)
    return open_trained_run("post", root=tmp_path)


def record_of(run: TrainedRun, trace: Trace, place: Place) -> LayerTrace:
    return run_layer_trace(load_weights(run, 60).model, trace, place.kind, place.layer - 1)


def steps_of(run: TrainedRun, trace: Trace, place: Place) -> HeadSteps:
    return follow_head(record_of(run, trace, place).attention, place.head - 1, place.query)


def labels(app: AppTest, key: str, axis: str = "y") -> list[str]:
    """What stands at an axis, as people read it."""
    layout = charts(app)[key]["layout"][f"{axis}axis"]
    written = layout.get("ticktext") or list(layout["labelalias"].values())
    assert not set("<>$") & set("".join(written))
    return [unescape(label) for label in written]


def caption(app: AppTest, beginning: str) -> str:
    """The caption that begins like this, as people read it."""
    [found] = [c.value for c in app.caption if c.value.startswith(beginning)]
    return unescaped(found)


def go_to(app: AppTest, place: Place) -> AppTest:
    """Choose a head, then a query, then a key, as a person does."""
    app = choose(app, kind=place.kind, layer=place.layer, head=place.head)
    app = choose(app, query=place.query)
    return app if place.key is None else choose(app, key=place.key)


def expect_page(app: AppTest, run: TrainedRun, trace: Trace, place: Place) -> None:
    """Every chart draws what the analysis gives at a place."""
    assert errors(app) == []
    record = record_of(run, trace, place)
    attention, feed_forward = record.attention, record.feed_forward
    steps = follow_head(attention, place.head - 1, place.query)
    shares = head_shares(attention, place.query)
    hidden = follow_feed_forward(feed_forward, place.query)
    after = follow_residual(attention, shares.output, place.query)
    end = follow_residual(feed_forward, hidden.output, place.query)
    key = int(steps.weights.argmax()) if place.key is None else place.key
    assert widget(app, "query").value == place.query
    assert widget(app, "key").value == key

    heaviest = largest_positive(steps.weights, 8)
    seen = np.flatnonzero(attention.allowed[place.query])
    rest = steps.weighted[np.setdiff1d(seen, heaviest)]
    others = [rest.sum(axis=0)] if len(rest) else []
    biased = attention.output_projection.bias is not None
    masked = np.where(attention.allowed[place.query], steps.scaled, np.nan)
    middle = "read" if attention.norm_first else "output"
    last = "output" if attention.norm_first else "total"
    expected = {
        "projections": [steps.query, *steps.keys],
        "stages": [steps.products, steps.scaled, masked],
        "contributions": steps.query * steps.keys[key],
        "weighted": [*steps.weighted[heaviest], *others, steps.output],
        "shares": shares.shares if biased else shares.shares[:-1],
        "parts": [*shares.parts, *([shares.bias] if biased else []), shares.output],
        "units": np.sort(hidden.hidden[hidden.hidden > 0])[::-1][:10],
    } | {
        f"residual_{name}": [stream.stream, *(vars(stream)[n] for n in (middle, last, "result"))]
        for name, stream in (("attention", after), ("feed_forward", end))
    }
    drawn = charts(app)
    assert list(drawn) == CHARTS
    for name, values in expected.items():
        trace_0 = drawn[name]["data"][0]
        axis = {"contributions": "y", "shares": "x", "units": "x"}.get(name, "z")
        assert array(trace_0[axis]) == near(np.array(values), dtype=np.float32), name
    weights = drawn["stages"]["data"][1]
    assert_drawn(array(weights["z"]), [steps.weights])
    [frame] = drawn["stages"]["layout"]["shapes"]
    assert (frame["x0"], frame["x1"]) == (key - 0.5, key + 0.5)
    factors = np.stack([steps.query, steps.keys[key]], axis=-1)
    customdata = array(drawn["contributions"]["data"][0]["customdata"])
    assert_drawn(customdata, factors)
    units = [f"unit {unit}" for unit in largest_positive(hidden.hidden, 10)]
    assert labels(app, "units") == units

    grid = make_grid(trace, place.kind)
    assert labels(app, "stages", "x") == list(grid.columns)
    queries = [f"q: {grid.rows[place.query]}", *(f"k: {label}" for label in grid.columns)]
    assert labels(app, "projections") == [q if len(q) <= 22 else q[:21] + "…" for q in queries]


# Charts


def test_it_starts_at_the_first_query_and_its_heaviest_key(
    opened: AppTest, run: TrainedRun
) -> None:
    trace = traced(run)
    expect_page(opened, run, trace, Place())
    assert not opened.warning
    options = widget(opened, "query").options
    assert options == [f"{i + 1}: {row}" for i, row in enumerate(make_grid(trace, "cross").rows)]
    assert widget(opened, "key").options[1:3] == ["2: cat", "3: ·s"]


@pytest.mark.parametrize(
    "place",
    [
        Place("cross", 1, 3, 5, 2),
        Place("encoder_self", 2, 2, 11),
        Place("decoder_self", 1, 3, 2, 8),  # a key that is masked
    ],
    ids=str,
)
def test_every_chart_is_of_the_chosen_head_query_and_key(
    start: Start, run: TrainedRun, place: Place
) -> None:
    app = go_to(start(), place).run()
    trace = traced(run)
    expect_page(app, run, trace, place)
    grid = make_grid(trace, place.kind)
    grey = charts(app)["stages"]["data"][2:]
    if grid.allowed is None or grid.allowed[place.query].all():
        assert not grey
    else:
        expected = [~grid.allowed[place.query]] * 2
        np.testing.assert_array_equal(array(grey[0]["z"]), expected)


def test_norms_after_the_sums_and_no_biases(start: Start, post_norm: TrainedRun) -> None:
    app = go_to(start(post_norm.folder.parent, q=CATS), Place("decoder_self", 1, 2, 3))
    expect_page(app, post_norm, traced(post_norm), Place("decoder_self", 1, 2, 3))
    assert labels(app, "shares") == ["head 1", "head 2", "head 3"]
    assert labels(app, "parts") == ["head 1", "head 2", "head 3", "sum"]
    assert labels(app, "residual_attention") == ["x", "Attention", "sum", "what goes on"]
    assert labels(app, "residual_feed_forward") == ["z", "FFN", "sum", "what goes on"]
    written = [unescaped(c.value) for c in app.caption]
    assert len([c for c in written if "the paper's order; the norm has ε = 1e-05" in c]) == 2
    assert not [c for c in written if "pre-norm" in c]


def test_rows_are_named(opened: AppTest, run: TrainedRun) -> None:
    app = opened
    assert labels(app, "shares") == ["head 1", "head 2", "head 3", "b_O"]
    assert labels(app, "parts") == ["head 1", "head 2", "head 3", "b_O", "sum"]
    for x, key, name in (
        ("x", "residual_attention", "Attention"),
        ("z", "residual_feed_forward", "FFN"),
    ):
        assert labels(app, key) == [x, f"LayerNorm({x})", name, "what goes on"]
    assert labels(app, "stages") == ["q · k", "÷ √5 = 2.24", "masked", "softmax: weight"]
    trace = traced(run)
    columns, steps = make_grid(trace, "cross").columns, steps_of(run, trace, Place())
    *heaviest, others, last = labels(app, "weighted")
    for written, j in zip(heaviest, heaviest_of(steps), strict=True):
        assert written in shown(f"{{:.3f}} v: {columns[j]}", steps.weights[j], size=1)
    rest = 1 - np.sort(steps.weights)[-8:].sum()
    assert others in shown("{:.3f} v: 4 others", rest, size=1)
    assert last == "sum: head"


def heaviest_of(steps: HeadSteps) -> list[int]:
    return sorted(range(len(steps.weights)), key=lambda j: -steps.weights[j])[:8]


def test_all_of_few_keys_are_drawn(start: Start, run: TrainedRun) -> None:
    app = start(q="the dog")
    trace = traced(run, "the dog")
    assert len(trace.source) < 8
    expect_page(app, run, trace, Place())
    written = labels(app, "weighted")
    assert len(written) == len(trace.source) + 1
    assert not [label for label in written if "others" in label]
    *rows, total = array(charts(app)["weighted"]["data"][0]["z"])
    size = float(np.abs(rows).sum(axis=0).max())
    assert np.sum(rows, axis=0) == near(total, dtype=np.float32, size=size)


def test_the_followed_head_stands_out_among_the_shares(start: Start) -> None:
    colours = charts(start(head="3"))["shares"]["data"][0]["marker"]["color"]
    assert [place for place, c in enumerate(colours) if colours.count(c) == 1] == [2]


def test_vectors_that_are_compared_have_one_scale(opened: AppTest) -> None:
    """No larger than their largest number; of streams, what 98 of 100 numbers do not reach."""
    drawn = {key: chart["data"][0] for key, chart in charts(opened).items()}
    for key in ("projections", "weighted", "parts"):
        limit = float(np.abs(array(drawn[key]["z"])).max())
        assert drawn[key]["zmax"] == near(limit, dtype=np.float32, operations=1)
    for key in ("residual_attention", "residual_feed_forward"):
        limit = float(np.quantile(np.abs(array(drawn[key]["z"])), 0.98))
        assert drawn[key]["zmax"] == near(limit, dtype=np.float32, operations=4)


# Formulas and captions


def formulas(app: AppTest) -> list[str]:
    return [latex.value.strip("$\n ") for latex in app.latex]


def test_formulas_are_those_of_the_model(opened: AppTest) -> None:
    found = formulas(opened)
    assert len(found) == 7 + 1
    assert r"q &= r\,W_Q + b_Q" in found[0]
    assert r"v_j &= y_j W_V + b_V" in found[0]
    assert r"C\,W_O + b_O \\" in found[4]
    assert r"\mathrm{head}_{3})" in found[4]
    norm = r"\mathrm{LayerNorm}"
    assert found[5] == rf"x + \mathrm{{Attention}}({norm}(x))"
    assert r"\mathrm{FFN}(s)" in found[6]
    assert found[7] == rf"z + \mathrm{{FFN}}({norm}(z))"


def test_formulas_of_a_model_with_other_norms_and_no_biases(
    start: Start, post_norm: TrainedRun
) -> None:
    found = formulas(start(post_norm.folder.parent, q=CATS))
    assert not [formula for formula in (found[0], found[4]) if "b_" in formula]
    norm = r"\mathrm{LayerNorm}"
    assert found[5] == rf"{norm}(x + \mathrm{{Attention}}(x))"
    assert found[7] == rf"{norm}(z + \mathrm{{FFN}}(z))"


@pytest.mark.parametrize("kind", ["cross", "decoder_self"])
def test_captions_have_the_shapes_of_this_sentence(
    start: Start, run: TrainedRun, kind: Kind
) -> None:
    app = go_to(start(), Place(kind, 2, 2, 3))
    trace = traced(run)
    keys = len(make_grid(trace, kind).columns)
    whose = {"cross": "the encoder's output", "decoder_self": "the same"}[kind]
    x = {
        "cross": "the stream after the layer's self-attention",
        "decoder_self": "the layer's input",
    }
    first = caption(
        app, f"x is {x[kind]} at the query; r = LayerNorm(x), what attention reads of it"
    )
    assert f"is 1 × {D}; y, {whose} at the keys, {keys} × {D}; each W {D} × {K}." in first
    assert f"So q is 1 × {K}, keys and values are {keys} × {K}." in first
    query = steps_of(run, trace, Place(kind, 2, 2, 3)).query
    assert first.endswith(shown("q = ({:.2f}, {:.2f}, {:.2f}, {:.2f}, …)", *query[:4]))
    scores = caption(app, "q Kᵀ is")
    assert scores.startswith(f"q Kᵀ is (1 × {K})({K} × {keys}) = 1 × {keys}: a number a key.")
    masked = f"{keys - 4} later keys are masked" if kind == "decoder_self" else "No key is masked"
    assert masked in scores
    assert "The weights sum to 1.0000." in scores
    weighted = caption(app, "Each value times its weight")
    assert f"(1 × {keys})({keys} × {K}) = 1 × {K}: (" in weighted
    assert caption(app, f"(1 × {H * K})({H * K} × {D}) = 1 × {D}, the sum")
    fed = caption(app, "s is what it reads: LayerNorm(z), of the stream z after attention. ")
    assert f"W₁ is {D} × {D_FF}, W₂ {D_FF} × {D}." in fed
    assert ("Between the two stands cross-attention" in fed) is (kind == "decoder_self")


def test_captions_say_numbers_of_this_head(start: Start, run: TrainedRun) -> None:
    place = Place("encoder_self", 1, 2, 6, 3)
    app = go_to(start(), place)
    trace = traced(run)
    record, steps = record_of(run, trace, place), steps_of(run, trace, place)

    label = make_grid(trace, "encoder_self").columns[3]
    taken = caption(app, f"The {K} products for")
    products = steps.query * steps.keys[3]
    size = float(np.abs(products).sum())
    told = shown(f"The {K} products for “{label}” sum to {{:.3f}}.", steps.products[3], size=size)
    assert taken.startswith(told)
    most = sorted(range(K), key=lambda i: -abs(products[i]))[:3]
    told = f"Most comes from dimensions {', '.join(map(str, most))}, counted from 0: "
    assert taken.endswith(shown(told + "{:+.2f}, {:+.2f}, {:+.2f}.", *products[most]))

    shares = head_shares(record.attention, 6)
    together = caption(app, f"(1 × {H * K})")
    assert together.endswith(shown("Head 2 has {:.3f}.", shares.shares[1], size=1))
    hidden = follow_feed_forward(record.feed_forward, 6)
    fire = int((hidden.before > 0).sum())
    assert f"Of the {D_FF} hidden units {fire} are above 0" in caption(app, "s is what")

    after = follow_residual(record.attention, shares.output, 6)
    end = follow_residual(record.feed_forward, hidden.output, 6)
    for x, where, name, steps_around in (
        ("x", "attention, as above", "Attention", after),
        ("z", "the feed-forward", "FFN", end),
    ):
        said = caption(app, f"{x} is the stream before {where}, 1 × {D} (pre-norm, not the paper's")
        rows = {
            x: steps_around.stream,
            f"LayerNorm({x})": steps_around.read,
            name: steps_around.output,
            "what goes on": steps_around.result,
        }
        lengths = [(vector @ vector) ** 0.5 for vector in rows.values()]
        template = f"Lengths: {', '.join(f'{row} {{:.1f}}' for row in rows)}."
        assert any(told in said for told in shown(template, *lengths))
        largest_number = max(np.abs(vector).max() for vector in rows.values())
        assert said.endswith(shown("the largest number is {:.1f}.", largest_number))


def test_it_says_how_far_all_is_from_what_the_model_computed(opened: AppTest) -> None:
    said = caption(opened, "All of this is computed here")
    distances = re.findall(r"([a-z -]+) (\de[+-]\d+)", said)
    assert len(distances) == 9
    largest = max(
        float(np.abs(array(chart["data"][0]["z"])).max())
        for name, chart in charts(opened).items()
        if name in ("projections", "stages", "parts", "residual_attention", "residual_feed_forward")
    )
    # One digit is written: half a unit more at the most.
    off = 1.5 * rounding(np.float32, largest)
    assert [name for name, distance in distances if float(distance) > off] == []


# Choices


def test_another_query_begins_with_its_heaviest_key(start: Start, run: TrainedRun) -> None:
    app = choose(choose(start(), key=11), query=2)
    expect_page(app, run, traced(run), Place(query=2))


def test_another_head_keeps_the_query_and_begins_with_its_own_heaviest_key(
    start: Start, run: TrainedRun
) -> None:
    app = go_to(start(), Place(query=4, key=9))
    expect_page(choose(app, head=2), run, traced(run), Place(head=2, query=4))
    app = choose(choose(app, key=9), kind="decoder_self")
    expect_page(app, run, traced(run), Place("decoder_self", head=2, query=4))


def test_another_sentence_begins_at_its_first_query(start: Start, run: TrainedRun) -> None:
    app = go_to(start(), Place(query=9, key=9))
    app = choose(app, sentence=DOG)
    expect_page(app, run, traced(run, DOG), Place())


def test_a_target_of_one_s_own_is_followed(start: Start, run: TrainedRun) -> None:
    app = choose(start(), target=" Ella no ve el libro. ")
    target = tuple(run.tokenizers.encode_target("Ella no ve el libro."))
    trace = traced(run, target=target)
    assert trace.target_ids != traced(run).target_ids
    expect_page(app, run, trace, Place())
    place = Place("decoder_self", 1, 3, 5, 1)
    expect_page(go_to(app, place), run, trace, place)
    assert widget(app, "query").label == "Query: predicted ← consumed"


def test_too_long_a_target_says_how_long_is_allowed(start: Start, run: TrainedRun) -> None:
    app = choose(start(), target="el" + " el" * 40)
    (message,) = errors(app)
    assert "at most 31" in message
    assert not charts(app)
    app = choose(app, target="")
    expect_page(app, run, traced(run), Place())
