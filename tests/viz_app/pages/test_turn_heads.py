"""The section *turn heads* of Why: sliders, pinned rows, and what is written anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.beam import beam_search
from headwise.model.interface import Head
from headwise.model.turned import PinnedRow, Turned
from headwise.model.turning import turn
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.viz_app.pages.driver import (
    CATS,
    DOG,
    Start,
    log_probability,
    patch_views,
    record_calls,
    table,
    traced,
)

PAGE = "why"
ADDRESS = {"q": CATS, "why": "turn heads", "kind": "cross", "layer": "2", "head": "1"}
CROSS = Head("cross", 1, 0)


def turned_trace(run: TrainedRun, turned: Turned, target: Any = None) -> Trace:
    return run_trace(load_weights(run, 60).model, run.tokenizers, CATS, target, turned=turned)


def test_a_slider_turns_the_head_and_translates_anew(start: Start, run: TrainedRun) -> None:
    app, whole = start(), traced(run)
    assert app.texts.count(whole.target_text) == 2
    app.choose(**{"strength-cross.2.1": -1.0})
    assert (app.address["off"], app.view.strengths) == ("cross.2.1:-1", ((CROSS, -1),))
    turned = Turned.of({CROSS: -1})
    anew, after = turned_trace(run, turned), turned_trace(run, turned, whole.target_ids)
    assert anew.target_text != whole.target_text
    assert {whole.target_text, anew.target_text} <= set(app.texts)
    totals = log_probability(whole), log_probability(after)
    said = "{:.2f} nats in the model, {:.2f} with what is turned ({:+.2f})."
    assert app.says(said, *totals, totals[1] - totals[0], size=max(map(abs, totals)))
    app.expect_cells("turned_map", anew.attention["cross"][1, 0])
    assert any("heads turned: Cross 2.1 × -1" in code.value for code in app.code)

    app.choose(kind="encoder_self", layer=1).choose(**{"strength-encoder_self.1.1": 0.0})
    assert app.view.turned == Turned.of({CROSS: -1, Head("encoder_self", 0, 0): 0})
    app.button(key="reset-cross.2.1").click().run()
    assert app.address["off"] == "encoder_self.1.1"
    app.button(key="reset-all").click().run()
    assert "off" not in app.address
    assert app.texts.count(whole.target_text) == 2


def test_words_before_and_after_are_those_of_two_forced_passes(
    start: Start, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls(monkeypatch, "why", "row_table")
    start(off="cross.2.1:-1")
    whole = traced(run)
    after = turned_trace(run, Turned.of({CROSS: -1}), whole.target_ids)
    rows = table(calls, "before_and_after")
    assert [row[0] for row in rows] == token_labels(whole.predicted)
    for place, trace in ((1, whole), (2, after)):
        drawn = [float(row[place]) for row in rows]
        expected = np.exp(trace.predictions.log_probability)
        np.testing.assert_allclose(drawn, expected, atol=6e-4)


def test_a_beam_is_searched_with_what_is_turned(start: Start, run: TrainedRun) -> None:
    app = start(off="cross.2.1:-1", decoding="beam")
    model = load_weights(run, 60).model
    source, prefix = run.tokenizers.encode_source(CATS), run.tokenizers.prefix
    with turn(model, Turned.of({CROSS: -1})):
        [beam] = beam_search(model, [source], size=4, prefix=prefix)
    assert run.tokenizers.target.decode(beam.hypotheses[0].target) in app.texts


def test_clicks_on_the_map_pin_and_free_rows(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = record_calls(monkeypatch, "why", "show_figure")
    seen: list[Any] = []
    patch_views(monkeypatch, "why", change_view=lambda *_, **choices: seen.append(choices))
    start(kind="decoder_self")
    drawn["turned_map"]["cells"].on_cell(1, 2)  # it cannot see that far
    assert seen == []
    first = PinnedRow(CROSS, 1, 3)
    app = start(pinned=str(first))
    patch_views(monkeypatch, "why", view=lambda: app.view)
    for column in (3, 2):
        drawn["turned_map"]["cells"].on_cell(1, column)
    drawn["turned_map"]["cells"].on_row(1)
    drawn["turned_map"]["cells"].on_row(2)
    assert [choices["pinned"] for choices in seen] == [
        (),
        (PinnedRow(CROSS, 1, 2),),
        (PinnedRow(CROSS, 1, None),),
        (first, PinnedRow(CROSS, 2, None)),
    ]


def test_a_pinned_row_is_drawn_listed_exported_and_freed(start: Start, run: TrainedRun) -> None:
    pin = PinnedRow(CROSS, 1, 3)
    app = start(pinned=str(pin))
    anew = turned_trace(run, Turned(pinned=(pin,)))
    app.expect_cells("turned_map", anew.attention["cross"][1, 0])
    assert app.cells("turned_map")[1].tolist() == np.eye(len(anew.source))[3].tolist()
    assert any(text.startswith("Cross 2.1, row 2, ") for text in app.texts)
    assert any("rows pinned: Cross 2.1 row 2 onto key 4" in code.value for code in app.code)
    app.choose(sentence=DOG)
    assert "pinned" not in app.address
    app = start(pinned=str(pin))
    app.button(key=f"free-{pin}").click().run()
    assert "pinned" not in app.address


def test_what_cannot_be_turned_is_named(start: Start) -> None:
    for name, value in (
        *(("off", "cross.2.9"), ("off", "cross.2.1:3.5"), ("pinned", "cross.2.1:1:99")),
        *(("pinned", "encoder_self.1.1:99:1"), ("pinned", "decoder_self.1.1:2:3")),
    ):
        app = start(**{name: value})
        assert f"The address has {name}={value}, which cannot be used here." in app.warnings[0]
        assert name not in app.address
