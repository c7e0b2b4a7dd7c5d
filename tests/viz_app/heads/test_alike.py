"""Distances between heads are those of their maps, computed from traces; copies are at 0."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.interface import KINDS, Head, Kind
from headwise.model.tokenizer import TokenizerPair
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.alike.maps import heads_alike
from headwise.viz_app.measuring.sums import draws
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_rows_of_traces(
    run: TrainedRun, tokenizers: TokenizerPair, many_sentences: Sentences, kind: Kind
) -> None:
    """Between two checkpoints, from the head itself at another one, too."""
    model, other = (load_weights(run, step).model for step in (60, 20))
    head, rows, times = Head(kind, 1, 0), [], []
    for sentence in many_sentences.pairs:
        here, there = (
            run_trace(each, tokenizers, sentence.pair.source, tuple(sentence.target))
            for each in (model, other)
        )
        maps, others = here.attention[kind][1, 0], there.attention[kind]
        for row, weights in enumerate(maps.astype(np.float64)):
            n_keys = row + 1 if kind == "decoder_self" else maps.shape[-1]
            if n_keys > 1:
                even = np.where(np.arange(maps.shape[-1]) < n_keys, 1 / n_keys, 0)
                compared = [*others[:, :, row].reshape(-1, maps.shape[-1]), even]
                rows.append([jensenshannon(weights, each, base=2) for each in compared])
                times.append(draws([sentence.number])[0])
    expected = np.mean(rows, axis=0)
    resampled = np.transpose(times) @ rows / np.sum(times, axis=0)[:, None]
    errors = resampled.std(axis=0, ddof=1)
    found = heads_alike(model, many_sentences, head, load_weights(run, 20))
    shape = model.description.shapes[kind]
    for each in found.heads:
        place = np.ravel_multi_index((each.head.layer, each.head.head), shape)
        assert each.distance == near(expected[place], dtype=np.float32, size=1)
        assert each.error == near(errors[place], dtype=np.float32, size=1)
    assert len(found.heads) == np.prod(shape)
    assert found.even == near(expected[-1], dtype=np.float32, size=1)
    distances = [round(each.distance, 6) for each in found.heads]
    assert distances == sorted(distances)


def test_a_planted_copy_is_the_nearest(run: TrainedRun, many_sentences: Sentences) -> None:
    """Head 1 of the layer gets the queries and keys of head 3; the head itself is left out."""
    model = copy.deepcopy(load_weights(run, 60).model)
    attention = model.encoder.layers[0].self_attention
    heads = model.description.heads("encoder_self")
    for projection in (attention.query_projection, attention.key_projection):
        for parameter in projection.parameters():
            of_heads = parameter.data.unflatten(0, (heads, -1))
            of_heads[0] = of_heads[2]
    found = heads_alike(model, many_sentences, Head("encoder_self", 0, 2))
    nearest, second, *_ = found.heads
    assert nearest.head == Head("encoder_self", 0, 0)
    assert nearest.distance == near(0, dtype=np.float16, size=1)
    assert second.distance - 2 * second.error > nearest.distance + 2 * nearest.error
    assert Head("encoder_self", 0, 2) not in [each.head for each in found.heads]
    with pytest.raises(ValueError, match="no head cross"):
        heads_alike(model, many_sentences, Head("cross", 7, 0))
