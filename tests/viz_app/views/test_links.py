"""Each choice on each page is in the link: who opens the link sees the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from model.interface import Head
from tests.viz_app.views.driver import (
    CATS,
    DOG,
    Start,
    captions,
    charts,
    choose,
    errors,
    html,
    texts,
)
from viz_app.views.state import View

BEAM = {"decoding": "beam", "below": "beam"}
COMPARED = {"training": "compare"}
CHOICES: list[tuple[str, dict[str, str], dict[str, Any]]] = [
    ("translate", {}, {"step": 20}),
    ("translate", {}, {"sentence": DOG}),
    ("translate", {}, {"decoding": "beam"}),
    ("translate", BEAM, {"beam": 2}),
    ("translate", BEAM, {"hypothesis": 1}),
    ("translate", {}, {"target": "El gato."}),
    ("translate", {}, {"kind": "encoder_self"}),
    ("translate", {}, {"layer": 1}),
    ("translate", {}, {"head": 2}),
    ("translate", {}, {"units": "words"}),
    ("translate", {}, {"rows": "consumed"}),
    ("translate", {}, {"special": False}),
    ("translate", {"special": "false"}, {"renormalised": True}),
    ("translate", {}, {"compare": True}),
    ("translate", {"compare": "true"}, {"second": 0}),
    ("translate", {}, {"show": "mean"}),
    ("translate", {}, {"cells": "value norm"}),
    ("translate", {}, {"style": "lines"}),
    ("translate", {"style": "lines"}, {"lines_of": [Head("cross", 0, 0)]}),
    ("translate", {"below": "steps"}, {"at": 2}),
    ("translate", {}, {"below": "off"}),
    ("translate", {"below": "off"}, {"off": [Head("cross", 1, 0)]}),
    ("translate", {"below": "off"}, {"rank": True}),
    ("inside", {}, {"query": 2}),
    ("inside", {}, {"key": 1}),
    ("architecture", {}, {"unfold": "everything"}),
    ("embeddings", {}, {"section": "positions"}),
    ("embeddings", {}, {"side": "target"}),
    ("embeddings", {"section": "similarity"}, {"similarity_of": "1"}),
    ("embeddings", {"section": "similarity"}, {"token": "id:7"}),
    ("embeddings", {"section": "similarity"}, {"least": 1}),
    ("embeddings", {"section": "positions"}, {"dimensions": [0, 3]}),
    ("embeddings", {"section": "positions"}, {"positions": [2, 5]}),
    ("embeddings", {"section": "projection"}, {"projection_by": "UMAP"}),
    ("embeddings", {"section": "projection"}, {"number": 50}),
    ("embeddings", {"section": "projection"}, {"searched": ["id:7"]}),
    ("training", {}, {"training": "translations"}),
    ("training", {}, {"steps_axis": "log"}),
    ("training", {}, {"loss_axis": "log"}),
    ("training", {}, {"smoothing": 0.9}),
    ("training", {"training": "translations"}, {"own_reference": "El perro."}),
    ("training", COMPARED, {"other_step": 0}),
    ("training", COMPARED, {"shared": "own"}),
    ("training", COMPARED, {"overview": "A"}),
    ("training", {"training": "play"}, {"playing": "all"}),
    ("training", {"training": "embeddings"}, {"pair_tokens": ["id:7", "id:8"]}),
    ("training", {"training": "embeddings"}, {"moving_number": 100}),
    ("training", {"training": "embeddings"}, {"moving_frame": 0}),
]
ELSEWHERE = {
    *("source_language", "target_language", "task"),  # of models of others
    *("run", "beside", "other_run", "unpaired", "other_layer", "other_head"),  # of several runs
    *("measure", "matrix_rows", "heads_kind", "heads_order", "heads_least", "failure"),  # measured
    *("among", "colour", "pairs_among"),  # of a shared vocabulary, or one that is not counted
    *("samples_by", "sample"),  # of a log with translations
    *("fork", "column", "tree_from", "pictures", "printed"),  # a click, or drawn in few cases
}
"""Choices for which the tiny run of these tests has no widget."""


def drawn(app: AppTest) -> tuple[object, ...]:
    """Return all that a page shows, but the link itself."""
    said = captions(app).replace("\n", " ")
    return errors(app), texts(app), html(app), charts(app), said


def test_every_choice_is_tested() -> None:
    tested = {name for _, _, choices in CHOICES for name in choices}
    assert tested | ELSEWHERE == {field.name for field in dataclasses.fields(View)}


@pytest.mark.parametrize(
    ("page", "address", "choices"),
    CHOICES,
    ids=[f"{page}-{next(iter(choices))}" for page, _, choices in CHOICES],
)
def test_who_opens_the_link_sees_the_same(
    start_page: Start, page: str, address: dict[str, str], choices: dict[str, Any]
) -> None:
    app = start_page(page, q=CATS, **address)
    before = app.session_state["view"]
    app = choose(app, **choices)
    assert errors(app) == []
    again = start_page(page, **app.query_params)
    assert drawn(again) == drawn(app)
    assert again.session_state["view"] == app.session_state["view"] != before
