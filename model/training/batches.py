"""The batches of a training form an endless sequence, computed from seed and number only."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from headwise.model.config import TrainingConfig
from headwise.model.interface import Rows
from headwise.model.masks import pad
from headwise.model.training.data import Encoded


def shuffled(size: int, *, batch_pairs: int, seed: int, epoch: int) -> list[list[int]]:
    """Return batches of ``batch_pairs`` indices in random order; the last may be smaller."""
    order = list(range(size))
    random.Random(f"{seed}-{epoch}").shuffle(order)
    return [order[start : start + batch_pairs] for start in range(0, size, batch_pairs)]


def bucketed(
    sources: Rows, targets: Rows, *, batch_tokens: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return batches of example indices, every example once, in random order.

    Examples of a batch have similar lengths; a batch has at most ``batch_tokens`` target tokens,
    padding included (a longer example is a batch by itself).
    """
    generator = random.Random(f"{seed}-{epoch}")
    order = list(range(len(targets)))
    generator.shuffle(order)
    order.sort(key=lambda index: (len(targets[index]), len(sources[index])))
    batches: list[list[int]] = []
    for index in order:
        # Sorted by length: the new example is the longest of its batch.
        if batches and (len(batches[-1]) + 1) * (len(targets[index]) - 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    generator.shuffle(batches)
    return batches


class Shard(NamedTuple):
    """The rows of a batch that one process computes; without rows, one with weight 0."""

    source: Tensor  # ids (B, S)
    target: Tensor  # ids (B, T + 1)
    weight: float
    """1; 0 if the batch has fewer rows than there are processes and this row is a placeholder."""
    tokens: int
    """Number of target tokens to predict in the whole batch, over all processes."""


class Batches:
    """The endless sequence of training batches; each is computed from its number only.

    Each epoch has its own order and possibly other examples, but as many batches as the first
    epoch: surplus batches are left out, missing ones are filled with the first of the epoch.
    """

    def __init__(self, examples: Callable[[int], Encoded], config: TrainingConfig) -> None:
        """``examples`` returns the source ids and target ids of an epoch, given its number."""
        self._examples, self._config = examples, config
        self._begin(0)
        self.per_epoch = len(self._batches)

    def _begin(self, epoch: int) -> None:
        pairs, tokens = self._config.batch_pairs, self._config.batch_tokens
        order = {"seed": self._config.seed, "epoch": epoch}
        self._epoch = epoch
        self._sources, self._targets = sources, targets = self._examples(epoch)
        if pairs is not None:
            self._batches = shuffled(len(sources), batch_pairs=pairs, **order)
        else:
            self._batches = bucketed(sources, targets, batch_tokens=tokens, **order)

    def shard(self, number: int, *, index: int = 0, count: int = 1) -> Shard:
        """Return every ``count``-th row of a batch, so that shards take similar time."""
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._begin(epoch)
        rows = self._batches[place % len(self._batches)]
        mine = rows[index::count]
        return Shard(
            source=pad([self._sources[row] for row in mine or rows[:1]]),
            target=pad([self._targets[row] for row in mine or rows[:1]]),
            weight=float(bool(mine)),
            tokens=sum(len(self._targets[row]) - 1 for row in rows),
        )
