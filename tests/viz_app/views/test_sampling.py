"""Temperature, top-k and top-p at a step of Translate, without a browser."""

from __future__ import annotations

import numpy as np

from headwise.model.checkpoint import TrainedRun
from tests.viz_app.views.driver import (
    CATS,
    Start,
    array,
    assert_drawn,
    captions,
    charts,
    choose,
    errors,
    traced,
)

AT = {"q": CATS, "below": "steps", "at": "1"}


def test_sampling_changes_the_probabilities_of_the_step(start_page: Start, run: TrainedRun) -> None:
    trace = traced(run)
    app = start_page("translate", **AT)
    assert "sampled" not in charts(app)
    app = choose(app, sampling=True)
    likeliest = np.exp(trace.predictions.top_log_probability[1])
    drawn = charts(app)["sampled"]["data"][0]
    assert_drawn(array(drawn["x"])[: len(likeliest)], likeliest[:10])
    app = choose(app, top_k=2, temperature=0.5)
    squares = likeliest[:2].astype(np.float64) ** 2
    drawn = charts(app)["sampled"]["data"][0]
    assert_drawn(array(drawn["x"])[:2], squares / squares.sum())
    assert f"2 of {run.description.target_vocab_size} tokens can be drawn" in captions(app)
    assert app.query_params["top_k"] in ("2", ["2"])


def test_settings_that_no_slider_has_are_named(start_page: Start) -> None:
    app = start_page("translate", **AT, sampling="true", temperature="-1", top_p="nan")
    assert errors(app) == []
    (warning,) = app.warning
    assert "temperature" in warning.value.replace("\\", "")
    assert "top_p" in warning.value.replace("\\", "")
