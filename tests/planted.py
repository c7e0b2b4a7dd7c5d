"""Models whose weights are made by hand, so that it is known what each head does and why."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.model.layers import sinusoidal_positions
from headwise.model.transformer import Transformer
from tests.tiny import tiny_config

LONGEST = 7
"""Most positions that the planted heads know."""
TOKENS = range(2, 11)
"""The ids that they know: start, end and seven more."""
PREVIOUS, EQUAL = 0, 1
"""Numbers of the two heads: one looks at the previous position, one at equal tokens."""
_SHARPNESS = 30.0


def planted_model(n_heads: int = 2) -> Transformer:
    """A model in float64 whose first encoder layer has a head by position and one by token.

    Tokens are embedded in directions in which no position has a part, and both are centred, so that
    a query and a key can read the one without the other. Norms only divide.
    """
    width = 46
    config = tiny_config(n_heads=n_heads, d_k=11, d_model=width, max_length=LONGEST)
    torch.manual_seed(7)
    model = Transformer(config).double().eval()
    positions = sinusoidal_positions(LONGEST, width).double()
    positions = positions - positions.mean(-1, keepdim=True)
    taken = torch.cat([positions, torch.ones(1, width, dtype=torch.float64)])
    free = torch.linalg.qr(taken.T, mode="complete").Q.T[len(taken) :]  # (·, D)
    tokens = free[: len(TOKENS)]
    readers = torch.linalg.pinv(torch.cat([positions, tokens]))  # (D, positions and tokens)
    of_positions, of_tokens = readers.split([LONGEST, len(TOKENS)], dim=1)
    to_previous = torch.diag(torch.ones(LONGEST - 1, dtype=torch.float64), diagonal=-1)
    attention = model.encoder.layers[0].self_attention
    with torch.no_grad():
        table = model.encoder.embedding.table.weight
        table.zero_()
        table[TOKENS.start : TOKENS.stop] = tokens
        _plant(attention.query_projection.weight, of_positions @ to_previous, of_tokens)
        _plant(attention.key_projection.weight, of_positions, of_tokens)
    return model


IDLE, SAME, MIXED = 0, 1, 2
"""Numbers of heads that look at the token with the id ``SINK``, whatever the query: the first finds
nothing there, the second the same for all, the third looks at the query's own token."""
SINK = 10
_LOUD = 25.0
"""How long the values are that these heads bring."""


def sink_model() -> Transformer:
    """A model in float64 whose first encoder layer has two heads with a sink, and one without."""
    model = planted_model(n_heads=3)
    attention = model.encoder.layers[0].self_attention
    table = model.encoder.embedding.table.weight
    with torch.no_grad():
        tokens = table[TOKENS.start : TOKENS.stop]  # orthonormal
        sink = table[SINK]
        one = torch.zeros(len(sink), 1, dtype=torch.float64)
        at_all, at_sink = one.clone(), one.clone()
        at_all[:, 0], at_sink[:, 0] = tokens.sum(0), sink
        own = tokens.T * (8 / _SHARPNESS) ** 0.5
        _plant(attention.query_projection.weight, at_all, at_all, own)
        _plant(attention.key_projection.weight, at_sink, at_sink, own)
        others = tokens[tokens @ sink < 0.5].T * _LOUD
        _plant(attention.value_projection.weight, others, at_sink * _LOUD, tokens.T * _LOUD)
    return model


def _plant(weight: Tensor, *heads: Tensor) -> None:
    """Give each head, in rows of a weight (H K, D), what it reads, (D, at most K)."""
    weight.zero_()
    for head, reader in enumerate(heads):
        start = head * len(weight) // len(heads)
        weight[start : start + reader.shape[1]] = _SHARPNESS**0.5 * reader.T
