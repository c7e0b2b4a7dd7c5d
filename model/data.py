"""Parallel corpora through ``datasets``, and batches of similar length within a token budget."""

from __future__ import annotations

import glob
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import datasets
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.config import PAD
from model.tokenizer import TokenizerPair

HUB_CORPORA = {
    "opus_books": "Helsinki-NLP/opus_books",
    "multi30k": "bentrevett/multi30k",
}
"""Short names of corpora on the Hugging Face hub that can be loaded by name."""


class DataError(Exception):
    """Data that cannot be read as a parallel corpus; the message names file, reason, next step."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs and where they came from."""

    name: str
    sha256: str
    pairs: list[Pair]


def load_corpus(name: str, *, source: str, target: str, split: str = "train") -> Corpus:
    """Load a corpus from the hub by short name, or from a local ``.jsonl`` file.

    A short name may be followed by a colon and a split, in the syntax of ``datasets``:
    ``opus_books:train[:99%]``.

    Both have one of two schemas: ``{"translation": {source: …, target: …}}`` (opus_books) or
    ``{source: …, target: …}`` (multi30k), the languages being keys such as "en".

    Raises:
        DataError: if there is no such corpus or file, or its rows have neither schema.
    """
    short_name, _, given_split = name.partition(":")
    if short_name in HUB_CORPORA:
        rows = _load_from_hub(short_name, source, target, given_split or split)
        digest = str(getattr(rows, "_fingerprint", ""))
    else:
        path = Path(name)
        if not path.is_file():
            raise DataError(
                f"{name}: no such file, and not one of the hub's corpora known here "
                f"({', '.join(HUB_CORPORA)})"
            )
        if path.suffix != ".jsonl":
            raise DataError(f"{name}: expected a .jsonl file, got '{path.suffix or path.name}'")
        rows = _load_file(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        pairs = _pairs(rows, name, source, target)
    except UnicodeDecodeError as error:  # rows are decoded when they are read
        raise DataError(f"{name}: not JSON lines in UTF-8 ({error})") from error
    return Corpus(Path(name).name, digest, pairs)


def _load_from_hub(name: str, source: str, target: str, split: str) -> datasets.Dataset:
    repository = HUB_CORPORA[name]
    # opus_books has one configuration a language pair, its languages in alphabetical order.
    configuration = "-".join(sorted([source, target])) if name == "opus_books" else None
    try:
        return datasets.load_dataset(repository, configuration, split=split)
    except Exception as error:  # the library raises many kinds, network ones among them
        raise DataError(
            f"{repository}: could not load split '{split}' from the hub ({error}); check the "
            "connection or give a local .jsonl file"
        ) from error


def _load_file(path: Path) -> datasets.Dataset:
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty; expected one JSON object a line")
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # a local file: nothing to tell the hub
    try:
        return datasets.load_dataset("json", data_files=glob.escape(str(path)), split="train")
    except Exception as error:
        cause = error.__cause__ or error
        raise DataError(f"{path}: not JSON lines in UTF-8 ({cause})") from error


def _pairs(rows: datasets.Dataset, name: str, source: str, target: str) -> list[Pair]:
    nested = "translation" in rows.column_names
    first = rows[0]["translation"] if nested else rows[0]
    keys = sorted(first) if isinstance(first, dict) else []
    for key in (source, target):
        if key not in keys:
            raise DataError(f"{name}: no language '{key}'; this corpus has {keys}")
    pairs = []
    for number, row in enumerate(rows.to_list(), start=1):
        sides = row["translation"] if nested else row
        try:
            texts = sides[source], sides[target]
        except (KeyError, TypeError) as error:
            raise DataError(
                f"{name}, row {number}: expected '{source}' and '{target}', got {sides!r}"
            ) from error
        if not all(isinstance(text, str | None) for text in texts):
            raise DataError(
                f"{name}, row {number}: expected two texts, got {texts[0]!r} and {texts[1]!r}"
            )
        pairs.append(Pair(*((text or "").strip() for text in texts)))
    return pairs


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
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            samples.append(Sample(**json.loads(line)))
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
