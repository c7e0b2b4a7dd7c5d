"""A small batch that shows padding: sentences of different lengths."""

from __future__ import annotations

from collections.abc import Sequence

Ids = tuple[int, ...]


def batch_of_lengths(source: Ids, samples: Sequence[Ids], *, size: int = 3) -> tuple[Ids, ...]:
    """A sentence and others, all of different lengths, the sentence first.

    Samples come in the order of how near they are in length, a shorter one before a longer. Where
    they are too few, the sentence itself follows with ever more pieces cut off before its last.
    """
    by_length: dict[int, Ids] = {}
    for ids in samples:
        by_length.setdefault(len(ids), ids)
    by_length.pop(len(source), None)
    nearest = sorted(by_length, key=lambda length: (abs(length - len(source)), length))
    batch = [source, *(by_length[length] for length in nearest[: size - 1])]
    for length in range(len(source) - 1, 0, -1):
        if len(batch) < size and length not in map(len, batch):
            batch.append((*source[: length - 1], source[-1]))
    return tuple(batch)
