"""Log-probabilities of given pieces, without the logits of a whole batch in memory.

``n`` positions, ``D`` = d_model, ``V`` vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.transformer import Transformer

_POSITIONS_AT_A_TIME = 1024
"""Positions whose logits (·, V) are in memory together."""


def log_probabilities(model: Transformer, stream: Tensor, ids: Tensor) -> Tensor:
    """Log-probability of the piece predicted at each position, in nats.

    Args:
        model: in evaluation mode.
        stream: what the decoder gives at these positions, (n, D).
        ids: the pieces, (n,).

    Returns:
        (n,).
    """
    parts = [
        model.unembed(rows).log_softmax(dim=-1).gather(-1, actual[:, None])[:, 0]
        for rows, actual in zip(
            stream.split(_POSITIONS_AT_A_TIME), ids.split(_POSITIONS_AT_A_TIME), strict=True
        )
    ]
    return torch.cat(parts)
