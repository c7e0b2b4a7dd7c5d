"""Temperature, top-k and top-p, against the rule of decoding and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.model.decoding.sampling import nucleus
from headwise.viz_app.analysis.predictions import entropy, sampled
from tests.floats import assert_near, near

HALVES = np.log(np.array([0.125, 0.5, 0.125, 0.25]))


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
def test_settings_by_hand(
    temperature: float, top_k: int, top_p: float, expected: list[float]
) -> None:
    found = sampled(HALVES, temperature=temperature, top_k=top_k, top_p=top_p)
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


def test_entropy_is_the_logarithm_of_how_many_are_alike() -> None:
    assert entropy(np.array([0.25, 0.25, 0.25, 0.25, 0])) == near(np.log(4))
    assert entropy(np.array([1.0, 0])) == 0
