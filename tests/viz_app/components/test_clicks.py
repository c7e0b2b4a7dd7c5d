"""What is mounted in the browser, and what clicks there do in Python."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import streamlit

from headwise.model.interface import Head
from headwise.viz_app.components import (
    head_graph,
    heat_map,
    lines,
    player,
    row_table,
    scatter,
    token_buttons,
)
from headwise.viz_app.components.heat_map import Cells, TokenAxis
from headwise.viz_app.components.lines import Bundle, TokenColumn
from headwise.viz_app.components.player import Course, Frame, MapAnimation
from headwise.viz_app.components.row_table import Bar, MarkedText, Row, TextPart
from headwise.viz_app.figures.maps import attention_map
from headwise.viz_app.figures.theme import DARK, LIGHT
from tests.floats import near


class Browser:
    """Takes the browser's place: has the data of what is mounted there, and sends events."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._mounted: dict[str, Any] = {}
        for module in (head_graph, heat_map, lines, player, row_table, scatter, token_buttons):
            monkeypatch.setattr(module, "_mount", lambda **given: self._mounted.update(given))

    @property
    def data(self) -> Any:
        return json.loads(json.dumps(self._mounted["data"], allow_nan=False))

    def send(self, event: str, *values: Any) -> None:
        """Send an event with each value; before these, one that comes when the widget is gone."""
        states = [{"widget": SimpleNamespace(**{event: value})} for value in values]
        for state in ({}, *states):
            self._patch.setattr(streamlit, "session_state", state)
            self._mounted[f"on_{event}_change"]()


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    return Browser(monkeypatch)


# Tables


def draw_table(titles: list[str], *rows: Row, **changes: Any) -> None:
    given: dict[str, Any] = {"label": "heads", "theme": LIGHT, "key": "widget"}
    row_table.row_table(titles, rows, **(given | {"on_click": print} | changes))


def test_only_a_row_that_is_there_can_be_clicked(browser: Browser) -> None:
    clicked: list[str] = []
    draw_table(["head"], Row("a", ("a",)), Row("b", ("b",)), on_click=clicked.append)
    browser.send("clicked", "b", "c", None, ["a"])
    assert clicked == ["b"]


def test_only_a_point_that_is_there_can_be_clicked(browser: Browser) -> None:
    clicked: list[int] = []
    cloud = scatter.Cloud(np.eye(2), ["a", "b"], None, np.ones(2, int), ["", "all"], False)
    marks: dict[str, Any] = {"sentence": [], "searched": [], "content_id": ""}
    draw = partial(scatter.scatter, cloud, **marks, theme=LIGHT, name="", key="widget")
    draw()
    assert browser.data["action"] == ""
    draw(on_click=clicked.append, action="opens it")
    assert browser.data["action"] == "opens it"
    browser.send("clicked", 1, 2, -1, None, "0")
    assert clicked == [1]


def test_texts_and_marked_words_are_sent_unchanged(browser: Browser) -> None:
    parts = (TextPart("The "), TextPart("<b>", "query"), TextPart("&", "query key"))
    row = Row("a", ("1.1", "$x$", MarkedText(parts, "en")))
    legend = [TextPart("who looks", "query")]
    draw_table(["head", "x", "y"], row, legend=legend, chosen="a", action="open")
    marked = [("The ", ""), ("<b>", "query"), ("&", "query key")]
    sent = [{"text": text, "mark": mark} for text, mark in marked]
    cells = [{"text": "1.1"}, {"text": "$x$"}, {"language": "en", "parts": sent}]
    data = browser.data
    assert data["rows"] == [{"name": "a", "cells": cells}]
    assert data["legend"] == [{"text": "who looks", "mark": "query"}]
    assert (data["label"], data["chosen"], data["action"]) == ("heads", "a", "open")


@pytest.mark.parametrize(
    ("bar", "start", "length", "colour"),
    [
        (Bar(0.25, ""), 0.0, 0.25, 0),
        (Bar(0.3, "", low=-0.1, high=0.4), 0.2, 0.6, 0),
        (Bar(-0.05, "", low=-0.1, high=0.4), 0.1, 0.1, 1),
        (Bar(7.0, ""), 0.0, 1.0, 0),  # no longer than its cell
        (Bar(0.0, ""), 0.0, 0.0, 0),
    ],
)
def test_bars_from_zero(
    browser: Browser, bar: Bar, start: float, length: float, colour: int
) -> None:
    draw_table(["head", "x"], Row("a", ("1.1", bar)), theme=DARK)
    cell, colours = browser.data["rows"][0]["cells"][1], browser.data["colours"]
    assert (cell["start"], cell["length"]) == near((start, length), size=1)
    assert (cell["colour"], colours["accent"]) == (DARK.series[colour], DARK.accent)
    assert colours["query"] != colours["key"]


# Tokens, cells, the player, lines


def test_only_a_token_that_is_there_can_be_clicked(browser: Browser) -> None:
    clicked: list[int] = []
    token_buttons.token_buttons(
        ["a", "<b>"],
        name="",
        theme=LIGHT,
        key="widget",
        on_click=clicked.append,
        chosen=1,
        probabilities=[0.001, 0.5],
        titles=["t", "u"],
    )
    tokens = [(token["label"], token["title"], token["number"]) for token in browser.data["tokens"]]
    assert tokens == [("a", "t", "<.01"), ("<b>", "u", "0.50")]
    assert browser.data["chosen"] == 1
    browser.send("clicked", 1, 2, -1, None, "0")
    assert clicked == [1]


@pytest.mark.parametrize("has_rows", [False, True])
def test_only_cells_and_rows_there_are_can_be_clicked(browser: Browser, has_rows: bool) -> None:
    clicked: list[Any] = []
    cells = Cells(
        (2, 0),
        "",
        lambda row, column: clicked.append((row, column)),
        clicked.append if has_rows else None,
    )
    heat_map.heat_map(
        attention_map(
            np.ones((3, 2), np.float32),
            rows=list("abc"),
            columns=list("xy"),
            row_title="",
            column_title="",
            theme=LIGHT,
        ),
        label="",
        picture={},
        axes=(TokenAxis("target", [(0, 1)] * 3), TokenAxis("source", [(0, 2), (2, 3)])),
        cells=cells,
        theme=LIGHT,
        key="widget",
    )
    assert browser.data["axes"][1] == {"side": "source", "spans": [[0, 2], [2, 3]]}
    browser.send("cell", [2, 1], [3, 0], [0, 2], [-1, 0], [1], None, ["0", 0], 1)
    browser.send("row", 1, 3, -1, None, "1")
    assert clicked == [(2, 1), *([1] * has_rows)]


def test_the_player_opens_steps_and_heads(browser: Browser) -> None:
    opened: list[Any] = []
    maps = np.zeros((1, 2, 3, 1, 1), np.float32)
    player.player(
        MapAnimation(maps, [Frame(20, (), (), "")], Course([20]), ["a"], ["b"], "", ""),
        start=20,
        opens=20,
        content_id="this",
        language="es",
        theme=LIGHT,
        name="headwise-maps",
        key="widget",
        on_open=opened.append,
        on_head=lambda layer, head: opened.append((layer, head)),
    )
    assert (browser.data["start"], browser.data["content_id"]) == (20, "this")
    browser.send("step", None, 20.0)
    browser.send("head", None, [1, 2])
    assert opened == [20, (1, 2)]


def test_edges_are_sent_by_places_and_a_click_gives_their_heads(browser: Browser) -> None:
    """Also one that does not stand out, and whichever step is opened."""
    heads = {Head("encoder_self", 0, 0): "Encoder 1.1", Head("cross", 0, 1): "Cross 1.2"}
    ends = (*heads,)
    edge = (*ends, "value", -0.01234, 0.02, 0.3)
    seen: list[Any] = []
    head_graph.head_graph(
        {"encoder_self": (1, 1), "decoder_self": (1, 2), "cross": (1, 2)},
        heads,
        ["query", "key", "value"],
        {0: head_graph.Frame([], "none"), 20: head_graph.Frame([edge], "one")},
        chosen=(*ends, "key", *edge[3:]),
        start=20,
        run="this",
        theme=DARK,
        key="widget",
        on_open=seen.append,
        on_edge=lambda *edge: seen.append(edge),
    )
    sent = browser.data
    assert sent["frames"][0]["edges"] == []
    assert sent["frames"][1]["edges"] == [[0, 1, 2, -0.0123, 0.02, 0.3]]
    assert (sent["chosen"], sent["heads"][1]) == ([0, 1, 1], ["cross", 0, 1])
    assert sent["series"] == list(DARK.series[:3])
    browser.send("step", None, 20.0)
    browser.send("edge", None, [0, 1, 2])
    assert seen == [20, (*ends, "value")]


def test_the_slider_of_lines_gives_its_weight_and_no_other_value(browser: Browser) -> None:
    columns = (TokenColumn("key", ("a",), "en"), TokenColumn("query", ("b",), "es"))
    bundle = Bundle("Cross 1.1", np.ones((1, 1), np.float32), query_column=1, key_column=0)
    given: list[float] = []
    lines.lines(
        columns,
        [bundle],
        theme=LIGHT,
        name="headwise-lines",
        key="widget",
        smallest=0.1,
        on_smallest=given.append,
    )
    assert (browser.data["name"], browser.data["smallest"]) == ("headwise-lines", 0.1)
    browser.send("smallest", None, 0.56, 0.001, 2, "0.5", 1)
    assert given == [0.56, 1.0]
