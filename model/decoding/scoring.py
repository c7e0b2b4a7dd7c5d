"""Scores given tokens without all logits of a batch in memory.

``n`` positions, ``D`` = d_model, ``V`` vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.interface import Seq2SeqModel
from model.placement import in_float32

_POSITIONS_AT_A_TIME = 1024
"""Number of positions whose logits are in memory at the same time."""


def log_probabilities(model: Seq2SeqModel, stream: Tensor, ids: Tensor) -> Tensor:
    """Compute the log-probability of a token at each position, in nats.

    Args:
        model: the model, in evaluation mode.
        stream: output of the decoder at these positions, (n, D).
        ids: token to score at each position, (n,).

    Returns:
        One log-probability for each position, (n,), float32 or float64.
    """
    parts = [
        in_float32(model.unembed(rows)).log_softmax(dim=-1).gather(-1, actual[:, None])[:, 0]
        for rows, actual in zip(
            stream.split(_POSITIONS_AT_A_TIME), ids.split(_POSITIONS_AT_A_TIME), strict=True
        )
    ]
    return torch.cat(parts)
