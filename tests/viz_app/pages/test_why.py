"""The page Why shows the account of a word; ``tests/viz_app/why`` has its numbers."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import KINDS, parse_head
from headwise.viz_app.analysis.labels import KIND_NAMES, head_of, token_label, token_labels
from headwise.viz_app.core.options import SentenceOptions
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.measuring.tensor_files import neurons_path, write_neurons
from headwise.viz_app.records.measures import StrongestPositions
from headwise.viz_app.records.trace import Word
from headwise.viz_app.session import slices
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.view import WHOLE_PAGE
from headwise.viz_app.why.__main__ import WhyArguments, main
from headwise.viz_app.why.word.account import run_account
from headwise.viz_app.why.word.effects import run_source_effects
from tests.floats import PASS, near, rounding
from tests.viz_app.measures import SENTENCES, made_up_measures, made_up_neurons
from tests.viz_app.pages.driver import (
    CATS,
    STEPS,
    Page,
    Start,
    array,
    assert_same_arrays,
    patch_views,
    record_calls,
    table,
    traced,
    unescaped,
)

AT = {"q": CATS, "at": "2"}
LOGITS = 40.0
"""Magnitude of what is added up."""


def drawn_bars(app: Page, key: str) -> dict[str, float]:
    figure = app.charts[key]
    labels = figure["layout"]["yaxis"]["ticktext"]
    return dict(zip(labels, array(figure["data"][0]["x"]).tolist(), strict=True))


def test_bars_waterfall_and_maps_sum_to_the_log_ratio(start_page: Start, run: TrainedRun) -> None:
    """The two likeliest words are compared at first."""
    trace = traced(run)
    best, second = trace.predictions.top_log_probability[2, :2].tolist()
    expected = near(best - second, dtype=np.float32, size=LOGITS, operations=PASS)
    app = start_page("why", **AT)
    bars = drawn_bars(app, "account_parts")
    assert sum(bars.values()) == expected
    app = app.choose(answer="tokens")
    for kind, keys in (("cross", len(trace.source)), ("decoder_self", 3)):
        drawn = app.cells(f"account_{kind}")
        inner = drawn[:-2, :-2]
        assert inner.shape[1] == keys
        bound = rounding(np.float32, LOGITS)
        np.testing.assert_allclose(drawn[:-2, -1], inner.sum(axis=1), atol=bound)
        np.testing.assert_allclose(drawn[-1, :-2], inner.sum(axis=0), atol=bound)
    told = " ".join(each.value for each in app.markdown)
    assert f"of all parts: {max(bars, key=bars.__getitem__)}, {max(bars.values()):+#.3g}" in told
    few = drawn_bars(app.choose(answer="parts").choose(smallest=1.0), "account_parts")
    assert len(few) < len(bars)
    assert list(few)[-1].endswith("smaller parts")
    assert sum(few.values()) == expected
    app = app.choose(account="waterfall")
    assert array(app.charts["account_parts"]["data"][0]["y"])[-1] == expected


@pytest.mark.parametrize("agrees", [False, True])
def test_the_head_that_costs_most_is_named_where_it_is_another_one(
    start_page: Start, own_root: Path, run: TrainedRun, agrees: bool
) -> None:
    account = run_account(load_weights(run, 60).model, traced(run), 2, None)
    parts = {name: value for name, value in account.named() if head_of(name) is not None}
    sign = 1 if account.difference >= 0 else -1
    kind, layer, head = parse_head(max(parts, key=lambda name: sign * parts[name]))
    costs = {each: np.zeros((2, 3), np.float32) for each in KINDS}
    costs[kind][layer, head if agrees else (head + 1) % 3] = 0.25
    sha256 = load_weights(open_trained_run("tiny", root=own_root), 60).sha256
    measures = made_up_measures(60, sha256=sha256)
    values = {**measures.values, "cost": costs}
    write_measures(own_root / "tiny", replace(measures, values=values))
    app = start_page("why", own_root, **AT, instead="mean")
    said = f"Over 600 sentences {KIND_NAMES[kind]} {layer + 1}.{(head + 1) % 3 + 1} costs most"
    assert (said in app.captions) != agrees
    assert ("costs most when it is off: +0.250 ± 0.050 nats a token" in app.captions) != agrees


def test_a_cell_of_cross_attention_has_the_encoder(start_page: Start, run: TrainedRun) -> None:
    trace = traced(run)
    cell_of = AT | {"kind": "cross", "layer": "1", "head": "2", "column": "3"}
    shown = start_page("why", **cell_of, answer="tokens").cells("account_cross")[1, 3]
    app = start_page("why", **cell_of, answer="encoder")
    [cell] = [each for each in app.markdown if " brought " in each.value]
    assert token_labels(trace.source)[3] in unescaped(cell.value)
    parts = drawn_bars(app, "encoder_parts")
    assert sum(parts.values()) == near(shown, dtype=np.float32, size=LOGITS)
    assert "encoder_heads" in app.charts
    assert "encoder_heads" not in start_page("why", **AT, answer="encoder").charts
    address = app.address | {"encoder_feed_forward": "2", "encoder_neuron": "5"}
    unfolded = start_page("why", **address)
    neurons = drawn_bars(unfolded, "encoder_neurons")
    assert "neuron 5" in neurons
    of_layer = parts.get("Encoder feed-forward 2")
    assert of_layer is not None
    assert sum(neurons.values()) == near(of_layer, dtype=np.float32, size=LOGITS)
    assert "encoder_drivers_expand" in unfolded.charts


def test_a_neuron_is_described_when_it_is_chosen(start_page: Start) -> None:
    app = start_page("why", **AT, feed_forward="1")
    assert "decoder_drivers_expand" not in app.charts
    neurons = drawn_bars(app, "neurons")
    app = start_page("why", **AT, feed_forward="1", neuron="5")
    assert any("Neuron 5 of layer 1 raises most" in each.value for each in app.markdown)
    assert "decoder_drivers_expand" in app.charts
    again = sum(drawn_bars(app, "neurons").values())
    assert sum(neurons.values()) == near(again, dtype=np.float32, size=LOGITS)


def test_the_strongest_sentences_of_a_neuron_are_shown_and_opened(
    start_page: Start, own_root: Path, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists, opened = record_calls(monkeypatch, "why", "row_table"), list[Any]()
    patch_views(monkeypatch, "why", open_page=lambda page, **given: opened.append((page, given)))
    folder = own_root / "tiny"

    def shown(neuron: str = "5") -> Page:
        lists.clear()
        return start_page("why", own_root, **AT, feed_forward="2", neuron=neuron)

    def write(**changes: Any) -> None:
        shape = (2, load_weights(run, 60).model.config.d_ff, 3)
        sides = {name: np.zeros(shape, np.int64) for name in ("sentence", "position")}
        places = StrongestPositions(**sides, activation=np.zeros(shape, np.float32))
        places.sentence[1, 4], places.position[1, 4] = [1, 0, 0], [2, 0, 99]
        places.activation[1, 4] = [-2.5, 1.25, 1]  # the last is beyond the end of its sentence
        stacks = {"encoder": places, "decoder": places}
        sha256 = load_weights(run, 60).sha256
        write_neurons(
            folder, made_up_neurons(60, **({"sha256": sha256, "stacks": stacks} | changes))
        )

    app = shown()
    assert "was not measured for this checkpoint" in app.captions
    [command] = [each.value for each in app.code if "--only neurons" in each.value]
    assert "--run tiny" in command
    write()
    shown()
    ids = run.tokenizers.encode_target(SENTENCES[1].reference)
    consumed, predicted = (token_label(each) for each in run.tokenizers.target.tokens(ids[2:4]))
    first, second = table(lists, "strongest")
    assert first[:2] == ["-2.5", f"{predicted} ← {consumed}"]
    assert first[3] == SENTENCES[1].source
    assert (second[0], second[1].endswith(" ← <s>")) == ("+1.25", True)
    assert second[2] == "<s> [query: Los] gatos no ven al perro. </s>"
    lists["strongest"]["on_click"]("0")
    sentence = {"sentence": SENTENCES[1].source, "target": SENTENCES[1].reference}
    assert opened == [("why", sentence | {"at": 2, "feed_forward": 2, "neuron": 5})]
    assert "It was not active in any sentence" in shown("6").captions
    assert "strongest" not in lists
    write(sha256="other")
    assert "The weights have changed since" in shown().captions
    neurons_path(folder, 60).write_bytes(b"no")
    assert "measure them again" in shown().captions


def test_whole_effects_stop_and_go_on(start_page: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn_bars(start_page("why", **AT).choose(whole=True), "encoder_wholes")
    st.cache_resource.clear()
    monkeypatch.setattr("headwise.model.interventions.POSITIONS_AT_A_TIME", 60)
    app = start_page("why", **AT)
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(whole=True)
    assert "encoder_wholes" not in app.charts
    for _ in range(2):  # as a browser does once the app rests
        app.run()
        assert "encoder_wholes" not in app.charts
    app.button(key="stop-whole-progress").click().run()
    assert not app.view.why.whole
    monkeypatch.setattr(slices, "SECONDS", math.inf)
    again = drawn_bars(app.choose(whole=True), "encoder_wholes")
    assert again == pytest.approx(whole, abs=rounding(np.float32, LOGITS, PASS))


def test_whole_effects_stand_beside_direct_ones(start_page: Start) -> None:
    app = start_page("why", **AT, smallest="0.01").choose(whole=True)
    encoder = app.charts["encoder_wholes"]
    for figure in (app.charts["account_parts"], encoder):
        texts = list(map(html.unescape, figure["data"][0]["text"]))
        found = [re.fullmatch(r"(.+) · whole ([^ ]+)( ≠)?", text) for text in texts]
        assert sum(each is not None for each in found) > 3
        for each in filter(None, found):
            direct, whole = (float(each[side].lstrip("<>")) for side in (1, 2))
            if (
                min(abs(direct), abs(whole)) > 0.02
                and abs(abs(direct / whole - 1.25) - 0.75) > 0.01
            ):
                assert (each[3] is not None) == (not 0.5 < direct / whole < 2)


@pytest.mark.parametrize("at", ["0", "2"])
def test_three_answers_name_the_source_words_and_mark_where_they_disagree(
    start_page: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    lists, changes = record_calls(monkeypatch, "why", "row_table"), list[Any]()
    patch_views(monkeypatch, "why", change_view=lambda *_, **choices: changes.append(choices))
    app = start_page("why", q=CATS, at=at, column="1", smallest="1.0", answer="words")
    rows = table(lists, "source_words")
    words = traced(run).source.words
    assert [row[0] for row in rows] == [word.text for word in words]
    answers = np.array([[float(cell.lstrip("<>")) for cell in row[1:4]] for row in rows])
    first = {*answers.argmax(axis=0)}
    assert ("They disagree on the first" in app.captions) == (len(first) > 1) == (at == "0")
    for place, (_, lost, brought, _, mark) in enumerate(rows):
        one, other = float(lost.lstrip("<>")), float(brought.lstrip("<>"))
        largest, apart = max(abs(one), abs(other)), abs(one - other)
        differ = largest >= 1.0 and (one * other < 0 or apart > largest / 2)
        if min(abs(largest - 1.0), abs(apart - largest / 2)) > 0.002:  # or rounding decides
            assert mark == "≠" * (differ or (len(first) > 1 and place in first))
    marked = next(at for at, word in enumerate(words) if word.start <= 1 < word.stop)
    assert lists["source_words"]["chosen"] == str(marked)
    for place in (marked, 0):
        lists["source_words"]["on_click"](str(place))
    assert changes == [{"column": None}, {"column": words[0].start}]


def test_a_click_chooses_the_head_whose_map_is_drawn_and_marks_the_token(
    start_page: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token so far is marked among the target's tokens too, which begin after ``<s>``."""
    trace = traced(run)
    app = start_page("why", **AT, kind="decoder_self", layer="2", head="1", earlier="1")
    assert "account_decoder_self" in app.charts
    app = app.choose(answer="parts")
    app.expect_cells("head_map", trace.attention["decoder_self"][1, 0])
    assert (0.5, 1.5) in [(each["x0"], each["x1"]) for each in app.frames("head_map")]
    rows = [json.loads(row.proto.json)[0] for row in app.get("bidi_component")]
    assert [row["marked"] for row in rows if "tokens" in row] == [[], [0]]
    drawn, changes = record_calls(monkeypatch, "why", "show_figure"), list[Any]()
    start_page("why", **AT, answer="tokens")
    patch_views(monkeypatch, "why", change_view=lambda *_, **choices: changes.append(choices))
    for key, value in (("cross", "3,2"), ("decoder_self", "3,"), ("decoder_self", ",1")):
        patch_views(monkeypatch, "why", clicked_value=lambda _, value=value: value)
        drawn[f"account_{key}"]["on_select"]()
    assert changes == [
        {"kind": "cross", "layer": 2, "head": 1, "column": 2},
        {"kind": "decoder_self", "layer": 2, "head": 1},
        {"earlier": 1},
    ]


def test_source_words_that_are_divided_otherwise_are_asked_about_anew(run: TrainedRun) -> None:
    """A run whose tokenizer file was replaced has the same weights and ids."""
    trace = traced(run)
    joined = replace(trace.source, words=(Word("all but the first", 1, len(trace.source)),))
    whole = ask_trace(run_source_effects, run, trace, 2, None)
    [loss] = ask_trace(run_source_effects, run, replace(trace, source=joined), 2, None)
    assert len(whole) == len(trace.source.words)
    assert abs(whole - loss).min() > 1e-6


def test_words_of_a_long_sentence_are_not_left_out_one_by_one(
    start_page: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.viz_app.why.word.section.source.MOST_LEFT_OUT", 2)
    patch_views(monkeypatch, "why", run_source_effects=lambda *_: pytest.fail("it was computed"))
    lists = record_calls(monkeypatch, "why", "row_table")
    app = start_page("why", **AT, answer="words")
    assert {row[1] for row in table(lists, "source_words")} == {"–"}
    assert "Words are left out of sentences of at most 2" in app.captions


def test_every_checkpoint_is_asked_the_same(
    start_page: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of the parts sum to that of the difference; a click draws the whole page."""
    app = start_page("why", **AT, answer="training", instead="mean")
    figure = app.charts["account_training"]
    names = [note["text"].partition("</span> ")[2] for note in figure["layout"]["annotations"]]
    assert names[0] == "Difference"
    assert names[-1].endswith("smaller parts")
    drawn = np.array([array(line["y"]) for line in figure["data"]])
    assert drawn.shape == (len(names), len(STEPS))
    trace = traced(run)
    for column, step in enumerate(STEPS):
        other = traced(run, step=step, target=trace.target_ids)
        account = run_account(load_weights(run, step).model, other, 2, None)
        expected = near(account.difference, dtype=np.float32, size=LOGITS, operations=PASS)
        assert drawn[0, column] == expected
        assert drawn[1:, column].sum() == expected
    figures, seen = record_calls(monkeypatch, "why", "show_figure"), list[object]()
    start_page("why", **AT, answer="training")
    patch_views(
        monkeypatch,
        "why",
        clicked_value=lambda _: str(STEPS[1]),
        change_view=lambda *panels, **choices: seen.append((panels, choices)),
    )
    figures["account_training"]["on_select"]()
    assert seen == [((WHOLE_PAGE,), {"step": STEPS[1]})]


def test_the_menu_gives_what_the_command_writes(
    start_page: Start,
    run_root: Path,
    run: TrainedRun,
    tmp_path: Path,
    downloads: dict[str, Callable[[], bytes]],
) -> None:
    """Its files are made when they are clicked, in a thread that has no page."""
    assert start_page("why", **AT, feed_forward="1", smallest="0.5").errors == []
    out, name = tmp_path / "out.npz", "headwise-tiny-60-why-3"
    main(WhyArguments(out, SentenceOptions(run="tiny", text=CATS, checkpoints=run_root), at=3))
    with ThreadPoolExecutor() as elsewhere:
        assert_same_arrays(elsewhere.submit(downloads[f"{name}.npz"]).result(), out)
        page = elsewhere.submit(downloads[f"{name}.html"]).result().decode()
    assert "Feed-forward 1, by neuron" in page
    assert f"<dd>{traced(run).target_text}</dd>" in page
    downloads.clear()
    app = start_page("why", **AT, instead="unheard of 🙂")
    [said] = app.errors
    assert "is no token of this vocabulary" in said
    assert "account_parts" not in app.charts
    assert [each for each in downloads if "why" in each] == []
