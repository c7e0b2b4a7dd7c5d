"""The pages, run without a browser on the tiny run."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import replace
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from streamlit.runtime.scriptrunner_utils.exceptions import StopException
from streamlit.testing.v1 import AppTest

from headwise import __version__
from headwise.model.checkpoint import TrainedRun, load_weights, save_weights, weights_path
from headwise.model.decoding.beam import beam_search, length_norm
from headwise.model.decoding.greedy import greedy
from headwise.model.files import append_log
from headwise.model.interface import KINDS, Head, Kind
from headwise.model.interventions import head_costs
from headwise.viz_app.analysis.attention import Aggregate, aggregate_heads
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import next_token_label, token_label, token_labels
from headwise.viz_app.analysis.rollout import CellValue, rollout_of, weights_of
from headwise.viz_app.figures.mosaic import tile
from headwise.viz_app.records.trace import Check, Tokens, Trace, Word
from headwise.viz_app.trace.sentence import run_trace
from headwise.viz_app.views import caches
from headwise.viz_app.views.shared.download import bibtex, citation
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.target import describe_ending
from headwise.viz_app.views.state import View, with_choices
from headwise.viz_app.views.translate import beam as beam_view
from headwise.viz_app.views.translate import heads, page
from tests.floats import assert_near
from tests.viz_app.views.driver import (
    CATS,
    CATS_TRANSLATED,
    DOG,
    DOG_TRANSLATED,
    WIDGETS,
    Start,
    array,
    assert_cells,
    assert_drawn,
    break_file,
    captions,
    cells,
    charts,
    choose,
    errors,
    field_of,
    html,
    shown,
    texts,
    texts_in,
    token_row,
    traced,
    unescaped,
    widget,
)

PAGE = "app"

# At the start


def test_the_size_of_the_model_stands_below_its_name(
    run: TrainedRun, start_page: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    for dtype, width in (("float32", 4), ("bfloat16", 2)):
        monkeypatch.setenv("HEADWISE_DTYPE", dtype)
        size = f"{run.parameters * width / 2**20:.1f} MiB"
        assert f"{run.parameters:,} parameters ({size}); reads" in captions(start_page(PAGE))


def test_it_starts_with_an_example_and_its_translation_by_the_newest_checkpoint(
    opened: AppTest,
) -> None:
    assert errors(opened) == []
    assert widget(opened, "sentence").value == CATS
    assert widget(opened, "step").value == 60
    assert CATS_TRANSLATED in texts(opened)
    drawn = ["mosaic", "large", "top_tokens", "rows_cross", "rows_decoder_self"]
    assert list(charts(opened)) == drawn


def test_the_address_restores_every_choice(start: Start, run: TrainedRun) -> None:
    address = {
        "run": "tiny",
        "step": "20",
        "q": DOG,
        "kind": "decoder_self",
        "layer": "1",
        "head": "3",
        "show": "max",
        "units": "words",
        "rows": "consumed",
    }
    app = start(**address)
    assert errors(app) == []
    trace = traced(run, DOG, step=20)
    grid = make_grid(trace, "decoder_self", GridOptions(units="words", rows_by="consumed"))
    expected = grid.apply(trace.attention["decoder_self"][0]).max(axis=0)
    assert_cells(app, "large", expected)


@pytest.mark.parametrize(
    "address",
    [
        {"run": "nowhere", "step": "7"},
        {
            "layer": "9",
            "head": "0",
            "kind": "<b>",
            "show": "median",
            "units": "bytes",
            "rows": "no",
        },
    ],
)
def test_an_address_that_fits_nothing_does_no_harm(start: Start, address: dict[str, str]) -> None:
    app = start(**address)
    assert errors(app) == []
    assert CATS_TRANSLATED in texts(app)


@pytest.mark.parametrize(
    ("address", "notes"),
    [
        (
            {"column": "abc"},
            ["The address has column=abc, which cannot be used here. Marked column: nothing."],
        ),
        (
            {"column": "999"},
            ["The address has column=999, which cannot be used here. Marked column: nothing."],
        ),
        ({"query": "x", "key": "1"}, ["The address has query=x, which cannot be used here."]),
        ({"column": "2", "moving_frame": "0"}, []),
    ],
)
def test_a_note_names_what_cannot_be_used_though_no_widget_has_it(
    start: Start, address: dict[str, str], notes: list[str]
) -> None:
    app = start(**address)
    assert [unescaped(note.value) for note in app.warning] == [f"- {note}" for note in notes]
    assert [*choose(app, head=2).warning] == []


def test_the_address_holds_the_sentence_and_the_step(start: Start) -> None:
    app = choose(start(), sentence=DOG)
    assert app.query_params["q"] in (DOG, [DOG])
    assert app.query_params["step"] in ("60", ["60"])


def test_an_example_is_one_click_away(start: Start) -> None:
    app = start().menu_button(key="example").click("question").run()
    assert widget(app, "sentence").value == DOG
    assert DOG_TRANSLATED in texts(app)


def test_examples_have_names_of_their_own_and_are_not_too_many(
    start: Start, own_root: Path
) -> None:
    alike = [f"{'The cats see the dog and ' * 3}{end}." for end in ("sleep", "run")]
    others = [f"Dog {number}." for number in range(500)]
    (own_root / "tiny" / "samples.jsonl").unlink()
    append_log(
        own_root / "tiny" / "samples.jsonl",
        [{"step": 0, "source": source, "translation": ""} for source in (*alike, *others)],
    )
    app = start(own_root)
    menu = app.menu_button(key="example")
    assert menu.options[0] == "The cats see the dog and The cats see the dog and The cats s …"
    assert unescaped(menu.options[1]) == alike[1]
    assert len(menu.options) == 40
    assert "The first 40 of 502 sample sentences" in menu.help
    app = menu.click(alike[1]).run()
    assert widget(app, "sentence").value == alike[1]


def test_a_long_attribution_is_shown_in_a_part_that_scrolls(start: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "run.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["data"]["attribution"] = "somebody and " * 500 + "the last"
    path.write_text(json.dumps(content), encoding="utf-8")
    (about,) = [text.value for text in start(own_root).caption if "parameters" in text.value]
    assert "the last" in about


# The translation


def test_tokens_of_source_and_translation_are_shown(opened: AppTest, run: TrainedRun) -> None:
    source, target = (token_row(opened, side) for side in ("source", "target"))
    trace = traced(run)
    assert [token["label"] for token in source] == token_labels(trace.source)
    assert [token["label"] for token in target] == token_labels(trace.predicted)
    titles = [token["title"] for token in target]
    probability = np.exp(trace.predictions.log_probability[1])
    rank = trace.predictions.rank[1]
    assert titles[1] in shown(f"probability {{:.3f}}, rank {rank}", probability, size=1)


def test_another_checkpoint_translates_otherwise(start: Start, run: TrainedRun) -> None:
    app = choose(start(), step=0)
    expected = traced(run, step=0).target_text
    assert expected != CATS_TRANSLATED
    assert expected in texts(app)
    assert "did not end the sentence" in captions(app)


def test_a_sentence_longer_than_the_training_s_says_so(start: Start) -> None:
    app = start(q="the" + " the" * 20)  # and </s>: 22 tokens
    assert "longer than anything" not in captions(app)
    said = captions(choose(app, sentence="the" + " the" * 21))
    assert "23 tokens: longer than anything seen in training (22)." in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**a** [b](c)", r"\*\*a\*\* \[b\]\(c\)"),
        ("$x$ :red[d] a: b", "\\$x\\$ \\:\u2060red\\[d\\] a\\: b"),
        ("https://h WWW.h a@h", "https\\:\u2060\\/\\/h W\u2060WW\\.h a\\@\u2060h"),
        ("<b>&lt;", r"\<b\>\&lt\;"),
        ("1. niña\\", r"1\. niña\\"),
    ],
)
def test_plain_markdown(text: str, expected: str) -> None:
    assert escape_markdown(text) == expected


# The address and long sentences


@pytest.mark.parametrize(("length", "kept"), [(1_500, True), (1_501, False)])
def test_a_long_sentence_is_left_out_of_the_address_with_a_note(
    start: Start, length: int, kept: bool
) -> None:
    app = choose(start(), sentence="a" * length)
    note = "The sentence is longer than 1,500 characters and is left out of the page's address."
    assert ("q" in app.query_params) is kept
    assert (note in captions(app)) is not kept


# Heads


@pytest.mark.parametrize(
    ("kind", "layer", "head", "show", "measure", "reading"),
    [
        ("decoder_self", 1, 3, "head", "weight", GridOptions("words")),
        ("cross", 1, 1, "max", "weight", GridOptions(rows_by="consumed")),
        ("cross", 2, 1, "rollout", "weight", GridOptions()),
        ("encoder_self", 2, 1, "rollout", "value norm", GridOptions("words")),
        ("cross", 1, 3, "head", "value norm", GridOptions(special=False, renormalised=True)),
        (
            "decoder_self",
            1,
            1,
            "mean",
            "value norm",
            GridOptions(rows_by="consumed", special=False),
        ),
    ],
)
def test_the_large_map_is_what_the_widgets_say(
    start: Start,
    run: TrainedRun,
    kind: Kind,
    layer: int,
    head: int,
    show: Aggregate,
    measure: CellValue,
    reading: GridOptions,
) -> None:
    app = choose(start(), special=reading.special, units=reading.units, rows=reading.rows_by)
    app = choose(app, kind=kind, layer=layer, show=show, cells=measure).run()
    if show == "head":
        app = choose(app, head=head).run()
    if reading.renormalised:
        app = choose(app, renormalised=True).run()
    assert errors(app) == []

    trace = traced(run)
    grid = make_grid(trace, kind, reading)
    if show == "rollout":
        expected = grid.apply(rollout_of(trace, kind, layer - 1, measure))
    elif (show, measure) == ("mean", "value norm"):
        norms = trace.head_sum_norms[kind][layer - 1]
        expected = grid.apply(norms / norms.sum(axis=-1, keepdims=True))
    else:
        heads = grid.apply(weights_of(trace, kind, measure)[layer - 1])
        expected = aggregate_heads(heads, show, head - 1)
    assert_cells(app, "large", expected)
    layout = charts(app)["large"]["layout"]
    titles = [annotation["text"] for annotation in layout["annotations"]]
    assert titles[:2] == [grid.row_title, grid.column_title]
    assert tuple(map(unescape, layout["yaxis"]["labelalias"].values())) == grid.rows
    if show != "rollout":
        of = f"head {head}" if show == "head" else f"{show} of heads"
        assert [m for m in app.markdown if f"layer {layer}, {of}" in m.value]
    said = captions(app)
    assert ("Abnar and Zuidema 2020" in said) is (show == "rollout")
    assert ("Kobayashi et al. 2020" in said) is (measure == "value norm")
    assert ("the length of their mean" in said) is ((show, measure) == ("mean", "value norm"))
    sums_to_1 = show != "max" and (reading.special or reading.renormalised)
    assert ("Rows sum to 1." in said) is sums_to_1


def test_the_picture_of_all_heads_holds_every_weight(start: Start, run: TrainedRun) -> None:
    app = choose(start(), kind="decoder_self")
    trace = traced(run)
    allowed = make_grid(trace, "decoder_self").allowed
    # One code more or less where a weight is beside a tie.
    expected = tile(trace.attention["decoder_self"], allowed)
    np.testing.assert_allclose(cells(app, "mosaic"), expected, rtol=0, atol=1)
    assert "Step 60: click a head to enlarge it." in captions(app)


def test_a_pooled_picture_says_so(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "MOST_CELLS", 6)
    app = choose(start(), kind="encoder_self")
    assert "Each cell here is the largest of 2 × 2 weights" in captions(app)
    assert cells(app, "large").shape == (12, 12)
    assert cells(app, "mosaic").shape == (2 * 7 - 1, 3 * 7 - 1)


# One step of decoding


def test_the_likeliest_tokens_of_the_chosen_step(start: Start, run: TrainedRun) -> None:
    app = start()
    trace = traced(run)
    predictions = trace.predictions
    consumed, predicted = token_labels(trace.consumed), token_labels(trace.predicted)
    for step in (0, 2):
        app = choose(app, at=step).run()
        bars = charts(app)["top_tokens"]["data"][0]
        expected = np.exp(predictions.top_log_probability[step])
        assert_drawn(array(bars["x"]), expected)
        frame = charts(app)["large"]["layout"]["shapes"][0]
        assert (frame["y0"], frame["y1"]) == (step - 0.5, step + 0.5)
        tokens = texts_in(html(app, "bdi")[0], "bdi")
        assert tokens == [*consumed[: step + 1], predicted[step]]
        probability = np.exp(predictions.log_probability[step])
        told = shown(f"Probability of {tokens[-1]}: {{:.3f}}, ", probability, size=1)
        assert [text for text in texts(app) if text.startswith(told)]


def test_a_shorter_sentence_forgets_a_step_that_it_lacks(start: Start) -> None:
    app = start()
    app = choose(app, at=8)
    app = choose(app, sentence="She gave him a book.")
    assert errors(app) == []
    assert widget(app, "at").value == 0
    assert charts(app)["large"]["layout"]["shapes"][0]["y0"] == -0.5


# A target of one's own, and forks


@pytest.mark.parametrize("head", [1, 2])
def test_what_a_browser_had_before_is_no_choice(start: Start, head: int) -> None:
    """It sends what all widgets have, of one in a closed menu what it had before it was set."""

    def chosen(app: AppTest) -> tuple[str, int]:
        view = app.session_state["session"].view
        return view.target, view.head

    app = choose(start(), target=DOG_TRANSLATED)
    assert chosen(app) == (DOG_TRANSLATED, 1)
    before = widget(app, "head")
    for each in (each for kind in WIDGETS for each in getattr(app, kind)):
        each.set_value(each.value)  # else AppTest asks the server for it when it sends it
    assert chosen(choose(app, sentence=DOG)) == ("", 1)
    assert chosen(before.set_value(head).run()) == ("", head)
    assert chosen(choose(app, target=DOG_TRANSLATED)) == (DOG_TRANSLATED, head)


def test_a_forced_translation_is_traced(start: Start, run: TrainedRun) -> None:
    app = choose(start(), target="  Los perros no ven el libro. ")
    assert errors(app) == []
    target = tuple(run.tokenizers.encode_target("Los perros no ven el libro."))
    trace = traced(run, target=target)
    grid = make_grid(trace, "cross")
    assert_cells(app, "large", grid.apply(trace.attention["cross"])[-1, 0])
    total = float(trace.predictions.log_probability.sum())
    [note] = [c.value for c in app.caption if "of your translation:" in c.value]
    told = shown("{:.2f} nats, {:.2f} a token.", total, total / len(trace.predicted))
    assert any(each in note for each in told)

    choose(app, compare=True)
    assert [c for c in app.caption if "one target, your translation, given to both" in c.value]
    expected = traced(run, target=target, step=20).attention["cross"][-1, 0]
    assert_cells(app, "earlier_map", expected)


def test_a_fork_keeps_what_stands_before_and_goes_on_by_itself(
    start: Start, run: TrainedRun
) -> None:
    """Another of the likeliest tokens in the fourth place; chosen for that step only."""
    app = choose(start(), at=3)
    whole = traced(run)
    instead = next_token_label(whole.top_tokens[3][4], spaced=True)
    choose(app, fork=instead)
    assert errors(app) == []
    prefix = [*whole.target_ids[:4], int(whole.predictions.top_ids[3][4])]
    model = load_weights(run, 60).model
    [target] = greedy(model, [run.tokenizers.encode_source(CATS)], prefix)
    assert target[: len(prefix)] == prefix
    forked = traced(run, target=tuple(target))
    assert forked.target_text in texts(app)
    scores = [float(t.predictions.log_probability.sum()) for t in (forked, whole)]
    wanted = shown("Log-probability {:.2f} nats, against {:.2f} of the translation abo", *scores)
    assert [c for c in app.caption if c.value.startswith(wanted)]

    choose(app, at=2)
    assert widget(app, "fork").value == ""


def test_what_was_drawn_in_a_run_that_was_overtaken_is_sent_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The browser may never have seen it: its widgets would show nothing chosen."""

    def sent(app: AppTest) -> tuple[list[str], bool]:
        drawn = widget(app, "style")
        return drawn.value, drawn.proto.set_value

    app = start()
    assert sent(app.run()) == ("map", False)
    choose(app, compare=True)  # without the choice of a style
    with monkeypatch.context() as patch:
        patch.setattr(page, "_show_below", overtaken)
        choose(app, compare=False)
    assert sent(app.run()) == ("map", True)
    assert sent(app.run()) == ("map", False)


def overtaken(*_: object) -> NoReturn:
    """End a run as Streamlit does when another begins."""
    raise StopException


# Beam


def test_a_citation_says_what_was_forced_and_switched_off(run: TrainedRun) -> None:
    view = with_choices(View(), at=2, fork="perro", off=(Head("cross", 1, 0),))
    said = citation(traced(run), view, page="translate")
    for fact in ("token forced at step 3: perro", "heads switched off: Cross 2.1"):
        assert f"; beside it, {fact}" in said
    assert "; heads switched off: none;" in said
    for other in (
        citation(traced(run), View(), page="translate"),
        citation(traced(run), view, page="inside"),
    ):
        assert "beside it" not in other


def test_an_entry_for_bibtex_has_what_the_citation_says(run: TrainedRun) -> None:
    """Its braces are balanced, and what TeX would obey is text, whatever was typed."""
    typed = traced(run, r"100% of {cats} & \dogs_ ~ ^ # $5")
    trace = replace(typed, run="tiny", step=60, sha256="0123456789abcdef" * 4)
    entry = bibtex(trace, View(layer=2), page="translate")
    assert entry.startswith(
        f"@misc{{headwise-{trace.sha256[:12]}-60,\n  title = {{{{Headwise {__version__}: "
    )
    assert r"“100\% of \{cats\} \& \textbackslash{}dogs\_ \textasciitilde{}" in entry
    assert f"year = {{{{{date.today().year}}}}}" in entry
    for fact in ("run: tiny", "step: 60", f"sha256: {trace.sha256}", "view: layer=2"):
        assert fact in entry
    unescaped = entry.replace(r"\{", "").replace(r"\}", "")
    assert unescaped.count("{") == unescaped.count("}")
    assert entry.endswith("}},\n}")


def test_a_beam_s_hypotheses_can_be_traced(start: Start, run: TrainedRun) -> None:
    app = choose(start(), decoding="beam")
    assert widget(app, "beam").value == 4
    choose(app, beam=3)
    assert errors(app) == []
    model = load_weights(run, 60).model
    [beam] = beam_search(model, [run.tokenizers.encode_source(CATS)], size=3)
    decode = run.tokenizers.target.decode
    options = [option.rsplit("  ·  ", 1) for option in widget(app, "hypothesis").options]
    for (text, score), h in zip(options, beam.hypotheses, strict=True):
        assert text == decode(h.target)
        assert score in shown("{:.2f}", h.score)
    assert beam.hypotheses[0].target != beam.hypotheses[2].target

    app = choose(app, hypothesis=2, below="beam").run()
    trace = traced(run, target=tuple(beam.hypotheses[2].target))
    score = trace.predictions.log_probability.sum() / length_norm(len(trace.predicted), 0.6)
    told = shown("Its score in the beam, {:.2f}, is the log-probability divided by", score)
    assert any(each in captions(app) for each in told)
    assert_cells(app, "large", trace.attention["cross"][-1, 0])
    texts_drawn = charts(app)["tree"]["data"][3]["text"]
    tokens = run.tokenizers.target.tokens([node.id for node in beam.tree])
    for text, token in zip(texts_drawn, tokens, strict=True):
        assert token_label(token).startswith(unescape(text).removesuffix("…"))

    choose(app, beam=2)
    assert widget(app, "hypothesis").value == 0


def test_a_long_search_is_drawn_some_steps_at_a_time(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beam_view, "_MOST_STEPS", 4)
    app = start(decoding="beam", below="beam")
    [beam] = beam_search(load_weights(run, 60).model, [run.tokenizers.encode_source(CATS)], size=4)
    steps = [node.step for node in beam.tree]

    def drawn() -> list[int]:
        return [round(x + 0.34) for x in charts(app)["tree"]["data"][3]["x"]]

    assert drawn() == [step for step in steps if step <= 4]
    slider = widget(app, "tree_from")
    places = range(0, int(slider.max) + 1, int(slider.step))
    assert {step for first in places for step in range(first, first + 5)} >= set(steps)
    choose(app, tree_from=places[-1])
    assert errors(app) == []
    assert drawn() == [step for step in steps if places[-1] <= step <= places[-1] + 4]


def test_a_target_of_ones_own_goes_before_the_beam(start: Start) -> None:
    app = choose(start(), decoding="beam")
    choose(app, target="Ella")
    assert errors(app) == []
    assert "tree" not in charts(app)
    assert "Ella" in texts(app)


# Heads switched off


def test_heads_that_are_off_change_the_translation(start: Start, run: TrainedRun) -> None:
    app = choose(start(), below="off")
    off = (("cross", 1, 0), ("cross", 1, 1), ("cross", 1, 2), ("encoder_self", 0, 2))
    choose(app, off=list(off))
    assert errors(app) == []

    checkpoint = load_weights(run, 60)
    whole = traced(run)
    own, forced = (
        run_trace(checkpoint.model, run.tokenizers, CATS, target, ablated=off)
        for target in (None, whole.target_ids)
    )
    assert own.target_text != whole.target_text
    assert {whole.target_text, own.target_text} <= set(texts(app))
    before, after = (float(t.predictions.log_probability.sum()) for t in (whole, forced))
    wanted = "{:.2f} nats with all heads, {:.2f} without these ({:+.2f})."
    told = shown(wanted, before, after, after - before, size=max(abs(before), abs(after)))
    assert [caption for caption in app.caption if caption.value.endswith(told)]


def test_all_heads_are_ranked_on_demand(start: Start, run: TrainedRun) -> None:
    app = choose(start(), below="off")
    assert "costs" not in charts(app)
    choose(app, rank=True)
    assert errors(app) == []
    checkpoint = load_weights(run, 60)
    source = run.tokenizers.encode_source(CATS)
    trace = traced(run)
    costs = head_costs(checkpoint.model, source, trace.target_ids)
    drawn = cells(app, "costs")
    whole = abs(float(trace.predictions.log_probability.sum()))
    for place, kind in enumerate(KINDS):
        found, cost = drawn[:, 4 * place : 4 * place + 3], costs[kind]
        size = whole + float(cost.abs().max())  # of the sums that a cost is a difference of
        assert_near(found, cost, dtype=np.float32, size=size)
    assert [caption for caption in app.caption if "Most costly: " in caption.value]


# Below the maps


@pytest.mark.parametrize(
    ("address", "drawn", "left_out"),
    [
        ({}, "at", "off"),
        ({"at": "2", "fork": "perro"}, "at", "off"),
        ({"off": "cross.1.1"}, "off", "at"),
        ({"rank": "true"}, "off", "at"),
        ({"decoding": "beam", "below": "beam"}, "tree", "at"),
        ({"below": "beam"}, "at", "tree"),  # greedy has none
    ],
)
def test_a_link_opens_the_section_of_its_choices_and_no_other(
    start: Start, address: dict[str, str], drawn: str, left_out: str
) -> None:
    app = start(**address)
    assert errors(app) == []
    keys = {*map(field_of, [*app.selectbox, *app.multiselect])} | charts(app).keys()
    assert drawn in keys
    assert left_out not in keys


# What is said of the map


def test_the_map_is_described_by_its_numbers(start: Start, run: TrainedRun) -> None:
    app = start(kind="decoder_self", layer="1", head="2")
    weights = traced(run).attention["decoder_self"][0, 1]
    [said] = [m.value for m in app.markdown if "In this sentence" in m.value]
    assert any(
        each in unescaped(said) for each in shown("largest weight {:.2f}", weights[1:].max())
    )
    assert "on average over rows with more than one key" in said
    for template, mean in (
        ("{:.2f} on <s>", weights[1:, 0].mean()),
        ("{:.2f} on the token itself", np.diag(weights)[1:].mean()),
    ):
        assert any(each in unescaped(said) for each in shown(template, mean))
    assert "Over a corpus: not measured at this checkpoint" in said
    assert re.search(r"Of all heads [A-Z][a-z ]+ \d\.\d rests most on punctuation", unescaped(said))
    assert "Words are in the maps only" not in captions(app)
    app = start(kind="decoder_self", layer="1", head="2", units="words")
    said = [unescaped(m.value) for m in app.markdown]
    assert [each for each in said if "In this sentence, token by token: " in each]
    assert "Words are in the maps only" in captions(app)


@pytest.mark.parametrize(
    ("ids", "step", "expected"),
    [
        ((5, 6, 3), 9, ""),
        ((3,), 9, "The model ended the sentence at once."),
        ((5, 6, 7), 9, "It did not end the sentence; cut off at 3 tokens."),
        ((2, 2, 2), 0, "The untrained model said nothing but <s>; cut off at 3 tokens."),
    ],
)
def test_one_sentence_says_how_a_target_ended(
    run: TrainedRun, ids: tuple[int, ...], step: int, expected: str
) -> None:
    trace = traced(run)
    texts_of = tuple(run.tokenizers.target.tokens(ids))
    words = tuple(Word(text, at, at + 1) for at, text in enumerate(texts_of))
    ended = replace(
        trace,
        step=step,
        predicted=Tokens(ids, texts_of, words),
        target_text=run.tokenizers.target.decode(ids),
    )
    assert unescaped(describe_ending(run, ended)) == expected


# Two checkpoints


def test_self_checks_are_shown(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    app = start()
    assert any("Checked on this sentence" in caption.value for caption in app.caption)
    assert not app.warning

    def broken(*args: Any, **kwargs: Any) -> Trace:
        return replace(run_trace(*args, **kwargs), checks=(Check("all is well", 0.5, 0.1),))

    monkeypatch.setattr(caches, "run_trace", broken)
    [warning] = choose(app, sentence="The cats see the old dog.").warning
    assert (
        warning.value
        == f"Do not trust these maps. Not so: {escape_markdown('all is well (off by 5.0e-01)')}"
    )


def test_two_checkpoints_side_by_side(start: Start, run: TrainedRun) -> None:
    app = start()
    app.button(key="beside-first").click().run()
    assert widget(app, "compare").value
    assert widget(app, "second").value == 0
    assert errors(app) == []
    drawn = charts(app)
    assert list(drawn)[:4] == ["earlier_map", "later_map", "difference", "mosaic"]

    target = traced(run).target_ids
    a, b = (traced(run, step=step, target=target).attention["cross"][1, 0] for step in (0, 60))
    assert_cells(app, "earlier_map", a)
    assert_cells(app, "later_map", b)
    assert_cells(app, "difference", b - a)
    assert drawn["difference"]["data"][0]["zmin"] == -1
    labels = [drawn[key]["layout"]["yaxis"]["labelalias"] for key in ("earlier_map", "later_map")]
    assert labels[0] == labels[1]
    assert "Step 60 minus step 0" in texts(app)
    assert {CATS_TRANSLATED, traced(run, step=0).target_text} <= set(texts(app))


def test_the_newer_translation_is_shared_whichever_is_chosen_first(
    start: Start, run: TrainedRun
) -> None:
    app = start(step="0", compare="true", second="60")
    target = traced(run).target_ids
    expected = traced(run, step=0, target=target).attention["cross"][1, 0]
    assert_cells(app, "earlier_map", expected)


def test_a_second_checkpoint_that_becomes_the_first_is_replaced(start: Start) -> None:
    app = choose(start(compare="true", second="20"), step=20)
    assert errors(app) == []
    assert widget(app, "second").value != 20
    assert "difference" in charts(app)


# What is missing or broken


def test_without_a_run_it_says_what_to_do(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "nowhere"
    (message,) = errors(start(root))
    assert message.startswith(
        "there is no run in nowhere: train one with python -m headwise.model.train"
    )


def test_a_run_with_one_checkpoint_offers_no_choice(start: Start, own_root: Path) -> None:
    for step in (0, 20):
        weights_path(own_root / "tiny", step).unlink()
    app = start(own_root)
    assert errors(app) == []
    assert CATS_TRANSLATED in texts(app)
    assert not app.select_slider
    assert set(map(field_of, app.toggle)) == {"special", "play", "sampling"}


def test_a_broken_second_checkpoint_is_named(start: Start, own_root: Path) -> None:
    path = weights_path(own_root / "tiny", 0)
    break_file(path)
    app = start(own_root, compare="true", second="0")
    (message,) = errors(app)
    assert message.startswith(f"tiny/{path.name}: truncated")
    assert CATS_TRANSLATED in texts(app)


def test_a_broken_run_is_named_and_another_works(start: Start, own_root: Path) -> None:
    shutil.copytree(own_root / "tiny", own_root / "broken")
    (own_root / "broken" / "run.json").write_text("{")
    app = start(own_root)
    (message,) = errors(app)
    assert message.startswith("broken/run.json: not JSON")

    app = choose(app, run="tiny")
    assert errors(app) == []
    assert CATS_TRANSLATED in texts(app)


def test_a_replaced_checkpoint_is_read_again(start: Start, own_root: Path, run: TrainedRun) -> None:
    app = start(own_root)
    assert CATS_TRANSLATED in texts(app)
    path = weights_path(own_root / "tiny", 60)
    stamp = path.stat().st_mtime_ns
    save_weights(own_root / "tiny", load_weights(run, 0).model, run="tiny", step=60)
    os.utime(path, ns=(stamp, stamp + 1_000_000_000))
    app.run()
    assert CATS_TRANSLATED not in texts(app)
    assert traced(run, step=0).target_text in texts(app)


def test_what_a_run_says_of_itself_is_shown_as_text(start: Start, own_root: Path) -> None:
    path = own_root / "tiny" / "run.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    values["data"]["attribution"] = "[nobody](x) <b>"
    path.write_text(json.dumps(values), encoding="utf-8")
    app = start(own_root)
    assert [c for c in app.caption if r"Data: \[nobody\]\(x\) \<b\>, CC0" in c.value]
