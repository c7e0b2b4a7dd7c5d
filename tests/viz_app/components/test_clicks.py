"""What clicks in the browser do in Python."""

from __future__ import annotations

import base64
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.components import lines, map_cells, player, row_table, token_buttons
from headwise.viz_app.components.lines import Bundle, TokenColumn
from headwise.viz_app.components.player import Frame, MapAnimation
from headwise.viz_app.components.row_table import Row
from headwise.viz_app.figures.theme import LIGHT


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What is mounted in the place of the browser: data, and a function for each event."""
    given: dict[str, Any] = {}
    for module in (lines, map_cells, player, row_table, token_buttons):
        monkeypatch.setattr(module, "_mount", lambda **mounted: given.update(mounted))
    return given


def say(monkeypatch: pytest.MonkeyPatch, module: ModuleType, **state: Any) -> None:
    """Let the browser send a state."""
    monkeypatch.setattr(module.st, "session_state", {"widget": SimpleNamespace(**state)})


def test_only_a_row_that_is_there_can_be_clicked(
    browser: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clicked: list[str] = []
    rows = [Row(name, (name,)) for name in "ab"]
    row_table.row_table(
        ["head"], rows, label="", theme=LIGHT, key="widget", on_click=clicked.append
    )
    for name in ("b", "c", None, ["a"]):
        say(monkeypatch, row_table, clicked=name)
        browser["on_clicked_change"]()
    assert clicked == ["b"]


def test_only_a_token_that_is_there_can_be_clicked(
    browser: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
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
    data = browser["data"]
    assert [token["label"] for token in data["tokens"]] == ["a", "<b>"]
    assert [token["title"] for token in data["tokens"]] == ["t", "u"]
    assert [token["number"] for token in data["tokens"]] == ["<.01", "0.50"]
    assert data["chosen"] == 1
    for place in (1, 2, -1, None, "0"):
        say(monkeypatch, token_buttons, clicked=place)
        browser["on_clicked_change"]()
    assert clicked == [1]


@pytest.mark.parametrize("has_rows", [False, True])
def test_only_cells_and_rows_that_are_there_can_be_clicked(
    browser: dict[str, Any], monkeypatch: pytest.MonkeyPatch, has_rows: bool
) -> None:
    clicked: list[Any] = []
    allowed = np.array([[True, False], [True, True], [True, True]])
    map_cells.map_cells(
        np.ones((3, 2), np.float32),
        rows=["a", "b", "c"],
        columns=["x", "y"],
        allowed=allowed,
        start=(2, 0),
        label="",
        hint="",
        container="box",
        theme=LIGHT,
        key="widget",
        on_cell=lambda row, column: clicked.append((row, column)),
        on_row=clicked.append if has_rows else None,
    )
    sent = np.frombuffer(base64.b64decode(browser["data"]["weights"]), "<f4").reshape(3, 2)
    np.testing.assert_array_equal(np.isnan(sent), ~allowed)
    for cell in ([2, 1], [3, 0], [0, 2], [-1, 0], [1], None, ["0", 0], 1):
        say(monkeypatch, map_cells, cell=cell)
        browser["on_cell_change"]()
    for row in (1, 3, -1, None, "1"):
        say(monkeypatch, map_cells, row=row)
        browser["on_row_change"]()
    assert clicked == [(2, 1), *([1] * has_rows)]


def test_the_player_opens_steps_and_heads(
    browser: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    maps = np.zeros((1, 2, 3, 1, 1), np.float32)
    player.player(
        MapAnimation(maps, [Frame(20, (), (), "")], ["a"], ["b"], "", ""),
        start=20,
        content_id="this",
        language="es",
        theme=LIGHT,
        name="headwise-maps",
        key="widget",
        on_open=opened.append,
        on_head=lambda layer, head: opened.append((layer, head)),
    )
    assert (browser["data"]["start"], browser["data"]["content_id"]) == (20, "this")
    for step, head in ((None, None), (20.0, [1, 2])):
        say(monkeypatch, player, step=step, head=head)
        browser["on_step_change"]()
        browser["on_head_change"]()
    assert opened == [20, (1, 2)]


def test_the_picture_of_lines_has_a_name(browser: dict[str, Any]) -> None:
    columns = (TokenColumn("key", ("a",), "en"), TokenColumn("query", ("b",), "es"))
    bundle = Bundle("Cross 1.1", np.ones((1, 1), np.float32), query_column=1, key_column=0)
    lines.lines(columns, [bundle], theme=LIGHT, name="headwise-lines", key="widget")
    assert browser["data"]["name"] == "headwise-lines"
