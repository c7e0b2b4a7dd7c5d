"""What "Inside a head" computes is what the models compute: every head and row of a sentence."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from model.checkpoint import TrainedRun, load_weights, open_trained_run
from model.interface import KINDS, Kind
from model.transformer import Transformer
from tests.shipped import SHIPPED
from viz_app.analysis.inside import deviations
from viz_app.records.layer import LayerTrace
from viz_app.records.trace import Floats, Trace
from viz_app.trace.layer import run_layer_trace
from viz_app.trace.sentence import run_trace

CLOSE = 1e-5
OF_LARGE_NUMBERS = 2e-6
"""A float32 keeps about seven digits. The streams of the runs with pre-norm reach 190, and what
heads add to them 27: the last digits of these lie above ``CLOSE``."""


@cache
def opened(name: str) -> tuple[TrainedRun, Transformer, Trace]:
    """A run, its last model, and the trace of its first sample sentence."""
    run = open_trained_run(name)
    model = load_weights(run, run.steps()[-1]).model
    return run, model, run_trace(model, run.tokenizers, run.samples()[0]["source"])


def captured_large(layer: LayerTrace) -> dict[str, Floats]:
    """The steps whose numbers can be large, as the model computed them."""
    return {
        "layer output": layer.attention.output,
        "stream after attention": layer.attention.result,
        "stream after the feed-forward": layer.feed_forward.result,
    }


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
            step: max(CLOSE, OF_LARGE_NUMBERS * float(np.abs(array).max()))
            for step, array in captured_large(recorded).items()
        }
        for head in range(model.config.n_heads):
            for row in range(len(trace.queries_of(kind))):
                for step, deviation in deviations(recorded, head, row).items():
                    if not deviation <= limits.get(step, CLOSE):
                        too_far.append((layer, head, row, step, deviation))
    assert too_far == []
