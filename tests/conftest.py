"""Tiny models for every test: prime dimensions, so that a transposed axis cannot pass by luck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import settings
from torch import Tensor

from model.config import EOS, TransformerConfig
from model.transformer import Transformer

torch.set_num_threads(1)

settings.register_profile(
    "project", deadline=None, derandomize=True, database=None, max_examples=25
)
settings.load_profile("project")


def _config(**changes: Any) -> TransformerConfig:
    values: dict[str, Any] = {
        "source_vocab_size": 37,
        "target_vocab_size": 41,
        "n_layers": 2,
        "n_heads": 3,
        "d_k": 5,
        "d_model": 14,
        "d_ff": 23,
        "tied": "output",
        "max_length": 31,
    }
    return TransformerConfig(**(values | changes))


def _model(**changes: Any) -> Transformer:
    torch.manual_seed(7)
    model = Transformer(_config(**changes))
    with torch.no_grad():
        for parameter in model.parameters():  # else biases are all 0 and norms all 1
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def _ids(lengths: Sequence[int], vocab_size: int, *, seed: int = 11) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(EOS + 1, vocab_size, (n,), generator=generator) for n in lengths]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.fixture(scope="session")
def make_config() -> Callable[..., TransformerConfig]:
    """A tiny configuration, with the given fields changed."""
    return _config


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Transformer]:
    """A tiny model in eval mode, always of the same weights; takes changes of its configuration."""
    return _model


@pytest.fixture(scope="session")
def make_ids() -> Callable[..., Tensor]:
    """Random pieces: lengths and vocabulary size → ids (B, longest), padded on the right."""
    return _ids
