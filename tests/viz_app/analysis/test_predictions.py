"""The lens, and temperature, top-k and top-p against the rule of decoding and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from headwise.model.decoding.translation import nucleus
from headwise.viz_app.analysis.predictions import agreement, close_positions, read_lens, sampled
from headwise.viz_app.records.trace import Tokens, Trace, Word
from tests.floats import assert_near


def test_lens_by_hand(trace: Trace) -> None:
    """Two layers, T = 3 steps, k = 2: the actual tokens are 5, 6, 7."""
    ids = np.array([[[9, 5], [6, 1], [1, 2]], [[5, 9], [9, 6], [1, 2]], [[5, 1], [6, 1], [2, 7]]])
    p = np.array([0.5, 0.25], np.float32) * np.arange(1, 4, dtype=np.float32)[:, None, None] / 2
    log_p = np.log(np.broadcast_to(p, ids.shape))
    predictions = replace(trace.predictions, lens_ids=ids, lens_log_probability=log_p)
    tokens = tuple(tuple(tuple(f" p{i}" for i in row) for row in layer) for layer in ids.tolist())
    predicted = Tokens((5, 6, 7), ("a", "b", "c"), tuple(Word("a", i, i + 1) for i in range(3)))
    small = replace(trace, predictions=predictions, lens_tokens=tokens, predicted=predicted)
    lens = read_lens(small)
    assert lens.labels == (("p9", "p5", "p5"), ("p6", "p9", "p6"), ("p1", "p1", "p2"))
    assert lens.actual.tolist() == [[False, True, True], [True, False, True], [False] * 3]
    assert_near(lens.probabilities, [[0.25, 0.5, 0.75]] * 3)
    assert lens.notes[0][1] == "p5  0.500\np9  0.250"
    assert read_lens(small, count=1).notes[2][2] == "p2  0.750"


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "expected"),
    [
        (1, 0, 1, [0.125, 0.5, 0.125, 0.25]),
        (0.5, 0, 1, np.array([1, 16, 1, 4]) / 22),
        (1, 2, 1, [0, 2 / 3, 0, 1 / 3]),
        (1, 0, 0.74, [0, 2 / 3, 0, 1 / 3]),
        (1, 0, 0.76, np.array([1, 4, 0, 2]) / 7),
        (1, 2, 0.6, [0, 1, 0, 0]),  # of the two that are kept, the first has 2/3
        (1, 0, 0.1, [0, 1, 0, 0]),
    ],
)
def test_samples_by_hand(
    temperature: float, top_k: int, top_p: float, expected: list[float]
) -> None:
    halves = np.log(np.array([0.125, 0.5, 0.125, 0.25]))
    found = sampled(halves, temperature=temperature, top_k=top_k, top_p=top_p)
    assert_near(found, expected)


@pytest.mark.parametrize("temperature", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("top_p", [0.3, 0.9, 1.0])
def test_without_top_k_it_is_what_decoding_draws_from(temperature: float, top_p: float) -> None:
    logits = torch.randn(1, 37, generator=torch.Generator().manual_seed(0)).double() * 3
    ids, probability = nucleus(logits, temperature=temperature, top_p=top_p)
    expected = np.zeros(37)
    expected[ids[0].numpy()] = probability[0].numpy()
    given = logits[0].log_softmax(-1).numpy()
    found = sampled(given, temperature=temperature, top_k=0, top_p=top_p)
    assert_near(found, expected, size=np.abs(given).max() / temperature)


def test_close_positions_have_two_tokens_of_almost_the_same_probability(trace: Trace) -> None:
    top = np.log([[0.5, 0.41, 0.01], [0.5, 0.39, 0.01], [0.9, 0.05, 0.01], [0.3, 0.3, 0.3]])
    predictions = replace(trace.predictions, top_log_probability=top.astype(np.float32))
    assert close_positions(predictions, within=0.1) == [0, 3]


def test_texts_are_near_to_what_the_model_writes_or_to_nothing() -> None:
    assert agreement(["el gato", "la casa"], ["el gato", "la casa"]) == pytest.approx(100)
    assert agreement(["xyz"], ["el gato"]) == 0
    assert agreement(["el gato", ""], ["", ""]) is None
