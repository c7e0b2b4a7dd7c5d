"""Sentences that may be translated badly, on the page Errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.viz_app.errors.sentences.failures import FAILURE_DESCRIPTIONS
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.records.measures import FAILURES, Measures, TranslatedSentence
from tests.viz_app.measures import SENTENCES
from tests.viz_app.pages.driver import Calls, Start, patch_views, row_names, table

PAGE = "errors"


@pytest.fixture
def start(start_page: Start, own_root: Path, measured: dict[int, Measures]) -> Start:
    """Open the page Errors on ``own_root``."""
    return partial(start_page, "errors", own_root)


@pytest.mark.parametrize("name", FAILURES)
def test_sentences_are_listed_the_worst_first(
    start: Start, measured: dict[int, Measures], lists: Calls, name: str
) -> None:
    app = start(failure=name)
    figures = [translated.figures[name] for translated in measured[60].translated]
    order = sorted(range(2), key=lambda place: figures[place])  # two are alike in length
    assert row_names(lists, "failure_table") == [str(place) for place in order]
    worst, sentence = order[0], SENTENCES[order[0]]
    shown = [f"{figures[worst]:.2f}", sentence.source, f"_{worst}_", sentence.reference]
    assert table(lists, "failure_table")[0] == shown
    assert FAILURE_DESCRIPTIONS[name].blind in app.captions


@pytest.mark.parametrize(
    ("figures", "listed", "told"),
    [
        ([0.1, np.nan, 0.3, 0.2], ["0", "3", "2"], "is +0.50, 95% interval "),
        ([np.nan] * 4, [], "These measures have no share of the source; measure again."),
    ],
)
def test_an_order_of_failures_is_compared_with_chrf(
    start: Start,
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
    app = start(failure="source_contribution")
    assert (row_names(lists, "failure_table") if "failure_table" in lists else []) == listed
    assert told in app.said


@pytest.mark.parametrize("name", ["coverage", "combined", "left_out"])
def test_a_link_with_an_old_failure_shows_the_first(start: Start, lists: Calls, name: str) -> None:
    app = start(failure=name)
    assert lists["failure_table"]["given"][0][0] == "log-probability"
    assert f"failure={name}, which cannot be used here. Sorted by: log-probability." in app.said


def test_a_row_opens_itself(start: Start, lists: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    patch_views(monkeypatch, "errors", open_page=lambda _, **given: opened.append(given))
    start()
    lists["failure_table"]["on_click"]("1")
    assert (opened[0]["sentence"], opened[0]["target"]) == (SENTENCES[1].source, "")
