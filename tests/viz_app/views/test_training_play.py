"""The room play of the page Training, run without a browser on the tiny run."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.checkpoint import Run, load_weights, weights_path
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import piece_labels
from viz_app.components.player import Film
from viz_app.records import Trace
from viz_app.trace import run_trace
from viz_app.views.training import play

CATS = "The cats don't see the dog."
STEPS = (0, 20, 60)

Start = Callable[..., AppTest]


@pytest.fixture
def start(start_page: Callable[..., AppTest]) -> Start:
    """Open the room."""
    return partial(start_page, "training", training="play")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Film, dict[str, Any]]]:
    """What the room gives to the component, instead of to a browser; the newest last."""
    seen: list[tuple[Film, dict[str, Any]]] = []
    monkeypatch.setattr(play, "player", lambda film, **given: seen.append((film, given)))
    return seen


def traced(run: Run, step: int, target: tuple[int, ...] | None = None) -> Trace:
    return run_trace(load_weights(run, step).model, run.tokenizers, CATS, target)


def errors(app: AppTest) -> list[str]:
    assert not app.exception
    return [error.value for error in app.error]


def test_a_head_is_played_through_all_checkpoints_on_one_target(
    start: Start, shown: list[tuple[Film, dict[str, Any]]], run: Run
) -> None:
    app = start(kind="Decoder self", layer="2", head="3")
    assert errors(app) == []
    film, given = shown[-1]
    target = traced(run, 60).target_ids
    expected = [traced(run, s, target).attention["decoder_self"][1:2, 2:3] for s in STEPS]
    np.testing.assert_allclose(film.maps, np.stack(expected), atol=1e-6)
    grid = make_grid(traced(run, 60), "decoder_self")
    assert (film.rows, film.columns) == (grid.rows, grid.columns)
    np.testing.assert_array_equal(film.allowed, grid.allowed)
    assert (film.selected, given["start"], given["language"]) == (None, 60, "es")


def test_each_step_s_own_translation_runs_along(
    start: Start, shown: list[tuple[Film, dict[str, Any]]], run: Run
) -> None:
    start()
    film, _ = shown[-1]
    target = traced(run, 60).target_ids
    assert tuple(frame.step for frame in film.frames) == STEPS
    for frame in film.frames:
        own, given = traced(run, frame.step), traced(run, frame.step, target)
        assert list(frame.pieces) == piece_labels(own.predicted)
        expected = np.exp(own.predictions.log_probability)
        np.testing.assert_allclose(frame.probabilities, expected, atol=1e-5)
        totals = [float(t.predictions.log_probability.sum()) for t in (own, given)]
        found = [float(n) for n in re.findall(r"(-?\d+\.\d+) nats", frame.score)]
        np.testing.assert_allclose(found, totals, atol=0.006)


def test_all_heads_are_played_by_words(
    start: Start, shown: list[tuple[Film, dict[str, Any]]], run: Run
) -> None:
    app = start(playing="all heads", units="words", layer="1", head="2")
    assert errors(app) == []
    film, _ = shown[-1]
    target = traced(run, 60).target_ids
    traces = [traced(run, step, target) for step in STEPS]
    grid = make_grid(traces[0], "cross", Reading("words"))
    expected = np.stack([grid.apply(trace.attention["cross"]) for trace in traces])
    np.testing.assert_allclose(film.maps, expected, atol=1e-6)
    assert film.selected == (0, 1)


def test_a_long_translation_is_cut(
    start: Start,
    shown: list[tuple[Film, dict[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(play, "_MOST_PIECES", 3)
    start()
    frame = shown[-1][0].frames[-1]
    assert len(frame.pieces) == len(frame.probabilities) == 3
    assert frame.pieces[-1] == "…"


def test_a_broken_checkpoint_is_left_out_and_named(
    start: Start, shown: list[tuple[Film, dict[str, Any]]], own_root: Path
) -> None:
    path = weights_path(own_root / "tiny", 20)
    path.write_bytes(path.read_bytes()[:-100])
    app = start(own_root)
    assert errors(app) == []
    [warning] = app.warning
    assert warning.value.startswith("Step 20 is left out")
    assert [frame.step for frame in shown[-1][0].frames] == [0, 60]
    assert shown[-1][0].maps.shape[0] == 2


def test_the_component_itself_can_be_mounted(start: Start) -> None:
    assert errors(start()) == []


def test_a_pooled_film_says_so() -> None:
    assert "the largest of 2 × 2" in play._note((12, 3, 4, 90, 90))
    assert "largest" not in play._note((12, 1, 1, 90, 90))
