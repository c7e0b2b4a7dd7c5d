"""Passes of tiny models, and how their results are compared."""

from __future__ import annotations

import torch
from torch import Tensor

from model.pretrained.model import PretrainedModel
from tests.model.pretrained.tiny import Twins, random_ids


def run(model: PretrainedModel, source: Tensor, target: Tensor) -> Tensor:
    """Compute the logits (B, T, V) of a pass without a cache."""
    with torch.inference_mode():
        memory, mask = model.encode(source)
        return model.unembed(model.decode(target, memory, mask))


def inputs(twins: Twins, *lengths: int) -> tuple[Tensor, Tensor]:
    """Make sources of these lengths, padded, and targets of nine tokens."""
    special = twins.ours.special_ids
    source = random_ids(*lengths, padding=special.padding)
    target = random_ids(*[9] * len(lengths), padding=special.padding, first=special.start, seed=4)
    return source, target


def close(found: Tensor, expected: Tensor) -> None:
    """Compare two tensors of a tiny model in float32."""
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
