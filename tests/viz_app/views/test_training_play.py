"""The section "play" of the page Training, run without a browser on the tiny run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun, weights_path
from headwise.viz_app.analysis.grid import GridOptions, make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.components.player import MapAnimation
from headwise.viz_app.views.training import play
from tests.floats import rounding
from tests.viz_app.views.driver import STEPS, Start, assert_drawn, break_file, errors, traced

PAGE, ADDRESS = "training", {"training": "play"}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[MapAnimation, dict[str, Any]]]:
    """What the page gives to the component, instead of to a browser; the newest last."""
    seen: list[tuple[MapAnimation, dict[str, Any]]] = []
    monkeypatch.setattr(play, "player", lambda animation, **given: seen.append((animation, given)))
    return seen


def test_a_head_is_played_through_all_checkpoints_on_one_target(
    start: Start, shown: list[tuple[MapAnimation, dict[str, Any]]], run: TrainedRun
) -> None:
    app = start(kind="decoder_self", layer="2", head="3")
    assert errors(app) == []
    animation, given = shown[-1]
    target = traced(run).target_ids
    expected = [
        traced(run, step=s, target=target).attention["decoder_self"][1:2, 2:3] for s in STEPS
    ]
    assert_drawn(animation.maps, np.stack(expected))
    grid = make_grid(traced(run), "decoder_self")
    assert (animation.rows, animation.columns) == (grid.rows, grid.columns)
    np.testing.assert_array_equal(animation.allowed, grid.allowed)
    assert (animation.selected, given["start"], given["language"]) == (None, 60, "es")


def test_each_step_s_own_translation_runs_along(
    start: Start, shown: list[tuple[MapAnimation, dict[str, Any]]], run: TrainedRun
) -> None:
    start()
    animation, _ = shown[-1]
    target = traced(run).target_ids
    assert tuple(frame.step for frame in animation.frames) == STEPS
    for frame in animation.frames:
        own, given = traced(run, step=frame.step), traced(run, step=frame.step, target=target)
        assert list(frame.tokens) == token_labels(own.predicted)
        expected = np.exp(own.predictions.log_probability)
        assert_drawn(frame.probabilities, expected)
        totals = [float(t.predictions.log_probability.sum()) for t in (own, given)]
        found = [float(n) for n in re.findall(r"(-?\d+\.\d+) nats", frame.score)]
        off = 0.005 + rounding(np.float32, max(map(abs, totals)))  # half a unit, and another pass
        np.testing.assert_allclose(found, totals, rtol=0, atol=off)


def test_all_heads_are_played_by_words(
    start: Start, shown: list[tuple[MapAnimation, dict[str, Any]]], run: TrainedRun
) -> None:
    app = start(playing="all", units="words", layer="1", head="2")
    assert errors(app) == []
    animation, _ = shown[-1]
    target = traced(run).target_ids
    traces = [traced(run, step=step, target=target) for step in STEPS]
    grid = make_grid(traces[0], "cross", GridOptions("words"))
    expected = np.stack([grid.apply(trace.attention["cross"]) for trace in traces])
    assert_drawn(animation.maps, expected)
    assert animation.selected == (0, 1)


def test_a_long_translation_is_cut(
    start: Start, shown: list[tuple[MapAnimation, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "_MOST_TOKENS", 3)
    start()
    frame = shown[-1][0].frames[-1]
    assert len(frame.tokens) == len(frame.probabilities) == 3
    assert frame.tokens[-1] == "…"


def test_a_broken_checkpoint_is_left_out_and_named(
    start: Start, shown: list[tuple[MapAnimation, dict[str, Any]]], own_root: Path
) -> None:
    path = weights_path(own_root / "tiny", 20)
    break_file(path)
    app = start(own_root)
    assert errors(app) == []
    [warning] = app.warning
    assert warning.value.startswith("Step 20 is left out")
    assert [frame.step for frame in shown[-1][0].frames] == [0, 60]
    assert shown[-1][0].maps.shape[0] == 2


def test_the_component_itself_can_be_mounted(opened: AppTest) -> None:
    assert errors(opened) == []


def test_a_note_names_pooling() -> None:
    assert "the largest of 2 × 2" in play._note((12, 3, 4, 90, 90))
    assert "largest" not in play._note((12, 1, 1, 90, 90))
