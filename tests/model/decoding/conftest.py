"""A model of which some targets end early and others reach their limit, and sources for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headwise.model.config import EOS
from headwise.model.transformer import Transformer


@pytest.fixture(scope="session")
def model(make_model: Callable[..., Transformer]) -> Transformer:
    """Return a tiny model with a bias on ``</s>``, in float64: no two tokens are nearly tied."""
    model = make_model(output_bias=True, tied="none").double()
    with torch.no_grad():
        model.unembedding.bias[EOS] += 1
    return model


@pytest.fixture(scope="session")
def sources(make_ids: Callable[..., Tensor]) -> list[list[int]]:
    return [[*row[row != 0].tolist(), EOS] for row in make_ids([7, 2, 5, 1, 11, 3], 37)]
