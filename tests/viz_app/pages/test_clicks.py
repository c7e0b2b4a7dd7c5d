"""What clicks on tokens, cells and bars change, without a browser."""

from __future__ import annotations

from collections import ChainMap
from html import unescape
from typing import Any

import pytest

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import token_label
from tests.viz_app.pages.driver import CATS, Start, patch_views, record_calls, traced

Clickable = ChainMap[str, dict[str, Any]]


@pytest.fixture
def clickable(monkeypatch: pytest.MonkeyPatch) -> Clickable:
    """What the page gives to components and charts, by key."""
    given = [record_calls(monkeypatch, "translate", "show_figure")]
    given.append(record_calls(monkeypatch, "session", "token_buttons"))
    return ChainMap(*given, record_calls(monkeypatch, "model", "show_figure"))


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the pages that clicks open, and what they choose; no lesson is on."""
    seen: list[Any] = []
    for page in ("translate", "model"):
        patch_views(monkeypatch, page, change_view=lambda *_, **choices: seen.append(choices))
    opened = {"open_page": lambda page, **choices: seen.append((page, choices))}
    patch_views(monkeypatch, "translate", answered=lambda *_: {}, **opened)
    return seen


def click_bars(patch: pytest.MonkeyPatch, page: str, bars: Any, *places: int | None) -> None:
    """Click in the rows of bars; None: beside all bars."""
    for place in places:
        value = None if place is None else str(place)
        patch_views(patch, page, clicked_value=lambda _, value=value: value)
        bars["on_select"]()


@pytest.mark.parametrize(("kind", "units"), [("cross", "words"), ("encoder_self", "tokens")])
def test_a_cell_opens_inside_a_head_at_its_query_and_key(
    start_page: Start, run: TrainedRun, clickable: Clickable, changes: list[Any], kind: Any,
    units: Any,
) -> None:  # fmt: skip
    start_page("translate", kind=kind, layer="1", head="2", units=units, special="false", q=CATS)
    grid = make_grid(traced(run), kind, GridOptions(units=units, special=False))
    row, column = len(grid.rows) - 1, len(grid.columns) - 2
    clickable["large"]["cells"].on_cell(row, column)
    query, key = grid.row_spans[row].start, grid.column_spans[column].start
    chosen = {"inside": "scores", "query": query, "key": key, "kind": kind, "layer": 1, "head": 2}
    assert changes == [("inside", chosen)]


@pytest.mark.parametrize(
    ("kind", "way", "marked"),
    [("cross", "cell", {"column": 1}), ("decoder_self", "cell", {}), ("encoder_self", "row", {})],
)
def test_a_cell_that_answers_a_lesson_is_marked(
    start_page: Start,
    clickable: Clickable,
    changes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    way: str,
    marked: dict[str, int],
) -> None:
    def answer(given: str, *place: int) -> dict[str, Any]:
        return {"lesson_answer": place} if given == way else {}

    start_page("translate", q=CATS, kind=kind)
    patch_views(monkeypatch, "translate", answered=answer)
    clickable["large"]["cells"].on_cell(2, 1)
    place = (2, 1) if way == "cell" else (2,)
    assert changes == [{"lesson_answer": place} | marked]
    changes.clear()
    if kind == "encoder_self":  # whose rows are of no step of decoding
        assert clickable["large"]["cells"].on_row is None
    else:
        patch_views(monkeypatch, "translate", answered=lambda *_: {})
        clickable["large"]["cells"].on_row(2)
        assert changes == [{"at": 2, "below": "steps", "first_row": None}]


@pytest.mark.parametrize(
    ("kind", "column", "frames"), [("cross", "1", [[0.5, 1.5]]), ("decoder_self", "1", [])]
)
def test_a_token_of_the_source_frames_its_column(
    start_page: Start, kind: str, column: str, frames: list[list[float]]
) -> None:
    app = start_page("translate", q=CATS, kind=kind, column=column)
    assert not app.exception
    found = app.frames("large")
    assert [[each["x0"], each["x1"]] for each in found if each["xref"] == "x"] == frames


def test_a_token_marks_its_column_or_unmarks_it_or_chooses_its_step(
    start_page: Start, clickable: Clickable, changes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start_page("translate", q=CATS, column="1", at="2")
    assert clickable["source_tokens"]["chosen"] == 1
    assert clickable["target_tokens"]["chosen"] == 2
    patch_views(monkeypatch, "session", view=lambda: app.view)
    for place in (3, 1):
        clickable["source_tokens"]["on_click"](place)
    clickable["target_tokens"]["on_click"](4)
    assert changes == [{"column": 3}, {"column": None}, {"at": 4, "below": "steps"}]


def test_a_bar_of_the_likeliest_tokens_forces_it_unless_it_is_there_already(
    start_page: Start,
    run: TrainedRun,
    clickable: Clickable,
    changes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start_page("translate", q=CATS, at="1")
    trace = traced(run)
    ids = trace.predictions.top_ids[1].tolist()
    predicted = ids.index(trace.predicted.ids[1])
    other = 1 if predicted == 0 else 0
    click_bars(monkeypatch, "translate", clickable["top_tokens"], other, predicted, None)
    forced = {"at": 1, "fork": token_label(trace.top_tokens[1][other]), "below": "steps"}
    assert changes == [forced]


def test_a_neighbours_bar_looks_it_up(
    start_page: Start, clickable: Clickable, changes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_page("model", q=CATS, section="similarity", token="id:9")
    click_bars(monkeypatch, "model", clickable["neighbours"], 2, None)
    [chosen] = changes
    [figure] = clickable["neighbours"]["given"]
    label = unescape(figure.layout.yaxis.ticktext[2])
    app = start_page("model", q=CATS, section="similarity", **chosen)
    assert f"{label}: " in app.captions
