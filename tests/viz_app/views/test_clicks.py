"""What clicks on tokens, cells and bars change, without a browser."""

from __future__ import annotations

from html import unescape
from types import ModuleType
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import token_label
from headwise.viz_app.views.embeddings import neighbours
from headwise.viz_app.views.translate import heads, step
from headwise.viz_app.views.translate import page as tokens
from tests.viz_app.views.driver import CATS, DOG, Start, captions, charts, traced, widget

Clickable = dict[str, dict[str, Any]]


@pytest.fixture
def clickable(monkeypatch: pytest.MonkeyPatch) -> Clickable:
    """What the page gives to components and charts, instead of to a browser, by key; the newest."""
    seen: Clickable = {}

    def keep(module: ModuleType, name: str) -> None:
        real = getattr(module, name)

        def record(*given: Any, **options: Any) -> None:
            seen[options["key"]] = {"given": given} | options
            real(*given, **options)

        monkeypatch.setattr(module, name, record)

    keep(heads, "map_cells")
    keep(tokens, "token_buttons")
    for module in (step, neighbours):
        keep(module, "show_figure")
    return seen


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the pages that clicks open, and what they choose."""
    seen: list[Any] = []
    for module in (heads, tokens, step, neighbours):
        monkeypatch.setattr(module, "change_view", lambda *_, **choices: seen.append(choices))
    for module in (heads, tokens):
        monkeypatch.setattr(module, "answered", lambda *_: {})  # no lesson is on
    monkeypatch.setattr(heads, "open_page", lambda page, **choices: seen.append((page, choices)))
    return seen


def click_bar(monkeypatch: pytest.MonkeyPatch, bar: dict[str, Any], place: int | None) -> None:
    """Click in the row of a bar; None: beside all bars."""
    for module in (step, neighbours):
        value = None if place is None else str(place)
        monkeypatch.setattr(module, "clicked_value", lambda _, value=value: value)
    bar["on_select"]()


@pytest.mark.parametrize("units", ["tokens", "words"])
@pytest.mark.parametrize("kind", ["cross", "encoder_self"])
def test_a_cell_opens_inside_a_head_at_its_query_and_key(
    start_page: Start, run: TrainedRun, clickable: Clickable, changes: list[Any], kind: Any,
    units: Any,
) -> None:  # fmt: skip
    start_page("translate", kind=kind, layer="1", head="2", units=units, special="false", q=CATS)
    grid = make_grid(traced(run), kind, GridOptions(units=units, special=False))
    row, column = len(grid.rows) - 1, len(grid.columns) - 2
    clickable["large_cells"]["on_cell"](row, column)
    query, key = grid.row_spans[row].start, grid.column_spans[column].start
    chosen = {"query": query, "key": key, "kind": kind, "layer": 1, "head": 2}
    assert changes == [("inside", chosen)]


@pytest.mark.parametrize(
    ("kind", "way", "marked"),
    [
        ("cross", "cell", {"column": 1}),
        ("decoder_self", "cell", {}),
        ("cross", "row", {"at": 2}),
        ("encoder_self", "row", {}),
    ],
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
    monkeypatch.setattr(heads, "answered", answer)
    clickable["large_cells"]["on_cell"](2, 1)
    place = (2, 1) if way == "cell" else (2,)
    assert changes == [{"lesson_answer": place} | marked]


def test_a_row_of_the_decoder_chooses_its_step_and_one_of_the_encoder_nothing(
    start_page: Start, clickable: Clickable, changes: list[Any]
) -> None:
    start_page("translate", q=CATS)
    clickable["large_cells"]["on_row"](2)
    assert changes == [{"at": 2, "below": "steps"}]
    start_page("translate", q=CATS, kind="encoder_self")
    assert clickable["large_cells"]["on_row"] is None


def column_frames(app: AppTest) -> list[list[float]]:
    """The columns of the large map that are framed."""
    shapes = charts(app)["large"]["layout"].get("shapes", [])
    return [[shape["x0"], shape["x1"]] for shape in shapes if shape.get("yref") == "y domain"]


@pytest.mark.parametrize(
    ("kind", "column", "frames"),
    [
        ("cross", "1", [[0.5, 1.5]]),
        ("encoder_self", "1", [[0.5, 1.5]]),
        ("decoder_self", "1", []),
        ("cross", "99", []),
        ("cross", "-1", []),
    ],
)
def test_a_token_of_the_source_frames_its_column(
    start_page: Start, kind: str, column: str, frames: list[list[float]]
) -> None:
    app = start_page("translate", q=CATS, kind=kind, column=column)
    assert not app.exception
    assert column_frames(app) == frames


def test_a_token_marks_its_column_or_unmarks_it_or_chooses_its_step(
    start_page: Start, clickable: Clickable, changes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = start_page("translate", q=CATS, column="1", at="2")
    assert clickable["source_tokens"]["chosen"] == 1
    assert clickable["target_tokens"]["chosen"] == 2
    monkeypatch.setattr(tokens, "view", lambda: app.session_state["session"].view)
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
    for place in (other, predicted, None):
        click_bar(monkeypatch, clickable["top_tokens"], place)
    assert changes == [{"fork": token_label(trace.top_tokens[1][other])}]


def test_a_neighbours_bar_looks_it_up(
    start_page: Start,
    clickable: Clickable,
    changes: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = start_page("embeddings", q=CATS, section="similarity", token="id:9")
    for place in (2, None):
        click_bar(monkeypatch, clickable["neighbours"], place)
    [chosen] = changes
    again = start_page("embeddings", q=CATS, section="similarity", **chosen)
    label = unescape(charts(app)["neighbours"]["layout"]["yaxis"]["ticktext"][2])
    assert f"{label}: " in captions(again)


def test_a_step_that_the_run_does_not_have_is_no_choice(start_page: Start) -> None:
    """A browser sends that of the run before with what is typed right after another is chosen."""
    app = start_page("translate", q=CATS, step="20")
    widget(app, "step").set_value(16_000)
    widget(app, "sentence").set_value(DOG).run()
    assert widget(app, "sentence").value == DOG
    assert widget(app, "step").value == 20
