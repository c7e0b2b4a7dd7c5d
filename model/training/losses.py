"""Losses as pure functions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Compute the label-smoothed cross-entropy, summed over tokens, in nats.

    ``smoothing`` ε gives each of the V tokens a target probability of ε/V, and the true token 1 - ε
    in addition (Szegedy et al. 2016; section 5.4 of the paper).

    Args:
        logits: logits of n tokens, (n, V).
        targets: ids of the true tokens, (n,).
        smoothing: ε, from 0 to below 1.

    Returns:
        A scalar in float32.
    """
    return F.cross_entropy(logits.float(), targets, label_smoothing=smoothing, reduction="sum")
