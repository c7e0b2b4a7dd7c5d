"""Accuracy on pairs on the page Errors, and the pairs that fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.measuring.pair_files import pairs_path, write_pairs
from headwise.viz_app.records.pairs import MeasuredPairs
from headwise.viz_app.session.vocabulary import token_name
from tests.viz_app.measures import PAIRS, made_up_pairs
from tests.viz_app.pages.driver import (
    CATS,
    Page,
    Start,
    array,
    break_file,
    patch_views,
    record_calls,
    row_names,
    table,
    unescaped,
    without_weights,
)

PAGE = "errors"
ADDRESS = {"q": CATS, "step": "20", "errors": "pairs"}


def measured(run: TrainedRun) -> MeasuredPairs:
    return made_up_pairs({step: load_weights(run, step).sha256 for step in (0, 20)})


@pytest.fixture
def root(own_root: Path, run: TrainedRun) -> Path:
    """With two of three checkpoints measured."""
    write_pairs(own_root / "tiny", measured(run), (0, 20))
    return own_root


def said(app: Page) -> str:
    parts = [*app.caption, *app.code, *app.info, *app.markdown]
    return unescaped(" ".join(part.value for part in parts))


def test_curves_and_failing_pairs(
    start: Start, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls(monkeypatch, "errors", "row_table")
    app = start(root)
    drawn = app.charts["pair_curves"]["data"][1::2]  # the others are chance
    assert [array(trace["y"]).tolist() for trace in drawn] == [[0.375, 0.75], [0.5, 1], [0.25, 0.5]]
    assert [trace["customdata"] for trace in drawn][2] == ["0,negation", "20,negation"]
    assert table(calls, "failing_pairs") == [
        ["negation", "He does not see.", "[key: No ve.]", "[key: Ve <b>.]", "-0.25"]
    ]
    assert "At step 20, 1 of 4 pairs fail" in said(app)
    assert "Not measured: step 60. To measure, in a terminal:" in said(app)
    assert "-m headwise.viz_app.measure --run tiny --pairs shipped --checkpoints" in said(app)
    app.choose(step=0)
    assert row_names(calls, "failing_pairs") == ["2", "0", "3"]
    app.choose(phenomenon="gender")
    assert row_names(calls, "failing_pairs") == ["0"]
    assert app.address["phenomenon"] == "gender"
    app.choose(step=20)
    assert "At step 20 none of these 2 pairs fails." in said(app)
    app.choose(step=60)
    assert "The checkpoint of step 60 was not measured on pairs." in said(app)


def test_heads_are_named_with_what_the_accuracy_loses(
    start: Start, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls(monkeypatch, "errors", "row_table")
    app = start(root)
    assert "At step 20 the accuracy on all pairs is 75.0%. 18 heads were switched off" in said(app)
    assert "It falls most without Cross 2.3: by 75.0 points (95% interval" in said(app)
    assert "1 of them has an interval above 0; if no head counted, some 0." in said(app)
    first, second = table(calls, "pair_heads")[:2]
    assert (first[0], first[1], first[2]) == ("Cross 2.3", "0.0%", "+75.0")
    assert second[:3] == ["Encoder self 1.1", "62.5%", "+12.5"]
    opened: list[Any] = []
    patch_views(monkeypatch, "errors", open_page=lambda page, **given: opened.append(given))
    start(root)
    calls["pair_heads"]["on_click"]("0")
    assert opened[0]["kind"], opened[0]["layer"] == ("cross", 2)
    assert (opened[0]["step"], opened[0]["head"]) == (20, 3)


def test_a_click_on_a_mark_takes_its_checkpoint_and_lists_what_fails(
    start: Start, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls(monkeypatch, "errors", "show_figure")
    changes: list[dict[str, Any]] = []
    patch_views(monkeypatch, "session", change_view=lambda *_, **given: changes.append(given))
    start(root)
    for clicked in ("0,negation", "20,", None):
        patch_views(monkeypatch, "errors", clicked_value=lambda _, clicked=clicked: clicked)
        calls["pair_curves"]["on_select"]()
    assert changes == [{"step": 0, "phenomenon": "negation"}, {"step": 20, "phenomenon": ""}]


def test_a_pair_is_asked_about_where_its_targets_part(
    start: Start, root: Path, run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls(monkeypatch, "errors", "row_table")
    opened: list[Any] = []
    patch_views(monkeypatch, "errors", open_page=lambda page, **given: opened.append((page, given)))
    start(root, step="0")
    calls["failing_pairs"]["on_click"]("0")
    calls["failing_pairs"]["on_click"]("2")
    right, wrong = (run.tokenizers.encode_target(text) for text in (PAIRS[0].right, PAIRS[0].wrong))
    parting = [a == b for a, b in zip(right, wrong, strict=False)].index(False)
    assert right[:parting] == wrong[:parting]
    (page, given), (_, alone) = opened
    assert page == "why"
    assert given == {
        "sentence": "The old dog.",
        "target": "El perro viejo.",
        "at": parting - 1,
        "instead": token_name(wrong[parting]),
        "why": "two sentences",
        "other": "The old cat.",  # of which the other word is right
        "parting": parting - 1,
        "first_word": token_name(right[parting]),
        "second_word": token_name(wrong[parting]),
    }
    assert alone.keys() == {"sentence", "target", "at", "instead"}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("none", "Not measured yet: in which share of pairs"),
        ("stale", "Of step 0, 20 the weights have changed since they were measured."),
        ("missing", "Not measured: step 60."),
    ],
)
def test_what_is_not_measured_is_said(
    start: Start, own_root: Path, run: TrainedRun, state: str, expected: str
) -> None:
    folder = own_root / "tiny"
    if state != "none":
        found = measured(run) if state == "missing" else made_up_pairs("other")
        write_pairs(folder, found, (0, 20))
    app = start(own_root)
    assert expected in said(app)
    assert ("pair_curves" in app.charts) == (state == "missing")


def test_a_broken_file_and_missing_weights_do_not_stop_the_page(start: Start, root: Path) -> None:
    without_weights(root / "tiny", 0)
    app = start(root)
    assert app.charts["pair_curves"]["data"][1]["customdata"] == ["20,"]
    break_file(pairs_path(root / "tiny"))
    app = start(root)
    [error] = app.errors
    assert "tiny/measures/pairs.json: not the accuracy on pairs, or damaged" in error
