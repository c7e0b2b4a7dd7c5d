"""Pairs as ids: what is kept of a corpus, and batches of pairs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.config import PAD, TrainingConfig
from model.tokenizer import TokenizerPair, count_words


@dataclass(frozen=True)
class Sample:
    """A fixed sentence that is translated at every milestone, and what it shows."""

    source: str
    reference: str
    shows: str = ""


def load_samples(path: Path) -> list[Sample]:
    """Samples from JSON lines with ``source``, ``reference`` and, if wanted, ``shows``.

    Raises:
        DataError: if a line is something else.
    """
    samples = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            sample = Sample(**json.loads(line))
            if not all(isinstance(text, str) for text in vars(sample).values()):
                raise TypeError("all of them texts")
            samples.append(sample)
        except (ValueError, TypeError) as error:
            raise DataError(
                f"{path}, line {number}: expected an object with source and reference ({error})"
            ) from error
    return samples


@dataclass(frozen=True)
class Examples:
    """Pairs and their ids: source ids end with ``</s>``; target ids have ``<s>`` and ``</s>``."""

    pairs: list[Pair]
    sources: list[list[int]]
    targets: list[list[int]]
    read: int
    empty: int
    duplicates: int
    too_long: int

    @property
    def report(self) -> str:
        """What was kept and what was dropped, for people."""
        return (
            f"{len(self.sources):,} pairs kept of {self.read:,}; dropped: {self.empty:,} with an "
            f"empty side, {self.duplicates:,} exact duplicates, {self.too_long:,} too long"
        )


class DataError(Exception):
    """Data that cannot be read as a parallel corpus; the message names file, reason, next step."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def first_distinct(pairs: Sequence[Pair], count: int, *, max_pieces: int) -> list[Pair]:
    """The first so many pairs whose sources differ and whose words can fit into ``max_pieces``.

    Raises:
        DataError: if there are fewer.
    """
    kept: dict[str, Pair] = {}
    for pair in pairs:
        longest = max(count_words(pair.source) + 1, count_words(pair.target) + 2)
        if pair.source and pair.target and longest <= max_pieces:
            kept.setdefault(pair.source, pair)
        if len(kept) == count:
            return list(kept.values())
    raise DataError(
        f"expected {count:,} pairs with distinct sources of at most {max_pieces} pieces, got "
        f"{len(kept):,}; ask for fewer"
    )


def encode_pairs(pairs: Sequence[Pair], tokenizers: TokenizerPair, *, max_pieces: int) -> Examples:
    """Encode pairs; drop and count those with an empty side, repeated, or over ``max_pieces``.

    Raises:
        DataError: if nothing is left.
    """
    seen: set[Pair] = set()
    kept, sources, targets = [], [], []
    empty = duplicates = too_long = 0
    for pair in pairs:
        if not pair.source or not pair.target:
            empty += 1
        elif pair in seen:
            duplicates += 1
        else:
            seen.add(pair)
            source = tokenizers.encode_source(pair.source)
            target = tokenizers.encode_target(pair.target)
            if len(source) > max_pieces or len(target) > max_pieces:
                too_long += 1
            else:
                kept.append(pair)
                sources.append(source)
                targets.append(target)
    examples = Examples(kept, sources, targets, len(pairs), empty, duplicates, too_long)
    if not sources:
        raise DataError(f"no pair is left: {examples.report}")
    return examples


def shuffled(size: int, *, batch_pairs: int, seed: int, epoch: int) -> list[list[int]]:
    """Batches of ``batch_pairs`` example indices, all once, at random; the last may be smaller."""
    order = list(range(size))
    random.Random(f"{seed}-{epoch}").shuffle(order)
    return [order[start : start + batch_pairs] for start in range(0, size, batch_pairs)]


def bucketed(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[list[int]]:
    """Batches of example indices, all examples once, in an order that the seed and epoch decide.

    Examples of similar length go together; a batch holds at most ``batch_tokens`` target tokens,
    padding included (a longer example is a batch of its own).
    """
    generator = random.Random(f"{seed}-{epoch}")
    order = list(range(len(targets)))
    generator.shuffle(order)
    order.sort(key=lambda index: (len(targets[index]), len(sources[index])))
    batches: list[list[int]] = []
    for index in order:
        # Sorted by length: the newcomer is the longest of its batch.
        if batches and (len(batches[-1]) + 1) * (len(targets[index]) - 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    generator.shuffle(batches)
    return batches


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Ids (B, longest), padded on the right."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


class Shard(NamedTuple):
    """The part of a batch that one process computes; never empty, for each must take part."""

    source: Tensor  # ids (B, S)
    target: Tensor  # ids (B, T + 1)
    weight: float
    """1; or 0, where there were fewer rows than processes and this one only stands in."""
    pieces: int
    """Pieces to predict in the whole batch, in all processes."""


class Batches:
    """The endless sequence of batches: epoch after epoch, each in its own order."""

    def __init__(self, examples: Examples, config: TrainingConfig) -> None:
        self._examples, self._config = examples, config
        self._epoch, self._batches = -1, self._order(0)
        self.per_epoch = len(self._batches)

    def _order(self, epoch: int) -> list[list[int]]:
        sources, targets, config = self._examples.sources, self._examples.targets, self._config
        if config.batch_pairs is not None:
            return shuffled(
                len(sources), batch_pairs=config.batch_pairs, seed=config.seed, epoch=epoch
            )
        return bucketed(
            sources, targets, batch_tokens=config.batch_tokens, seed=config.seed, epoch=epoch
        )

    def shard(self, number: int, *, index: int = 0, count: int = 1) -> Shard:
        """Rows ``index``, ``index + count``, … of batch ``number`` of the training.

        Lengths are alike all through a batch, so that the shards are of like work.
        """
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._order(epoch)
        rows = self._batches[place]
        mine = rows[index::count]
        return Shard(
            source=pad([self._examples.sources[row] for row in mine or rows[:1]]),
            target=pad([self._examples.targets[row] for row in mine or rows[:1]]),
            weight=float(bool(mine)),
            pieces=sum(len(self._examples.targets[row]) - 1 for row in rows),
        )


def sorted_batches(rows: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """Indices of all rows, longest first, at most ``size`` at a time."""
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def references_by_source(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Distinct sources, in order of appearance, each with all its translations."""
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.source, []).append(pair.target)
    return references
