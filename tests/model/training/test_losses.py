from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from headwise.model.training.losses import cross_entropy
from tests.floats import assert_near, near


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_formula_of_label_smoothing(smoothing: float) -> None:
    """The true token has 1 - ε + ε/V, any other ε/V."""
    torch.manual_seed(3)
    logits, targets = 3 * torch.randn(7, 11), torch.randint(11, (7,))
    log_p = logits.double() - logits.double().exp().sum(1, keepdim=True).log()  # (n, V)
    wanted = torch.full((7, 11), smoothing / 11, dtype=torch.float64)
    wanted[range(7), targets] += 1 - smoothing

    loss = cross_entropy(logits, targets, smoothing=smoothing)

    assert loss.item() == near(-(wanted * log_p).sum().item(), dtype=torch.float32)


def test_without_smoothing_it_is_the_negative_log_likelihood() -> None:
    torch.manual_seed(3)
    logits, targets = torch.randn(7, 11), torch.randint(11, (7,))
    expected = F.nll_loss(logits.log_softmax(-1), targets, reduction="sum")
    assert_near(cross_entropy(logits, targets), expected)


def test_half_precision_logits_are_summed_in_float32() -> None:
    """In bfloat16 a sum of 1,000 such losses would be off by whole nats."""
    logits = torch.zeros(1000, 11, dtype=torch.bfloat16)
    loss = cross_entropy(logits, torch.zeros(1000, dtype=torch.long))
    assert loss.dtype == torch.float32
    assert loss.item() == near(1000 * math.log(11), dtype=torch.float32)
