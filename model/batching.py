"""Make batches of sentences of different lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headwise.model.config import PAD


def pad(rows: Sequence[Sequence[int]], padding: int = PAD) -> Tensor:
    """Stack sequences of ids into a tensor (B, longest), padded on the right."""
    return pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=padding
    )


def sorted_batches(rows: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """Yield the indices of all rows in batches of at most ``size``, longest rows first."""
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    for start in range(0, len(order), size):
        yield order[start : start + size]
