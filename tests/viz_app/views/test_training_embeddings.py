"""The section "embeddings" of the page Training, run without a browser on the tiny run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.analysis.embeddings import all_pairs, pair_cosines, project_together
from headwise.viz_app.records.trace import Floats
from tests.floats import assert_near
from tests.viz_app.views.driver import (
    CATS,
    STEPS,
    Start,
    array,
    charts,
    choose,
    embedding_table,
    errors,
    widget,
)

PAGE, ADDRESS = "training", {"training": "embeddings"}


def lines(app: AppTest) -> Floats:
    """Return the cosines as they are drawn: (checkpoints, lines)."""
    [figure] = charts(app).values()
    return np.stack([array(trace["y"]) for trace in figure["data"]], 1)


@pytest.mark.parametrize("side", ["source", "target"])
def test_pairs_and_the_vocabulary_are_drawn_at_every_checkpoint(
    start: Start, clouds: list[dict[str, Any]], run: TrainedRun, side: str
) -> None:
    app = start(q=CATS, side=side)
    assert errors(app) == []
    every = [embedding_table(run, side, step=step) for step in STEPS]
    names = widget(app, "pair_tokens").value
    tokens = [int(name.removeprefix("id:")) for name in names]
    assert len(tokens) == 4
    assert_near(lines(app), pair_cosines(every, all_pairs(tokens)), dtype=np.float32, size=1)
    drawn = clouds[-1]
    ids = np.arange(len(every[0]))  # all occur equally often here
    points, _ = project_together([table[ids] for table in every], every[-1][ids])
    assert_near(drawn["frames"].points, points, dtype=np.float32)
    np.testing.assert_array_equal(drawn["cloud"].points, drawn["frames"].points[-1])
    assert drawn["frames"].names == ["step 0", "step 20", "step 60"]
    assert [int(ids[place]) for place in drawn["searched"]] == tokens


def test_another_frame_and_other_tokens(
    start: Start, clouds: list[dict[str, Any]], run: TrainedRun
) -> None:
    app = start(q=CATS)
    choose(app, moving_frame=0)
    every = [embedding_table(run, "source", step=step) for step in STEPS]
    points, _ = project_together(every, every[0])
    assert_near(clouds[-1]["frames"].points, points, dtype=np.float32)
    choose(app, pair_tokens=["id:7"])
    assert "Choose two tokens or more." in [info.value for info in app.info]
    assert errors(app) == []


def test_a_run_with_one_checkpoint_says_that_there_is_nothing_to_follow(
    start: Start, own_root: Path
) -> None:
    for step in STEPS[:-1]:
        (own_root / "tiny" / f"step-{step:07d}.safetensors").unlink()
    app = start(own_root, q=CATS)
    [info] = app.info
    assert info.value.startswith("This run has one checkpoint only")


def test_tokens_are_there_again_after_another_section(start: Start) -> None:
    app = start(q=CATS)
    tokens = widget(app, "pair_tokens").value
    assert len(tokens) > 1
    choose(app, training="curves")
    choose(app, training="embeddings")
    assert widget(app, "pair_tokens").value == tokens
