"""A forced pass: the model reads a source and a given target, all steps at once.

Causality makes it equal to decoding step by step. Whatever reads or changes a pass (``capture`` and
``edit`` of ``model/hooks.py``) goes around ``forced_stream``.

``B`` batch, ``S`` source length, ``T`` target steps, ``n`` positions, ``D`` = d_model,
``V`` vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.model.interface import Seq2SeqModel
from headwise.model.masks import PADDING
from headwise.model.placement import in_float32

_POSITIONS_AT_A_TIME = 1024
"""Number of positions whose logits are in memory at the same time."""


def forced_stream(model: Seq2SeqModel, source: Tensor, consumed: Tensor) -> Tensor:
    """Run source ids (B, S) and consumed ids (B, T), padded → the stream to unembed, (B, T, D).

    A sequence that is empty or too long for the model is a ValueError.
    """
    memory, mask = model.encode(source)
    return model.decode(consumed, memory, mask)


def log_probabilities(model: Seq2SeqModel, stream: Tensor, ids: Tensor) -> Tensor:
    """Compute the log-probability of a token at each position, (n,), in nats, float32 or float64.

    ``stream`` is the output of the decoder at these positions, (n, D). The logits of all positions
    are never in memory together.
    """
    parts = [
        in_float32(model.unembed(rows)).log_softmax(dim=-1).gather(-1, actual[:, None])[:, 0]
        for rows, actual in zip(
            stream.split(_POSITIONS_AT_A_TIME), ids.split(_POSITIONS_AT_A_TIME), strict=True
        )
    ]
    return torch.cat(parts)


def target_log_probabilities(model: Seq2SeqModel, streams: Tensor, targets: Tensor) -> Tensor:
    """Compute log P of whole targets: the sum over the tokens that are predicted, in nats, (…, B).

    ``streams`` are outputs of the decoder, (…, B, T, D), of passes that consumed ``targets`` but
    for their last ids; ``targets`` are ids (B, T + 1), padded as ``pad`` does.
    """
    predicted = targets[:, 1:].expand(streams.shape[:-1])
    keep = predicted != PADDING
    scores = log_probabilities(model, streams[keep], predicted[keep])
    found = scores.new_zeros(predicted.shape)
    found[keep] = scores
    return found.sum(dim=-1)
