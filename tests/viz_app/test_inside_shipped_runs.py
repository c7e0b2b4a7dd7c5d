"""What "Inside a head" computes is what the models compute: every head and row of a sentence."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import KINDS, Kind
from headwise.model.transformer import Transformer
from headwise.viz_app.analysis.inside import deviations
from headwise.viz_app.records.model import LayerTrace
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import rounding
from tests.shipped import SHIPPED

OPERATIONS = 8
"""The models compute in float64, but what is recorded of a layer, its input too, is rounded to
float32. A step is off by its own rounding, half an epsilon, and by that of its input, which passes
through one or two sums."""


@cache
def opened(name: str) -> tuple[TrainedRun, Transformer, Trace]:
    """A run, its last model, and the trace of its first sample sentence."""
    run = open_trained_run(name)
    model = load_weights(run, run.steps()[-1], torch.float64).model
    return run, model, run_trace(model, run.tokenizers, run.samples()[0]["source"])


def sizes(layer: LayerTrace) -> dict[str, float]:
    """The largest number of each step; weights are as far off, relatively, as scores are."""
    attention, feed_forward = layer.attention, layer.feed_forward
    scores = max(1, largest(attention.scores))
    return {
        "query": largest(attention.query),
        "keys": largest(attention.key),
        "scores": largest(attention.scores),
        "weights": scores,
        "head output": scores * largest(attention.value),
        "layer output": largest(attention.output),
        "stream after attention": largest(attention.result),
        "hidden units": largest(feed_forward.hidden),
        "stream after the feed-forward": largest(feed_forward.result),
    }


def largest(array: Floats) -> float:
    return float(np.abs(array).max())


def test_all_shipped_runs_are_looked_at() -> None:
    sizes = {len(opened(name)[2].source) for name in SHIPPED}
    assert min(sizes) > 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHIPPED)
def test_every_step_of_every_head_is_what_the_model_computed(name: str, kind: Kind) -> None:
    _, model, trace = opened(name)
    too_far = []
    for layer in range(model.config.n_decoder_layers):
        recorded = run_layer_trace(model, trace, kind, layer)
        limits = {
            step: rounding(np.float32, size, OPERATIONS) for step, size in sizes(recorded).items()
        }
        for head in range(model.config.n_heads):
            for row in range(len(trace.queries_of(kind))):
                for step, deviation in deviations(recorded, head, row).items():
                    if not deviation <= limits[step]:
                        too_far.append((layer, head, row, step, deviation))
    assert too_far == []
