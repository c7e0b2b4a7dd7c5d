"""Sentences of a person's own are measured on the page, which then shows Heads and the matrix."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from headwise.viz_app.measuring.given import GivenMeasures, GivenSentences
from headwise.viz_app.session import slices
from tests.floats import near
from tests.viz_app.pages.driver import CATS, CATS_TRANSLATED, DOG, Calls, Page, Start, record_calls

HERE = "All this stays in this session only"


def keys(app: Page) -> set[str]:
    return {each.key for each in app.button}


def found(app: Page) -> dict[int, GivenMeasures]:
    given: dict[tuple[str, str], GivenSentences] = app.session_state["given"]
    return {step: each for one in given.values() for step, each in one.found.items()}


def give(app: Page, text: str, button: int = 0) -> Page:
    app.text_area(key="given_text").set_value(text)
    app.button(key=f"measure_here_{button}").click().run()
    return app


def test_heads_shows_what_was_measured_here_for_this_session_alone(
    start_page: Start, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: Calls = record_calls(monkeypatch, "heads", "row_table")
    app = start_page("heads", own_root)
    assert "headwise.viz_app.measure" in app.code[0].value
    assert not lists
    give(app, "a\tb\nc")
    assert app.errors == [
        "line 2 has no translation after a tab, unlike those before; give all of them, or none: "
        "then the model's own are taken"
    ]
    assert app.text_area(key="given_text").value == "a\tb\nc"
    give(app, f"{CATS}\t{CATS_TRANSLATED}\n{DOG}\t¿Dónde?\n")
    assert app.errors == app.warnings == []
    assert "your sentences: 2 sentences" in app.captions
    assert HERE in app.captions
    assert "The targets are the references." in app.captions
    cost = found(app)[60].measures.values["cost"]["cross"]
    bars = {row.name: row.cells[2].value for row in lists["head_table"]["given"][1]}
    for head in range(3):
        assert bars[f"cross,0,{head}"] == near(float(cost[0, head]), dtype=np.float32)
    assert not (own_root / "tiny" / "measures").exists()
    assert "not been measured" in start_page("heads", own_root).info[0].value  # another session
    app.button(key="give_others").click().run()
    assert "not been measured" in app.info[0].value
    assert not found(app)


def test_measuring_goes_on_in_slices_that_a_button_stops(
    start_page: Start, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start_page("heads", own_root, step="20")
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    give(app, f"{CATS}\n{DOG}")
    assert "measure_here_0" not in keys(app)
    before = app.session_state["measuring"].done
    app.run()
    assert app.session_state["measuring"].done > before
    app.button(key="stop-measuring").click().run()
    assert "measuring" not in app.session_state
    assert not found(app)
    monkeypatch.setattr(slices, "SECONDS", math.inf)
    give(app, f"{CATS}\n{DOG}")
    assert found(app).keys() == {20}
    assert "The targets are the translations of checkpoint 60." in app.captions


def test_weights_are_drawn_while_the_rest_is_measured(
    start_page: Start, own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start_page("training", own_root, training="heads")
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    give(app, f"{CATS}\n{DOG}", 1)
    for _ in range(3):
        app.run()
    assert not found(app)
    assert "which needs the weights alone, until a checkpoint is measured" in app.captions
    assert np.isfinite(app.cells("head_matrix")[1:7]).all()
    monkeypatch.setattr(slices, "SECONDS", math.inf)
    app.run()
    assert [*found(app)] == [60, 0, 20]
    assert "which needs the weights alone" not in app.captions


def test_the_matrix_has_those_of_the_same_sentences(start_page: Start, own_root: Path) -> None:
    app = start_page("training", own_root, training="heads")
    give(app, f"{CATS}\n{DOG}")
    assert "One checkpoint is measured, that of step 60" in app.captions
    assert "2 sentences of yours are measured at other checkpoints" in app.captions
    app.button(key="measure_here_0").click().run()
    every = found(app)
    assert every.keys() == {0, 20, 60}
    assert len({each.measures.corpus for each in every.values()}) == 1
    drawn = app.cells("head_matrix")
    for column, step in enumerate((0, 20, 60)):
        expected = every[step].measures.values["cost"]["encoder_self"].ravel()
        assert drawn[1:7, column].tolist() == near(expected.tolist())
