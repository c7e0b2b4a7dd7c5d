"""Losses as pure functions."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Sum over pieces of the label-smoothed cross-entropy, in nats.

    ``smoothing`` ε spreads ε/V over all V pieces and leaves 1 - ε on the true one more, after
    Szegedy et al. (2016), section 5.4 of the paper.

    Args:
        logits: (n, V).
        targets: ids (n,).
        smoothing: ε, from 0 to below 1.

    Returns:
        A scalar in float32.
    """
    return F.cross_entropy(logits.float(), targets, label_smoothing=smoothing, reduction="sum")
