"""The page Inside a head draws what the model itself computed in a layer, and says it in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import Kind
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.inside.choices import InsideChoices
from headwise.viz_app.records.model import LayerTrace
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.layer import run_layer_trace
from tests.floats import near
from tests.viz_app.pages.driver import (
    CATS,
    Page,
    Start,
    array,
    assert_drawn,
    patch_views,
    record_calls,
    shown,
    traced,
    unescaped,
    write_run,
)

PAGE = "inside"
K, D_FF = 5, 23


class Place(NamedTuple):
    """What is followed; layer and head counted from 1, as people do."""

    kind: Kind = "cross"
    layer: int = 2
    head: int = 1
    query: int = 0
    key: int | None = None
    """The heaviest where it is None."""

    @property
    def address(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._asdict().items() if value is not None}


@pytest.fixture
def post_norm(
    run: TrainedRun, make_speaker: Callable[..., Transformer], tmp_path: Path
) -> TrainedRun:
    """A run with the norms after the sums and no biases in its attention, untrained."""
    model = make_speaker(norm="post", attention_bias=False)
    return write_run(tmp_path, run, {60: model}, name="post")


def layer_of(run: TrainedRun, trace: Trace, place: Place) -> LayerTrace:
    """Return what the model computed in a layer."""
    return run_layer_trace(load_weights(run, 60).model, trace, place.kind, place.layer - 1)


class Whole:
    """What the page draws at each of its steps, which are opened in turn; that of scores stays."""

    def __init__(self, app: Page) -> None:
        """Open the steps."""
        self.charts: dict[str, Any] = {}
        self.captions: list[str] = []
        self.formulas: list[str] = []
        for step in get_args(get_type_hints(InsideChoices)["inside"]):
            app.choose(inside=step)
            self.charts |= app.charts
            for each in app.caption:
                self.captions += map(unescaped, (each.value, each.proto.help))
            self.formulas += [each.value.strip("$\n ") for each in app.latex]
        app.choose(inside="scores")


def labels(app: Page | Whole, key: str, axis: str = "y") -> list[str]:
    """Return what stands at an axis, as people read it."""
    layout = app.charts[key]["layout"][f"{axis}axis"]
    alias = layout.get("labelalias", {})
    written = layout.get("ticktext") or [alias[place] for place in sorted(alias, key=int)]
    assert not set("<>$") & set("".join(written))
    return [unescape(label) for label in written]


def expect_page(app: Page, run: TrainedRun, trace: Trace, place: Place) -> Whole:
    """Every chart draws what the model computed at a place; return what was drawn."""
    page = Whole(app)
    record, row = layer_of(run, trace, place), place.query
    attention, feed_forward = record.attention, record.feed_forward
    query, output, weights = (
        of_heads[place.head - 1, row]
        for of_heads in (attention.query, attention.heads, attention.weights)
    )
    keys, values = attention.key[place.head - 1], attention.value[place.head - 1]
    key = int(weights.argmax()) if place.key is None else place.key
    assert (app.widget("query").value, app.widget("key").value) == (row, key)

    allowed, scores = attention.allowed[row], attention.scores[place.head - 1, row]
    order = [j for j in np.argsort(-weights, kind="stable") if allowed[j]]
    weighted = weights[:, None] * values
    others = [weighted[order[8:]].sum(axis=0)] if len(order) > 8 else []
    units = np.sort(feed_forward.hidden[row][feed_forward.hidden[row] > 0])[::-1][:10]
    expected = {
        "projections": [query, *keys],
        "stages": [keys @ query, scores, np.where(allowed, scores, np.nan)],
        "contributions": query * keys[key],
        "weighted": [*weighted[order[:8]], *others, output],
        "units": units,
    }
    for name, sublayer in (("attention", attention), ("feed_forward", feed_forward)):
        before, added = sublayer.stream[row], sublayer.output[row]
        between = [sublayer.read[row], added] if sublayer.norm_first else [added, before + added]
        expected[f"residual_{name}"] = [before, *between, sublayer.result[row]]
    drawn = {name: figure["data"] for name, figure in page.charts.items()}
    taken_apart = {"score_parts"} if allowed[key] else set()
    assert drawn.keys() == expected.keys() | {"shares", "parts"} | taken_apart
    if taken_apart:
        size = float(np.abs(array(drawn["score_parts"][0]["z"])).sum())
        found = array(drawn["score_parts"][0]["z"]).sum()
        assert found == near(scores[key], dtype=np.float32, size=size)
    for name, rows in expected.items():
        axis = {"contributions": "y", "units": "x"}.get(name, "z")
        assert array(drawn[name][0][axis]) == near(np.array(rows), dtype=np.float32), name
    assert_drawn(array(drawn["stages"][1]["z"]), [weights])
    *parts, total = array(drawn["parts"][0]["z"])
    size = float(np.abs(parts).sum(axis=0).max())
    assert total == near(attention.output[row], dtype=np.float32, size=size)
    assert np.sum(parts, axis=0) == near(total, dtype=np.float32, size=size)
    shares = np.array(parts) @ total / (total @ total)
    assert array(drawn["shares"][0]["x"]) == near(shares, dtype=np.float32)
    colours = drawn["shares"][0]["marker"]["color"]
    assert [at for at, c in enumerate(colours) if colours.count(c) == 1] == [place.head - 1]

    [frame] = app.frames("stages")
    assert (frame["x0"], frame["x1"]) == (key - 0.5, key + 0.5)
    grey = [array(crossed["z"])[0].tolist() for crossed in drawn["stages"][2:]]
    assert grey == ([] if allowed.all() else [(~allowed).tolist()])
    grid = make_grid(trace, place.kind)
    assert labels(page, "stages", "x") == list(grid.columns)
    named = [f"q: {grid.rows[row]}", *(f"k: {label}" for label in grid.columns)]
    assert labels(page, "projections") == [q if len(q) <= 22 else q[:21] + "…" for q in named]
    heaviest = labels(page, "weighted")[:-1]
    assert len(heaviest) == min(len(order), 8) + len(others)
    for written, j in zip(heaviest, order[:8], strict=False):
        assert written in shown(f"{{:.3f}} v: {grid.columns[j]}", weights[j], size=1)
    if others:
        told = shown(f"{{:.3f}} v: {len(order) - 8} others", weights[order[8:]].sum(), size=1)
        assert heaviest[8] in told
    return page


def test_it_starts_at_the_first_query_and_its_heaviest_key(start: Start, run: TrainedRun) -> None:
    """What is said of the distance from the model is as small as float32 lets it be."""
    opened, trace = start(), traced(run)
    page = expect_page(opened, run, trace, Place())
    assert not opened.warning
    options = opened.widget("query").options
    assert options == [f"{i + 1}: {row}" for i, row in enumerate(make_grid(trace, "cross").rows)]
    assert opened.widget("key").options[1:3] == ["2: cat", "3: ·s"]
    assert labels(page, "stages") == ["q · k", "÷ √5 = 2.24", "masked", "softmax: weight"]
    for x, key, name, formula in (
        ("x", "residual_attention", "Attention", page.formulas[5]),
        ("z", "residual_feed_forward", "FFN", page.formulas[7]),
    ):
        assert labels(page, key) == [x, f"LayerNorm({x})", name, "what goes on"]
        assert formula == rf"{x} + \mathrm{{{name}}}(\mathrm{{LayerNorm}}({x}))"
    [said] = {each for each in page.captions if each.startswith("From what entered the layer")}
    distances = re.findall(r"([a-z -]+) (\de[+-]\d+|0)(?=[,.])", said.replace("−", "-"))
    assert len(distances) == 9
    assert [name for name, distance in distances if float(distance) > 1e-4] == []


def test_norms_after_the_sums_and_no_biases(start: Start, post_norm: TrainedRun) -> None:
    place = Place("decoder_self", 1, 2, 3)
    app = start(post_norm.folder.parent, q=CATS, **place.address)
    page = expect_page(app, post_norm, traced(post_norm), place)
    assert labels(page, "parts") == ["head 1", "head 2", "head 3", "sum"]
    for key, x, name in (
        ("residual_attention", "x", "Attention"),
        ("residual_feed_forward", "z", "FFN"),
    ):
        assert labels(page, key) == [x, name, "sum", "what goes on"]
    assert page.formulas[7] == r"\mathrm{LayerNorm}(z + \mathrm{FFN}(z))"
    assert "b_" not in page.formulas[0] + page.formulas[4]


@pytest.mark.parametrize(
    "place",
    [
        Place("cross", 1, 3, 5, 2),
        Place("decoder_self", 1, 3, 2, 8),  # a key that is masked
        Place("encoder_self", 2, 2, 11),
    ],
    ids=str,
)
def test_charts_are_of_the_chosen_head_query_and_key(
    start: Start, run: TrainedRun, place: Place
) -> None:
    page = expect_page(start(**place.address), run, traced(run), place)
    fire = int((layer_of(run, traced(run), place).feed_forward.hidden[place.query] > 0).sum())
    assert any(f"Of the {D_FF} hidden units {fire} are" in each for each in page.captions)
    products = array(page.charts["contributions"]["data"][0]["y"])
    most = sorted(range(K), key=lambda i: -abs(products[i]))[:3]
    told = f"The largest are of dimensions {', '.join(map(str, most))}, counted from 0: "
    told += "{:+.2f}, {:+.2f}, {:+.2f}, of all magnitudes {:.2f}."
    share = np.abs(products[most]).sum() / np.abs(products).sum()
    assert any(each.endswith(shown(told, *products[most], share)) for each in page.captions)
    limit = float(
        np.quantile(np.abs(array(page.charts["residual_attention"]["data"][0]["z"])), 0.98)
    )
    drawn = page.charts["residual_attention"]["data"][0]["zmax"]
    assert drawn == near(limit, dtype=np.float32, operations=4)


@pytest.mark.parametrize(("kind", "row"), [("cross", 2), ("decoder_self", 2), ("encoder_self", 0)])
def test_it_starts_at_the_step_chosen_elsewhere(start: Start, kind: Kind, row: int) -> None:
    app = start(at="2", kind=kind)
    assert app.widget("query").value == row
    assert app.address["query"] == str(row)


def test_a_new_choice_keeps_what_still_has_a_meaning(start: Start, run: TrainedRun) -> None:
    app = start(key="11").choose(query=2)
    place = Place("decoder_self", head=2, query=2)
    app = app.choose(key=9).choose(head=2).choose(kind="decoder_self")
    expect_page(app, run, traced(run), place)  # with its own heaviest key
    app = app.choose(target=" Ella no ve el libro. ")
    own = traced(run, target=tuple(run.tokenizers.encode_target("Ella no ve el libro.")))
    assert own.target_ids != traced(run).target_ids
    expect_page(app, run, own, place._replace(query=0))
    app = app.choose(query=3, key=2).choose(sentence="the dog")  # of fewer than 8 tokens
    expect_page(app, run, traced(run, "the dog"), place._replace(query=0))


def test_too_long_a_target_says_how_long_is_allowed(start: Start) -> None:
    app = start().choose(target="el" + " el" * 40)
    (message,) = app.errors
    assert "at most 31" in message
    assert not app.charts
    assert app.choose(target="").charts


# The score taken apart


def test_layers_of_a_score_unfold_into_heads(start: Start, run: TrainedRun) -> None:
    opened = start(q=CATS, inside="score parts", **Place().address)
    folded = ["token", "position", "layer 1", "layer 2", "biases"]
    assert labels(opened, "score_parts") == folded  # self-attention of layer 2 came before
    assert labels(opened, "score_parts", "x") == folded
    opened.choose(query_layer=1, key_layer=2)
    unfolded = labels(opened, "score_parts")
    assert unfolded[2] == "decoder self 1.1"
    assert unfolded[-3:] == ["feed-forward 1", "layer 2", "biases"]
    assert labels(opened, "score_parts", "x")[3:6] == [f"encoder self 2.{n}" for n in (1, 2, 3)]
    cells = array(opened.charts["score_parts"]["data"][0]["z"])
    key = opened.widget("key").value
    score = layer_of(run, traced(run), Place()).attention.scores[0, 0, key]
    assert cells.sum() == near(score, dtype=np.float32, size=float(np.abs(cells).sum()))


@pytest.mark.parametrize(("layer", "said"), [(1, "are the same for every"), (2, "differ between")])
def test_biases_of_keys_differ_where_a_norm_did(start: Start, layer: int, said: str) -> None:
    """Into layer 2 go biases of layer 1 through a norm, divided by that of each token."""
    app = start(q=CATS, inside="score parts", **Place("encoder_self", layer).address)
    assert f"Biases, of projections and norms, {said} key" in app.captions


def test_a_click_unfolds_layers_of_a_score(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = record_calls(monkeypatch, PAGE, "show_figure")
    changes: list[Any] = []
    for unfolded, place, chosen in (
        ({}, "2,3", [{"query_layer": 1, "key_layer": 2}]),
        ({}, "0,3", [{"key_layer": 2}]),
        ({}, "2,4", [{"query_layer": 1}]),
        ({}, None, []),
        ({"query_layer": "1", "key_layer": "2"}, "2,3", [{"query_layer": 0, "key_layer": 0}]),
    ):
        start(q=CATS, inside="score parts", **Place().address, **unfolded)
        with monkeypatch.context() as patch:
            patch_views(patch, PAGE, change_view=lambda **choices: changes.append(choices))
            patch_views(patch, PAGE, clicked_value=lambda _, place=place: place)
            figures["score_parts"]["on_select"]()
        assert changes == chosen
        changes.clear()


def test_a_score_is_compared_with_the_mean_key(start: Start, run: TrainedRun) -> None:
    place = Place("decoder_self", 2, 1, 3, 1)
    app = start(against="mean key", q=CATS, **place.address)
    scores = layer_of(run, traced(run), place).attention.scores[0, 3, :4]
    cells = array(app.charts["score_parts"]["data"][0]["z"])
    size = float(np.abs(cells).sum() + np.abs(scores).max())
    off = float(scores[1] - scores.mean())
    assert cells.sum() == near(off, dtype=np.float32, size=size)
    [said] = [each.value for each in app.markdown if each.value.startswith("The score less")]
    assert any(text in unescaped(said) for text in shown("is {:+.2f}", off, size=size))


def test_a_masked_key_has_no_score_to_take_apart(start: Start) -> None:
    app = start(q=CATS, inside="score parts", **Place("decoder_self", 1, 1, 1, 3).address)
    assert "score_parts" not in app.charts
    assert "The mask forbids this key" in app.captions
