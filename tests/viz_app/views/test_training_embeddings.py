"""The room "embeddings" of the page Training, run without a browser on the tiny run."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from model.checkpoint import load_weights, open_run
from viz_app.analysis.drift import in_one_frame, pair_cosines, pairs_of
from viz_app.records import Floats
from viz_app.views.training import embeddings

CATS = "The cats don't see the dog."
STEPS = (0, 20, 60)


@pytest.fixture
def clouds(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the room gives to the component, instead of to a browser; the newest last."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(
        embeddings, "scatter", lambda cloud, **given: seen.append({"cloud": cloud} | given)
    )
    return seen


def tables(root: Path, side: str) -> list[Floats]:
    run = open_run("tiny", root=root)
    found = []
    for step in STEPS:
        model = load_weights(run, step).model
        stack = model.encoder if side == "source" else model.decoder
        found.append(stack.embedding.table.weight.numpy(force=True))
    return found


def lines(app: AppTest) -> Floats:
    """Cosines as they are drawn: (checkpoints, lines)."""
    [chart] = app.get("plotly_chart")
    written = [trace["y"] for trace in json.loads(chart.proto.spec)["data"]]
    return np.stack([np.frombuffer(base64.b64decode(y["bdata"]), y["dtype"]) for y in written], 1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_pairs_and_the_vocabulary_are_drawn_at_every_checkpoint(
    start_page: Callable[..., AppTest], clouds: list[dict[str, Any]], run_root: Path, side: str
) -> None:
    app = start_page("training", training="embeddings", q=CATS, side=side)
    assert not app.exception
    assert not app.error
    every, tokens = tables(run_root, side), app.multiselect(key="pair_tokens").value
    assert len(tokens) == 4
    np.testing.assert_allclose(lines(app), pair_cosines(every, pairs_of(tokens)), atol=1e-6)
    drawn = clouds[-1]
    ids = np.arange(len(every[0]))  # all occur equally often here
    points, _ = in_one_frame([table[ids] for table in every], every[-1][ids])
    np.testing.assert_allclose(drawn["frames"].points, points, atol=1e-5)
    np.testing.assert_array_equal(drawn["cloud"].points, drawn["frames"].points[-1])
    assert drawn["frames"].names == ["step 0", "step 20", "step 60"]
    assert [int(ids[place]) for place in drawn["searched"]] == tokens


def test_another_frame_and_other_tokens(
    start_page: Callable[..., AppTest], clouds: list[dict[str, Any]], run_root: Path
) -> None:
    app = start_page("training", training="embeddings", q=CATS)
    app.select_slider(key="moving_frame").set_value(0).run()
    every = tables(run_root, "source")
    points, _ = in_one_frame(every, every[0])
    np.testing.assert_allclose(clouds[-1]["frames"].points, points, atol=1e-5)
    app.multiselect(key="pair_tokens").set_value([7]).run()
    assert "Choose two tokens or more." in [info.value for info in app.info]
    assert not app.exception


def test_a_run_with_one_checkpoint_says_that_there_is_nothing_to_follow(
    start_page: Callable[..., AppTest], own_root: Path
) -> None:
    for step in STEPS[:-1]:
        (own_root / "tiny" / f"step-{step:07d}.safetensors").unlink()
    app = start_page("training", own_root, training="embeddings", q=CATS)
    [info] = app.info
    assert info.value.startswith("This run has one checkpoint only")


def test_tokens_are_there_again_after_another_room(start_page: Callable[..., AppTest]) -> None:
    app = start_page("training", training="embeddings", q=CATS)
    tokens = app.multiselect(key="pair_tokens").value
    assert len(tokens) > 1
    app.segmented_control(key="training").set_value("curves").run()
    app.segmented_control(key="training").set_value("embeddings").run()
    assert app.multiselect(key="pair_tokens").value == tokens
