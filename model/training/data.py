"""Encode sentence pairs as token ids, and count the pairs that cannot be used."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headwise.model.interface import Tokenizers
from headwise.model.tokenizer import count_words


@dataclass(frozen=True)
class Sample:
    """A sample is a fixed sentence that is translated at every milestone."""

    source: str
    reference: str
    shows: str = ""
    """Why it was chosen, for people."""


def load_samples(path: Path) -> list[Sample]:
    """Read samples from JSON lines with ``source``, ``reference`` and, optionally, ``shows``.

    Raises:
        DataError: if a line has another form.
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
        except (ValueError, TypeError, RecursionError) as error:
            raise DataError(
                f"{path}, line {number}: expected an object with source and reference ({error})"
            ) from error
    return samples


@dataclass(frozen=True)
class Examples:
    """Encoded pairs: source ids end with ``</s>``; target ids have ``<s>`` and ``</s>``."""

    pairs: list[Pair]
    sources: list[list[int]]
    targets: list[list[int]]
    read: int
    empty: int
    duplicates: int
    too_long: int

    @property
    def report(self) -> str:
        """Summarise for people how many pairs were kept and dropped."""
        return (
            f"{len(self.sources):,} pairs kept of {self.read:,}; dropped: {self.empty:,} with an "
            f"empty side, {self.duplicates:,} exact duplicates, {self.too_long:,} too long"
        )


class DataError(Exception):
    """Data cannot be read as a parallel corpus; the message names file, reason, next step."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


def first_distinct(pairs: Sequence[Pair], count: int, *, max_tokens: int) -> list[Pair]:
    """Return the first ``count`` pairs with distinct sources whose words fit into ``max_tokens``.

    Raises:
        DataError: if there are fewer.
    """
    kept: dict[str, Pair] = {}
    for pair in pairs:
        longest = max(count_words(pair.source) + 1, count_words(pair.target) + 2)
        if pair.source and pair.target and longest <= max_tokens:
            kept.setdefault(pair.source, pair)
        if len(kept) == count:
            return list(kept.values())
    raise DataError(
        f"expected {count:,} pairs with distinct sources of at most {max_tokens} tokens, got "
        f"{len(kept):,}; ask for fewer by --max-pairs"
    )


def bare(text: str) -> str:
    """Return the letters and digits of a text, its words separated by single spaces.

    Case, accents and punctuation are set aside, so that "¿Qué?" is "que".
    """
    plain = "".join(
        character
        for character in unicodedata.normalize("NFKD", text).casefold()
        if not unicodedata.combining(character)
    )
    return " ".join(re.findall(r"[^\W_]+", plain))


def without_texts(pairs: Sequence[Pair], unseen: Iterable[str]) -> list[Pair]:
    """Return the pairs whose source and target are none of some texts, compared as ``bare``."""
    left_out = set(map(bare, unseen)) - {""}
    return [pair for pair in pairs if left_out.isdisjoint(map(bare, pair))]


def encode_pairs(pairs: Sequence[Pair], tokenizers: Tokenizers, *, max_tokens: int) -> Examples:
    """Encode pairs; drop and count those with an empty side, repeated, or over ``max_tokens``.

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
            if len(source) > max_tokens or len(target) > max_tokens:
                too_long += 1
            else:
                kept.append(pair)
                sources.append(source)
                targets.append(target)
    examples = Examples(kept, sources, targets, len(pairs), empty, duplicates, too_long)
    if not sources:
        raise DataError(f"no pair is left: {examples.report}")
    return examples


def references_by_source(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Group translations by source, in order of first appearance."""
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.source, []).append(pair.target)
    return references
