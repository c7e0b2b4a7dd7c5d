"""The pages, run without a browser on the tiny run."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.ablation import head_costs
from model.beam import beam_search
from model.checkpoint import Run, load_weights, save_weights, weights_path
from model.decoding import greedy
from viz_app.analysis.attention import Aggregate, aggregate_heads
from viz_app.analysis.flow import Measure, rolled_out, weights_of
from viz_app.analysis.grid import Lead, Reading, Units, make_grid
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.records import KINDS, Check, Kind, Trace
from viz_app.trace import run_trace
from viz_app.views import _session
from viz_app.views._widgets import plain
from viz_app.views.translate import beam as beam_view
from viz_app.views.translate import heads

APP = Path(__file__).resolve().parents[3] / "viz_app" / "app.py"
CATS, DOG = "The cats don't see the dog.", "Where is the old dog?"  # the run's sample sentences
CATS_TRANSLATED, DOG_TRANSLATED = "Los gatos no ven al perro.", "¿Dónde está el perro viejo?"

Start = Callable[..., AppTest]


@pytest.fixture
def start(run_root: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Open the app on a folder of runs (``run_root`` by default) and an address's parameters."""

    def start(root: Path = run_root, **address: str) -> AppTest:
        monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(root))
        app = AppTest.from_file(str(APP), default_timeout=60)
        for key, value in address.items():
            app.query_params[key] = value
        return app.run()

    return start


def traced(run: Run, text: str, *, step: int = 60, target: tuple[int, ...] | None = None) -> Trace:
    return run_trace(load_weights(run, step).model, run.tokenizers, text, target)


def charts(app: AppTest) -> dict[str, Any]:
    """Key of each chart → its figure, in the order of the page."""
    found = app.get("plotly_chart")
    return {chart.proto.id.split("-", 2)[2]: json.loads(chart.proto.spec) for chart in found}


def array(written: Any) -> np.ndarray:
    """An array as Plotly writes it."""
    if isinstance(written, list):
        return np.array(written)
    flat = np.frombuffer(base64.b64decode(written["bdata"]), written["dtype"])
    return flat.reshape([int(n) for n in str(written.get("shape", flat.size)).split(",")])


def cells(app: AppTest, key: str) -> np.ndarray:
    return array(charts(app)[key]["data"][0]["z"])


def texts(app: AppTest) -> list[str]:
    """What ``st.text`` shows, markup or not."""
    return [element.value for element in app.text]


def errors(app: AppTest) -> list[str]:
    """Error messages as people read them."""
    assert not app.exception
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", error.value) for error in app.error]


def type_sentence(app: AppTest, text: str) -> AppTest:
    return app.text_input(key="sentence").set_value(text).run()


def choose(app: AppTest, **choices: Any) -> AppTest:
    """Choose in widgets one after the other, as a person does, and see the whole page again."""
    kinds = {bool: "toggle", str: "segmented_control", int: "segmented_control"}
    for key, value in choices.items():
        kind = "selectbox" if key == "at" else kinds[type(value)]
        # A run of some panels alone leaves only these in the tree.
        app = getattr(app, kind)(key=key).set_value(value).run().run()
    return app


# At the start


def test_it_starts_with_an_example_and_its_translation_by_the_newest_checkpoint(
    start: Start,
) -> None:
    app = start()
    assert errors(app) == []
    assert app.text_input(key="sentence").value == CATS
    assert app.select_slider(key="step").value == 60
    assert CATS_TRANSLATED in texts(app)
    drawn = ["mosaic", "large", "top_pieces", "rows_cross", "rows_decoder_self"]
    assert list(charts(app)) == drawn


def test_the_sentence_comes_from_the_address(start: Start) -> None:
    app = start(q=DOG)
    assert app.text_input(key="sentence").value == DOG
    assert DOG_TRANSLATED in texts(app)


def test_the_address_restores_every_choice(start: Start, run: Run) -> None:
    address = {
        "run": "tiny",
        "step": "20",
        "q": DOG,
        "kind": "Decoder self",
        "layer": "1",
        "head": "3",
        "show": "max",
        "units": "words",
        "rows": "consumed",
    }
    app = start(**address)
    assert errors(app) == []
    trace = traced(run, DOG, step=20)
    grid = make_grid(trace, "decoder_self", Reading(units="words", lead="consumed"))
    expected = grid.apply(trace.attention["decoder_self"][0]).max(axis=0)
    np.testing.assert_allclose(cells(app, "large"), expected, atol=1e-6)


@pytest.mark.parametrize(
    "address",
    [
        {"step": "7"},
        {"run": "nowhere"},
        {"layer": "9"},
        {"head": "0"},
        {"kind": "<b>"},
        {"show": "median", "units": "bytes", "rows": "none"},
    ],
)
def test_an_address_that_fits_nothing_does_no_harm(start: Start, address: dict[str, str]) -> None:
    app = start(**address)
    assert errors(app) == []
    assert CATS_TRANSLATED in texts(app)


def test_the_address_holds_the_sentence_and_the_step(start: Start) -> None:
    app = type_sentence(start(), DOG)
    assert app.query_params["q"] in (DOG, [DOG])
    assert app.query_params["step"] in ("60", ["60"])


def test_an_example_is_one_click_away(start: Start) -> None:
    app = start().button(key="example-question").click().run()
    assert app.text_input(key="sentence").value == DOG
    assert DOG_TRANSLATED in texts(app)


# The translation


def test_pieces_of_source_and_translation_are_shown(start: Start, run: Run) -> None:
    rows = [element.proto.body for element in start().get("html") if "bdi" in element.proto.body]
    html = "".join(rows[:2])
    shown = [unescape(text) for text in re.findall(r"<bdi[^>]*>(.*?)</bdi>", html)]
    trace = traced(run, CATS)
    assert shown[:3] == ["The", "cat", "·s"]
    assert len(shown) == len(trace.source) + len(trace.predicted)
    titles = re.findall(r'title="(.*?)"', html)
    probability = np.exp(trace.predictions.log_probability[1])
    assert titles[1] == f"probability {probability:.3f}, rank {trace.predictions.rank[1]}"


def test_another_checkpoint_translates_otherwise(start: Start, run: Run) -> None:
    app = start().select_slider(key="step").set_value(0).run()
    expected = traced(run, CATS, step=0).target_text
    assert expected != CATS_TRANSLATED
    assert expected in texts(app)
    assert "did not end the sentence" in " ".join(caption.value for caption in app.caption)


def test_a_sentence_longer_than_the_training_s_says_so(start: Start) -> None:
    def notes(app: AppTest) -> str:
        return " ".join(caption.value for caption in app.caption)

    app = start(q="the" + " the" * 20)  # and </s>: 22 pieces
    assert "longer than anything" not in notes(app)
    app = type_sentence(app, "the" + " the" * 21)
    assert "With 23 pieces the sentence is longer than anything seen in training (22)." in notes(
        app
    )


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_sentence_invites_to_type(start: Start, text: str) -> None:
    app = type_sentence(start(), text)
    assert errors(app) == []
    (invitation,) = app.info
    assert invitation.value == "Type a sentence above and press Enter, or choose an example."
    assert not charts(app)
    assert CATS_TRANSLATED in texts(type_sentence(app, CATS))


def test_too_long_a_sentence_says_how_long_is_allowed(start: Start) -> None:
    app = type_sentence(start(), "the" + " the" * 30)  # and </s>
    assert errors(app) == [
        "the sentence has 32 pieces, the model takes at most 31; shorten it",
    ]
    assert not charts(app)
    assert app.select_slider(key="step").value == 60  # the frame is there

    app = type_sentence(app, DOG)
    assert errors(app) == []
    assert DOG_TRANSLATED in texts(app)


MARKUP = "<b>a</b> $x$ **c** %{z} &lt;"


def test_markup_in_a_sentence_is_shown_as_text(start: Start, run: Run) -> None:
    app = type_sentence(start(), MARKUP)
    assert errors(app) == []
    rows = "".join(element.proto.body for element in app.get("html") if "bdi" in element.proto.body)
    assert "<b>" not in rows
    shown = [unescape(text) for text in re.findall(r"<bdi[^>]*>(.*?)</bdi>", rows)]
    pieces = re.sub("[␣·]", "", "".join(shown))
    assert pieces.startswith(MARKUP.replace(" ", "") + "</s>")
    for element in [*app.markdown, *app.caption]:
        assert not [part for part in MARKUP.split() if part in element.value]
    aliases = list(charts(app)["large"]["layout"]["xaxis"]["labelalias"].values())
    assert [unescape(alias) for alias in aliases] == piece_labels(traced(run, MARKUP).source)
    assert not set("<>$") & set("".join(aliases))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**a** [b](c)", r"\*\*a\*\* \[b\]\(c\)"),
        ("$x$ :red[d]", r"\$x\$ \:red\[d\]"),
        ("<b>&lt;", r"\<b\>\&lt\;"),
        ("1. niña\\", r"1\. niña\\"),
    ],
)
def test_plain_markdown(text: str, expected: str) -> None:
    assert plain(text) == expected


# The address and long sentences


@pytest.mark.parametrize(("length", "kept"), [(1_500, True), (1_501, False)])
def test_a_long_sentence_is_left_out_of_the_address_with_a_note(
    start: Start, length: int, kept: bool
) -> None:
    app = type_sentence(start(), "a" * length)
    note = "The sentence is longer than 1,500 characters and is left out of the page's address."
    assert ("q" in app.query_params) is kept
    assert (note in [caption.value for caption in app.caption]) is not kept


# Heads


@pytest.mark.parametrize(
    ("kind", "layer", "head", "show", "units", "rows"),
    [
        ("cross", 2, 1, "head", "pieces", "predicted"),
        ("encoder_self", 1, 2, "head", "pieces", "consumed"),
        ("encoder_self", 2, 3, "mean", "words", "predicted"),
        ("decoder_self", 1, 3, "head", "words", "predicted"),
        ("decoder_self", 2, 2, "max", "words", "consumed"),
        ("cross", 1, 3, "mean", "words", "predicted"),
        ("cross", 1, 1, "max", "pieces", "consumed"),
    ],
)
def test_the_large_map_is_what_the_widgets_say(
    start: Start,
    run: Run,
    kind: Kind,
    layer: int,
    head: int,
    show: Aggregate,
    units: Units,
    rows: Lead,
) -> None:
    app = start()
    chosen = {
        "kind": kind,
        "layer": layer,
        "head": head,
        "show": show,
        "units": units,
        "rows": rows,
    }
    app = choose(app, **chosen)
    assert errors(app) == []

    trace = traced(run, CATS)
    grid = make_grid(trace, kind, Reading(units=units, lead=rows))
    expected = aggregate_heads(grid.apply(trace.attention[kind][layer - 1]), show, head - 1)
    np.testing.assert_allclose(cells(app, "large"), expected, atol=1e-6)

    layout = charts(app)["large"]["layout"]
    assert layout["annotations"][0]["text"] == grid.row_title
    assert list(layout["yaxis"]["labelalias"].values()) == [
        label.replace("<", "&lt;").replace(">", "&gt;") for label in grid.rows
    ]
    of = f"head {head}" if show == "head" else f"{show} of heads"
    names = [markdown.value for markdown in app.markdown]
    assert [name for name in names if name.endswith(f"layer {layer}, {of}**")]
    summing = [caption.value for caption in app.caption if "Rows sum to 1." in caption.value]
    assert bool(summing) is (show != "max")


@pytest.mark.parametrize(
    ("kind", "show", "measure", "reading"),
    [
        ("cross", "rollout", "weight", Reading()),
        ("encoder_self", "rollout", "value norm", Reading(units="words")),
        ("decoder_self", "rollout", "weight", Reading(special=False)),
        ("cross", "head", "value norm", Reading(special=False, renormalised=True)),
        ("decoder_self", "mean", "value norm", Reading(lead="consumed", special=False)),
    ],
)
def test_maps_beyond_the_weight_say_what_they_are(
    start: Start, run: Run, kind: Kind, show: Aggregate, measure: Measure, reading: Reading
) -> None:
    app = choose(start(), special=reading.special, units=reading.units, rows=reading.lead)
    app = choose(app, kind=kind, layer=1, show=show, cells=measure)
    if reading.renormalised:
        app = choose(app, renormalised=True)
    assert errors(app) == []

    trace = traced(run, CATS)
    grid = make_grid(trace, kind, reading)
    expected = (
        grid.apply(rolled_out(trace, kind, 0, measure))
        if show == "rollout"
        else aggregate_heads(grid.apply(weights_of(trace, kind, measure)[0]), show, 0)
    )
    np.testing.assert_allclose(cells(app, "large"), expected, atol=1e-6)
    titles = [annotation["text"] for annotation in charts(app)["large"]["layout"]["annotations"]]
    assert titles[1] == grid.column_title
    captions = " ".join(caption.value for caption in app.caption)
    assert ("Abnar and Zuidema 2020" in captions) is (show == "rollout")
    assert ("Kobayashi et al. 2020" in captions) is (measure == "value norm")
    assert ("Rows sum to 1." in captions) is (reading.special or reading.renormalised)


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_the_picture_of_all_heads_holds_every_weight(start: Start, run: Run, kind: Kind) -> None:
    app = start().segmented_control(key="kind").set_value(kind).run()
    weights = traced(run, CATS).attention[kind]  # (L, H, Q, M)
    tiles = cells(app, "mosaic").astype(int)
    _, _, queries, keys = weights.shape
    for layer in range(2):
        for head in range(3):
            down, across = layer * (queries + 1), head * (keys + 1)
            drawn = tiles[down : down + queries, across : across + keys]
            masked = drawn == 253
            expected = np.triu(np.ones((queries, keys)), 1) if kind == "decoder_self" else 0 * drawn
            np.testing.assert_array_equal(masked, expected)
            off = np.abs(drawn / 250 - weights[layer, head])[~masked]
            assert off.max() <= 1 / 500 + 1e-6
    assert "Step 60: click a head to enlarge it." in [caption.value for caption in app.caption]


def test_a_pooled_picture_says_so(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MOST_CELLS", 6)
    app = start().segmented_control(key="kind").set_value("encoder_self").run()
    notes = [caption.value for caption in app.caption]
    assert [note for note in notes if "Each cell here is the largest of 2 × 2 weights" in note]
    assert cells(app, "large").shape == (12, 12)
    assert cells(app, "mosaic").shape == (2 * 7 - 1, 3 * 7 - 1)


# One step of decoding


def test_the_likeliest_pieces_of_the_chosen_step(start: Start, run: Run) -> None:
    app = start()
    trace = traced(run, CATS)
    predictions = trace.predictions
    consumed, predicted = piece_labels(trace.consumed), piece_labels(trace.predicted)
    for step in (0, 2):
        app = choose(app, at=step)
        bars = charts(app)["top_pieces"]["data"][0]
        expected = np.exp(predictions.top_log_probability[step])
        np.testing.assert_allclose(array(bars["x"]), expected, atol=1e-6)
        frame = charts(app)["large"]["layout"]["shapes"][0]
        assert (frame["y0"], frame["y1"]) == (step - 0.5, step + 0.5)
        loop = [html.proto.body for html in app.get("html") if "bdi" in html.proto.body][2]
        pieces = [unescape(text) for text in re.findall(r"<bdi[^>]*>(.*?)</bdi>", loop)]
        assert pieces == [*consumed[: step + 1], predicted[step]]
        told = f"Probability of {pieces[-1]}: {np.exp(predictions.log_probability[step]):.3f}, "
        assert [text for text in texts(app) if text.startswith(told)]


def test_a_shorter_sentence_forgets_a_step_that_it_lacks(start: Start) -> None:
    app = start()
    app = choose(app, at=8)
    app = type_sentence(app, "She gave him a book.")
    assert errors(app) == []
    assert app.selectbox(key="at").value == 0
    assert charts(app)["large"]["layout"]["shapes"][0]["y0"] == -0.5


# A target of one's own, and forks


def test_a_forced_translation_is_traced(start: Start, run: Run) -> None:
    app = start().text_input(key="target").set_value("  Los perros no ven el libro. ").run()
    assert errors(app) == []
    target = tuple(run.tokenizers.encode_target("Los perros no ven el libro."))
    trace = traced(run, CATS, target=target)
    grid = make_grid(trace, "cross")
    np.testing.assert_allclose(
        cells(app, "large"), grid.apply(trace.attention["cross"])[-1, 0], atol=1e-6
    )
    total = float(trace.predictions.log_probability.sum())
    [note] = [c.value for c in app.caption if "your translation shaded" in c.value]
    assert f"together {total:.2f} nats, {total / len(trace.predicted):.2f} a piece." in note

    app.toggle(key="compare").set_value(True).run()
    assert [c for c in app.caption if "one target, your translation, given to both" in c.value]
    expected = traced(run, CATS, target=target, step=20).attention["cross"][-1, 0]
    np.testing.assert_allclose(cells(app, "second_map"), expected, atol=1e-6)


def test_a_fork_keeps_what_stands_before_and_goes_on_by_itself(start: Start, run: Run) -> None:
    """Another of the likeliest pieces in the fourth place; chosen for that step only."""
    app = start().selectbox(key="at").set_value(3).run()
    whole = traced(run, CATS)
    instead = piece_label(whole.top_pieces[3][4])
    app.selectbox(key="fork").set_value(instead).run()
    assert errors(app) == []
    prefix = [*whole.target_ids[:4], int(whole.predictions.top_ids[3][4])]
    model = load_weights(run, run.steps()[-1]).model
    [target] = greedy(model, [run.tokenizers.encode_source(CATS)], prefix)
    assert target[: len(prefix)] == prefix
    forked = traced(run, CATS, target=tuple(target))
    assert forked.target_text in texts(app)
    scores = [float(t.predictions.log_probability.sum()) for t in (forked, whole)]
    wanted = f"Log-probability {scores[0]:.2f} nats, against {scores[1]:.2f} of the translation abo"
    assert [c for c in app.caption if c.value.startswith(wanted)]

    app.selectbox(key="at").set_value(2).run()
    assert app.selectbox(key="fork").value is None


# Beam


def test_a_beam_s_hypotheses_can_be_traced(start: Start, run: Run) -> None:
    app = start().segmented_control(key="decoding").set_value("beam").run()
    assert app.select_slider(key="beam").value == 4
    app.select_slider(key="beam").set_value(3).run()
    assert errors(app) == []
    model = load_weights(run, run.steps()[-1]).model
    [beam] = beam_search(model, [run.tokenizers.encode_source(CATS)], size=3)
    decode = run.tokenizers.target.decode
    assert [option.rsplit("  ·  ", 1) for option in app.selectbox(key="hypothesis").options] == [
        [decode(h.target), f"{h.score:.2f}"] for h in beam.hypotheses
    ]
    assert beam.hypotheses[0].target != beam.hypotheses[2].target

    app.selectbox(key="hypothesis").set_value(2).run()
    trace = traced(run, CATS, target=tuple(beam.hypotheses[2].target))
    np.testing.assert_allclose(cells(app, "large"), trace.attention["cross"][-1, 0], atol=1e-6)
    texts_drawn = charts(app)["tree"]["data"][3]["text"]
    pieces = run.tokenizers.target.pieces([node.id for node in beam.tree])
    for text, piece in zip(texts_drawn, pieces, strict=True):
        assert piece_label(piece).startswith(unescape(text).removesuffix("…"))

    app.select_slider(key="beam").set_value(2).run()
    assert app.selectbox(key="hypothesis").value == 0


def test_a_long_search_is_drawn_some_steps_at_a_time(
    start: Start, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beam_view, "_MOST_STEPS", 4)
    app = start().segmented_control(key="decoding").set_value("beam").run()
    [beam] = beam_search(load_weights(run, 60).model, [run.tokenizers.encode_source(CATS)], size=4)
    steps = [node.step for node in beam.tree]

    def drawn() -> list[int]:
        return [round(x + 0.34) for x in charts(app)["tree"]["data"][3]["x"]]

    assert drawn() == [step for step in steps if step <= 4]
    slider = app.slider(key="tree_from")
    seen = set(drawn())
    for first in range(0, int(slider.max) + 1, int(slider.step)):
        app.slider(key="tree_from").set_value(first).run()
        assert errors(app) == []
        assert drawn() == [step for step in steps if first <= step <= first + 4]
        seen.update(drawn())
    assert seen == set(steps)


def test_a_target_of_ones_own_goes_before_the_beam(start: Start) -> None:
    app = start().segmented_control(key="decoding").set_value("beam").run()
    app.text_input(key="target").set_value("Ella").run()
    assert errors(app) == []
    assert "tree" not in charts(app)
    assert "Ella" in texts(app)


# Heads switched off


def test_heads_that_are_off_change_the_translation(start: Start, run: Run) -> None:
    app = start()
    off = (("cross", 1, 0), ("cross", 1, 1), ("cross", 1, 2), ("encoder_self", 0, 2))
    app.multiselect(key="off").set_value(list(off)).run()
    assert errors(app) == []

    checkpoint = load_weights(run, run.steps()[-1])
    whole = traced(run, CATS)
    own, forced = (
        run_trace(checkpoint.model, run.tokenizers, CATS, target, switched_off=off)
        for target in (None, whole.target_ids)
    )
    assert own.target_text != whole.target_text
    assert {whole.target_text, own.target_text} <= set(texts(app))
    before, after = (float(t.predictions.log_probability.sum()) for t in (whole, forced))
    wanted = f"{before:.2f} nats with all heads, {after:.2f} without these ({after - before:+.2f})."
    assert [caption for caption in app.caption if caption.value.endswith(wanted)]


def test_all_heads_are_ranked_on_demand(start: Start, run: Run) -> None:
    app = start()
    assert "costs" not in charts(app)
    app.toggle(key="rank").set_value(True).run()
    assert errors(app) == []
    checkpoint = load_weights(run, run.steps()[-1])
    source = run.tokenizers.encode_source(CATS)
    costs = head_costs(checkpoint.model, source, traced(run, CATS).target_ids)
    drawn = cells(app, "costs")
    for place, kind in enumerate(KINDS):
        np.testing.assert_allclose(drawn[:, 4 * place : 4 * place + 3], costs[kind], atol=1e-4)
    assert [caption for caption in app.caption if "Dearest: " in caption.value]


# Two checkpoints


def test_self_checks_are_shown(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    app = start()
    assert any("Checked on this sentence" in caption.value for caption in app.caption)
    assert not app.warning

    def broken(*args: Any, **kwargs: Any) -> Trace:
        return replace(run_trace(*args, **kwargs), checks=(Check("all is well", 0.5, 0.1),))

    monkeypatch.setattr(_session, "run_trace", broken)
    [warning] = type_sentence(app, "The cats see the old dog.").warning
    assert (
        warning.value == f"Do not trust these maps. Not so: {plain('all is well (off by 5.0e-01)')}"
    )


def test_two_checkpoints_side_by_side(start: Start, run: Run) -> None:
    app = start().toggle(key="compare").set_value(True).run()
    app = app.select_slider(key="second").set_value(0).run()
    assert errors(app) == []
    drawn = charts(app)
    assert list(drawn)[:4] == ["mosaic", "first", "second_map", "difference"]

    target = traced(run, CATS).target_ids
    a, b = (
        traced(run, CATS, step=step, target=target).attention["cross"][1, 0] for step in (60, 0)
    )
    np.testing.assert_allclose(cells(app, "first"), a, atol=1e-6)
    np.testing.assert_allclose(cells(app, "second_map"), b, atol=1e-6)
    np.testing.assert_allclose(cells(app, "difference"), b - a, atol=1e-6)
    assert drawn["difference"]["data"][0]["zmin"] == -1
    labels = [drawn[key]["layout"]["yaxis"]["labelalias"] for key in ("first", "second_map")]
    assert labels[0] == labels[1]
    assert "Step 0 minus step 60" in texts(app)
    assert {CATS_TRANSLATED, traced(run, CATS, step=0).target_text} <= set(texts(app))


def test_the_newer_translation_is_shared_whichever_is_chosen_first(start: Start, run: Run) -> None:
    app = start(step="0", compare="true", second="60")
    target = traced(run, CATS).target_ids
    expected = traced(run, CATS, step=0, target=target).attention["cross"][1, 0]
    np.testing.assert_allclose(cells(app, "first"), expected, atol=1e-6)


def test_a_second_checkpoint_that_becomes_the_first_is_replaced(start: Start) -> None:
    app = start(compare="true", second="20").select_slider(key="step").set_value(20).run()
    assert errors(app) == []
    assert app.select_slider(key="second").value != 20
    assert "difference" in charts(app)


# What is missing or broken


@pytest.mark.parametrize("folder", ["", "nowhere"])
def test_without_a_run_it_says_what_to_do(start: Start, tmp_path: Path, folder: str) -> None:
    root = tmp_path / folder
    (message,) = errors(start(root))
    assert message.startswith(f"there is no run in {root}: train one with python -m model.train")


def test_a_run_without_weights_says_so(start: Start, own_root: Path) -> None:
    for path in own_root.glob("tiny/step-*"):
        path.unlink()
    (message,) = errors(start(own_root))
    assert message == f"{own_root / 'tiny'}: there are no weights yet; train the run first"


def test_a_run_with_one_checkpoint_offers_no_choice(start: Start, own_root: Path) -> None:
    for step in (0, 20):
        weights_path(own_root / "tiny", step).unlink()
    app = start(own_root)
    assert errors(app) == []
    assert CATS_TRANSLATED in texts(app)
    assert not app.select_slider
    assert {toggle.key for toggle in app.toggle} == {"special", "play", "rank"}


def test_a_truncated_file_is_named_and_the_other_checkpoints_work(
    start: Start, own_root: Path, run: Run
) -> None:
    path = weights_path(own_root / "tiny", 60)
    path.write_bytes(path.read_bytes()[:-100])

    app = start(own_root)
    (message,) = errors(app)
    assert message.startswith(f"{path}: truncated")
    assert not charts(app)

    app = app.select_slider(key="step").set_value(20).run()
    assert errors(app) == []
    assert traced(run, CATS, step=20).target_text in texts(app)


def test_a_broken_second_checkpoint_is_named(start: Start, own_root: Path) -> None:
    path = weights_path(own_root / "tiny", 0)
    path.write_bytes(path.read_bytes()[:-100])
    app = start(own_root, compare="true", second="0")
    (message,) = errors(app)
    assert message.startswith(f"{path}: truncated")
    assert CATS_TRANSLATED in texts(app)


def test_a_broken_run_is_named_and_another_works(start: Start, own_root: Path) -> None:
    shutil.copytree(own_root / "tiny", own_root / "broken")
    (own_root / "broken" / "run.json").write_text("{")
    app = start(own_root)
    (message,) = errors(app)
    assert message.startswith(f"{own_root / 'broken' / 'run.json'}: not JSON")

    app = app.selectbox(key="run").set_value("tiny").run()
    assert errors(app) == []
    assert CATS_TRANSLATED in texts(app)


def test_broken_samples_are_named_and_the_page_goes_on(start: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "samples.jsonl"
    path.write_text("{\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    app = start(own_root, q=DOG)
    (message,) = errors(app)
    assert message.startswith(f"{path}, line 1: not JSON")
    assert DOG_TRANSLATED in texts(app)


def test_a_replaced_checkpoint_is_read_again(start: Start, own_root: Path, run: Run) -> None:
    app = start(own_root)
    assert CATS_TRANSLATED in texts(app)
    path = weights_path(own_root / "tiny", 60)
    stamp = path.stat().st_mtime_ns
    save_weights(own_root / "tiny", load_weights(run, 0).model, run="tiny", step=60)
    os.utime(path, ns=(stamp, stamp + 1_000_000_000))
    app.run()
    assert CATS_TRANSLATED not in texts(app)
    assert traced(run, CATS, step=0).target_text in texts(app)


def test_what_a_run_says_of_itself_is_shown_as_text(start: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "run.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["data"]["attribution"] = "[nobody](x) <b>"
    path.write_text(json.dumps(values), encoding="utf-8")
    app = start(own_root)
    assert [c for c in app.caption if r"Data: \[nobody\]\(x\) \<b\>, CC0" in c.value]
