"""The largest numbers of streams are found where they are, whatever stands beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture, edit
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds
from headwise.viz_app.measuring.checkpoint_measures import (
    largest_by_chance,
    largest_numbers,
    largest_ratios,
)
from tests.floats import near


def test_a_planted_number_is_found() -> None:
    stream = np.ones((3, 4, 5), dtype=np.float32)
    stream[1, 2, 3] = -50
    found = largest_numbers(stream)
    assert found.ratios.tolist() == [[1] * 4, [1, 1, 50, 1], [1] * 4]
    assert found.dimensions[1, 2] == 3


def test_chance_is_what_normal_numbers_have() -> None:
    drawn = np.abs(np.random.default_rng(0).normal(size=(2_000, 400)))
    ratios = drawn.max(axis=1) / np.median(drawn, axis=1)
    assert np.median(ratios) == pytest.approx(largest_by_chance(400), rel=0.02)
    assert largest_by_chance(1) == near(1)


def test_largest_numbers_of_each_sentence(run: TrainedRun, sentences: list[EncodedPair]) -> None:
    """Also where sentences are padded, and one number of one layer has been made large."""
    model = load_weights(run, 20).model
    point, *later = [f"decoder.layers.{layer}.output" for layer in range(len(model.decoder.layers))]

    def enlarge(stream: torch.Tensor) -> torch.Tensor:
        stream = stream.clone()
        stream[:, 0, 1] = 1_000
        return stream

    with edit(model, {point: enlarge}):
        found = largest_ratios(model, PaddedIds.of_pairs(sentences, model))
        for row, sentence in enumerate(sentences):
            ids = PaddedIds.of_pairs([sentence], model)
            with capture(model, [point, *later]) as seen, torch.inference_mode():
                forced_stream(model, ids.source, ids.target[:, :-1])
            layers = [seen[name][0].abs().flatten() for name in (point, *later)]
            expected = max(float(sizes.max() / np.median(sizes)) for sizes in layers)
            largest = found["largest_decoder"][row]
            assert largest == near(expected, dtype=torch.float32, operations=9)
            assert largest > 100 > found["largest_encoder"][row] > 1


def test_a_stream_of_zeros_has_none() -> None:
    assert math.isnan(float(largest_numbers(np.zeros((1, 2, 2), np.float32)).ratios[0, 0]))
