"""The page Errors: sentences that may be translated badly, and pairs of translations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.measuring.pair_files import pairs_path, write_pairs
from headwise.viz_app.records.measures import FAILURES, Measures, TranslatedSentence
from headwise.viz_app.records.pairs import MeasuredPairs
from headwise.viz_app.session.vocabulary import token_name
from tests.viz_app.measures import PAIRS, SENTENCES, made_up_pairs
from tests.viz_app.pages.driver import (
    CATS,
    Calls,
    Start,
    array,
    break_file,
    patch_views,
    record_calls,
    row_names,
    table,
    without_weights,
)

PAGE = "errors"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The pages that clicks open, with what they choose there."""
    seen: list[tuple[str, dict[str, Any]]] = []
    patch_views(monkeypatch, PAGE, open_page=lambda page, **given: seen.append((page, given)))
    return seen


# Sentences


@pytest.mark.parametrize("name", FAILURES)
def test_sentences_are_listed_the_worst_first(
    start_page: Start, own_root: Path, measured: dict[int, Measures], lists: Calls, name: str
) -> None:
    start_page(PAGE, own_root, failure=name)
    figures = [translated.figures[name] for translated in measured[60].translated]
    order = sorted(range(2), key=lambda place: figures[place])  # two are alike in length
    assert row_names(lists, "failure_table") == [str(place) for place in order]
    worst, sentence = order[0], SENTENCES[order[0]]
    shown = [f"{figures[worst]:.2f}", sentence.source, f"_{worst}_", sentence.reference]
    assert table(lists, "failure_table")[0] == shown


@pytest.mark.parametrize(
    ("figures", "listed", "told"),
    [
        ([0.1, np.nan, 0.3, 0.2], ["0", "3", "2"], "is +0.50, 95% interval "),
        ([np.nan] * 4, [], "These measures have no share of the source; measure again."),
    ],
)
def test_an_order_of_failures_is_compared_with_chrf(
    start_page: Start,
    own_root: Path,
    measured: dict[int, Measures],
    lists: Calls,
    figures: list[float],
    listed: list[str],
    told: str,
) -> None:
    translated = tuple(
        TranslatedSentence("", {"log_probability": 0.5, "source_contribution": figure}, score)
        for figure, score in zip(figures, [10.0, 90.0, 20.0, 30.0], strict=True)
    )
    changed = replace(measured[60], sentences=SENTENCES * 2, translated=translated)
    write_measures(own_root / "tiny", changed)
    app = start_page(PAGE, own_root, failure="source_contribution")
    assert (row_names(lists, "failure_table") if "failure_table" in lists else []) == listed
    assert told in app.said


@pytest.mark.usefixtures("measured")
def test_a_link_with_an_old_failure_shows_the_first_and_a_row_opens_itself(
    start_page: Start, own_root: Path, lists: Calls, opened: list[tuple[str, dict[str, Any]]]
) -> None:
    app = start_page(PAGE, own_root, failure="coverage")
    assert lists["failure_table"]["given"][0][0] == "log-probability"
    assert "failure=coverage, which cannot be used here. Sorted by: log-prob" in app.said
    lists["failure_table"]["on_click"]("1")
    [(page, given)] = opened
    assert (page, given["sentence"], given["target"]) == ("translate", SENTENCES[1].source, "")


# Pairs


def measured_pairs(run: TrainedRun) -> MeasuredPairs:
    return made_up_pairs({step: load_weights(run, step).sha256 for step in (0, 20)})


@pytest.fixture
def start_pairs(start_page: Start, own_root: Path, run: TrainedRun) -> Start:
    """Open the pairs, with two of three checkpoints measured."""
    write_pairs(own_root / "tiny", measured_pairs(run), (0, 20))
    return partial(start_page, PAGE, own_root, **{"q": CATS, "step": "20", "errors": "pairs"})


def test_curves_and_failing_pairs(start_pairs: Start, lists: Calls) -> None:
    app = start_pairs()
    drawn = app.charts["pair_curves"]["data"][1::2]  # the others are chance
    assert [array(trace["y"]).tolist() for trace in drawn] == [[0.375, 0.75], [0.5, 1], [0.25, 0.5]]
    assert [trace["customdata"] for trace in drawn][2] == ["0,negation", "20,negation"]
    assert table(lists, "failing_pairs") == [
        ["negation", "He does not see.", "[key: No ve.]", "[key: Ve <b>.]", "-0.25"]
    ]
    assert "Not measured: step 60. To measure, in a terminal:" in app.said
    assert "-m headwise.viz_app.measure --run tiny --pairs shipped --checkpoints" in app.said
    app.choose(step=0)
    assert row_names(lists, "failing_pairs") == ["2", "0", "3"]
    app.choose(phenomenon="gender")
    assert row_names(lists, "failing_pairs") == ["0"]
    assert app.address["phenomenon"] == "gender"
    app.choose(step=20)
    assert "At step 20 none of these 2 pairs fails." in app.said
    app.choose(step=60)
    assert "The checkpoint of step 60 was not measured on pairs." in app.said


def test_heads_are_named_with_what_the_accuracy_loses(
    start_pairs: Start, lists: Calls, opened: list[tuple[str, dict[str, Any]]]
) -> None:
    told = " ".join(each.value for each in start_pairs().markdown)
    assert "It falls most without Cross 2.3: by 75.0 points (95% interval" in told
    assert "1 of them has an interval above 0; if no head counted, some 0." in told
    first, second = table(lists, "pair_heads")[:2]
    assert first[:3] == ["Cross 2.3", "0.0%", "+75.0"]
    assert second[:3] == ["Encoder self 1.1", "62.5%", "+12.5"]
    lists["pair_heads"]["on_click"]("0")
    [(_, given)] = opened
    assert [given[name] for name in ("step", "kind", "layer", "head")] == [20, "cross", 2, 3]


def test_a_click_on_a_mark_takes_its_checkpoint_and_lists_what_fails(
    start_pairs: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = record_calls(monkeypatch, PAGE, "show_figure")
    changes: list[dict[str, Any]] = []
    patch_views(monkeypatch, "session", change_view=lambda *_, **given: changes.append(given))
    start_pairs()
    for clicked in ("0,negation", "20,", None):
        patch_views(monkeypatch, PAGE, clicked_value=lambda _, clicked=clicked: clicked)
        calls["pair_curves"]["on_select"]()
    assert changes == [{"step": 0, "phenomenon": "negation"}, {"step": 20, "phenomenon": ""}]


def test_a_pair_is_asked_about_where_its_targets_part(
    start_pairs: Start, run: TrainedRun, lists: Calls, opened: list[tuple[str, dict[str, Any]]]
) -> None:
    start_pairs(step="0")
    lists["failing_pairs"]["on_click"]("0")
    lists["failing_pairs"]["on_click"]("2")
    right, wrong = (run.tokenizers.encode_target(text) for text in (PAIRS[0].right, PAIRS[0].wrong))
    parting = [a == b for a, b in zip(right, wrong, strict=False)].index(False)
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


def test_what_is_not_measured_or_broken_is_said(
    start_page: Start, start_pairs: Start, own_root: Path
) -> None:
    folder = own_root / "tiny"
    without_weights(folder, 0)
    assert start_pairs().charts["pair_curves"]["data"][1]["customdata"] == ["20,"]
    write_pairs(folder, made_up_pairs("other"), (0, 20))
    app = start_pairs()
    assert "Of step 20 the weights have changed since they were measured." in app.said
    assert "pair_curves" not in app.charts
    break_file(pairs_path(folder))
    [error] = start_pairs().errors
    assert "tiny/measures/pairs.json: not the accuracy on pairs, or damaged" in error
    pairs_path(folder).unlink()
    assert "Not measured yet: in which share of pairs" in start_pairs().said
