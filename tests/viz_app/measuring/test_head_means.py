"""The mean outputs of heads: of a padded batch as of each sentence, and their file."""

from __future__ import annotations

import numpy as np
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.training.processes import ALONE
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds
from headwise.viz_app.measuring.sums import MeanSums
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.viz_app.measuring.conftest import PAIRS


def test_means_are_over_the_positions_of_all_sentences_and_no_padding(run: TrainedRun) -> None:
    """Against weights times values of each sentence alone, as its trace has them."""
    model = load_weights(run, 20).model
    pairs = [
        EncodedPair(
            number,
            pair,
            run.tokenizers.encode_source(pair.source),
            run.tokenizers.encode_target(pair.target),
        )
        for number, pair in enumerate(PAIRS)
    ]
    assert len({len(pair.source) for pair in pairs}) > 1
    sums = MeanSums(model.description, torch.device("cpu"))
    for batch in (pairs[:2], pairs[2:]):
        sums.add(model, PaddedIds.of_pairs(batch, model))
    sums.all_reduce(ALONE)
    traces = [run_trace(model, run.tokenizers, p.pair.source, p.target) for p in pairs]
    for kind, found in sums.means().items():
        outputs = [
            (trace.attention[kind].astype(np.float64) @ trace.values[kind]) for trace in traces
        ]
        expected = np.concatenate(outputs, axis=2).mean(axis=2)
        assert_near(found, expected, dtype=np.float32, size=np.abs(expected).max(), operations=PASS)
    layer = run_layer_trace(model, traces[0], "cross", 1)
    assert found[1].shape == (layer.attention.n_heads, layer.attention.heads.shape[-1])
