"""Choosing a small batch of sentences of different lengths, to show padding."""

from __future__ import annotations

from collections.abc import Sequence

TokenIds = tuple[int, ...]


def batch_of_lengths(
    source: TokenIds, samples: Sequence[TokenIds], *, size: int = 3
) -> tuple[TokenIds, ...]:
    """Choose up to ``size`` sentences of different lengths: ``source``, then samples nearest in
    length, shorter first. Too few are made up by leaving out the source's tokens before its
    last.
    """
    by_length: dict[int, TokenIds] = {}
    for ids in samples:
        by_length.setdefault(len(ids), ids)
    by_length.pop(len(source), None)
    nearest = sorted(by_length, key=lambda length: (abs(length - len(source)), length))
    batch = [source, *(by_length[length] for length in nearest[: size - 1])]
    for length in range(len(source) - 1, 0, -1):
        if len(batch) < size and length not in map(len, batch):
            batch.append((*source[: length - 1], source[-1]))
    return tuple(batch)
