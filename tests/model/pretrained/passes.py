"""Passes of tiny models, and how their results are compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.model.pretrained.model import PretrainedModel
from tests.floats import OPERATIONS, PASS, assert_near
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


def assert_same(twins: Twins, found: Tensor, expected: Any, *, size: float | None = None) -> None:
    """Compare what two passes of float64 twins gave, or two ways to compute a part of a pass.

    The norms of T5 and its like compute their variance in float32 whatever the type of the model:
    two passes that differ in the last bit of float64 may differ there in that of float32. A pass
    has some twenty such norms, and all else is float64.
    """
    assert found.dtype == torch.float64
    if twins.ours.description.norm_kind == "rms":
        assert_near(found, expected, dtype=torch.float32, size=size, operations=OPERATIONS)
    else:
        assert_near(found, expected, size=size, operations=PASS)
