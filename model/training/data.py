"""Sentence pairs: which of them a training uses, holds back or samples, and their token ids."""

from __future__ import annotations

import hashlib
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from headwise.model.interface import Rows, Tokenizers
from headwise.model.tokenizer import count_words
from headwise.model.validation import is_too_long

VALID_FILE = "valid.jsonl"
"""Name of the file in the run's folder that has the pairs that were held back."""
HELD_BACK_SHARE = 0.05
MOST_HELD_BACK = 2_000
"""What is held back: this share of the pairs, but at least one source and at most so many pairs."""
MOST_SAMPLED = 1_000
"""Most pairs of the sample of training pairs."""

Encoded = tuple[Rows, Rows]
"""Source ids and target ids of some pairs."""


class DataError(Exception):
    """Data cannot be read as a parallel corpus; the message names file, reason, next step."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs and where they came from."""

    name: str
    sha256: str
    """Hash of the file; for a hub corpus, the fingerprint of ``datasets``."""
    pairs: list[Pair]


@dataclass(frozen=True)
class Sample:
    """A sample is a fixed sentence that is translated at every milestone."""

    source: str
    reference: str
    shows: str = ""
    """Why it was chosen, for people."""


def load_samples(path: Path) -> list[Sample]:
    """Read samples from JSON lines with ``source``, ``reference`` and, optionally, ``shows``."""
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
class Data:
    """The data that a training has read: both corpora and, if given, the samples."""

    train: Corpus
    valid: Corpus
    samples: list[Sample] | None
    held_back: bool = False
    """Whether the validation data are a part of what was given as training data."""
    left_out: int = 0
    """Number of pairs that were left out because they are among data that must not be seen."""


def hold_back(corpus: Corpus, *, languages: tuple[str, str], seed: int) -> tuple[Corpus, Corpus]:
    """Split a corpus, by the seed, into training and validation data without a common source.

    ``languages`` are the columns of the validation data as a file. Fewer than two distinct sources,
    or languages that are one, are a ``DataError``.
    """
    if languages[0] == languages[1]:
        raise DataError(f"expected two languages, got '{languages[0]}' twice; give --valid")
    counts = Counter(pair.source for pair in corpus.pairs if pair.source and pair.target)
    if len(counts) < 2:
        raise DataError(
            f"{corpus.name}: expected at least two different sources, one of them to hold back for "
            f"validation, got {len(counts)}; give --valid"
        )
    wanted = min(max(1, round(HELD_BACK_SHARE * sum(counts.values()))), MOST_HELD_BACK)
    drawn = random.Random(f"{seed}-held-back").sample(list(counts), len(counts))
    held = {drawn[0]}
    size = counts[drawn[0]]
    for source in drawn[1:-1]:  # one source at least is left to train on
        if size + counts[source] <= wanted:
            held.add(source)
            size += counts[source]
    valid = [pair for pair in corpus.pairs if pair.source in held and pair.target]
    digest = hashlib.sha256(to_lines(valid, languages)).hexdigest()
    train = [pair for pair in corpus.pairs if pair.source not in held]
    return replace(corpus, pairs=train), Corpus(VALID_FILE, digest, valid)


def to_lines(pairs: Sequence[Pair], languages: tuple[str, str]) -> bytes:
    """Write pairs as JSON lines with a column for each language."""
    rows = (dict(zip(languages, pair, strict=True)) for pair in pairs)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def bare(text: str) -> str:
    """Return the words of a text without case, accents and punctuation: "que" for "¿Qué?"."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(character for character in apart if not unicodedata.combining(character))
    return " ".join(re.findall(r"[^\W_]+", plain))


def without_texts(pairs: Sequence[Pair], unseen: Iterable[str]) -> list[Pair]:
    """Return the pairs whose source and target are none of some texts, compared as ``bare``."""
    left_out = set(map(bare, unseen)) - {""}
    return [pair for pair in pairs if left_out.isdisjoint(map(bare, pair))]


def leave_out(corpus: Corpus, names: Sequence[str], read: Callable[..., Corpus]) -> Corpus:
    """Return a corpus without the pairs that have a text of other data, as ``without_texts`` does.

    The other data are corpora, which ``read`` reads by their names in the languages of the
    training; or files of samples, with the columns source and reference.
    """
    unseen: list[Pair] = []
    for name in names:
        try:
            unseen += read(name, split="test").pairs
        except DataError as error:
            try:
                unseen += read(name, columns=("source", "reference")).pairs
            except DataError:
                raise error from None
    pairs = without_texts(corpus.pairs, (text for pair in unseen for text in pair))
    if not pairs:
        raise DataError(f"{corpus.name}: every pair is also in {', '.join(names)}; give other data")
    return replace(corpus, pairs=pairs)


def first_distinct(pairs: Sequence[Pair], count: int, *, max_tokens: int) -> list[Pair]:
    """Return the first pairs with distinct sources, ``count`` whose words fit ``max_tokens``."""
    kept: dict[str, Pair] = {}
    for pair in pairs:
        if is_too_long(*pair):
            continue
        longest = max(count_words(pair.source) + 1, count_words(pair.target) + 2)
        if pair.source and pair.target and longest <= max_tokens:
            kept.setdefault(pair.source, pair)
        if len(kept) == count:
            return list(kept.values())
    raise DataError(
        f"expected {count:,} pairs with distinct sources of at most {max_tokens} tokens, got "
        f"{len(kept):,}; ask for fewer by --max-pairs"
    )


def references_by_source(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Group translations by source, in order of first appearance."""
    references: dict[str, list[str]] = {}
    for pair in pairs:
        references.setdefault(pair.source, []).append(pair.target)
    return references


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


def encode_pairs(pairs: Sequence[Pair], tokenizers: Tokenizers, *, max_tokens: int) -> Examples:
    """Encode pairs; drop and count the empty, repeated and too long; DataError if none is left."""
    seen: set[Pair] = set()
    kept, sources, targets = [], [], []
    empty = duplicates = too_long = 0
    for pair in pairs:
        if not pair.source or not pair.target:
            empty += 1
        elif pair in seen:
            duplicates += 1
        elif is_too_long(*pair):
            seen.add(pair)
            too_long += 1
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


def draw_train_sample(examples: Examples, *, seed: int) -> Encoded:
    """Draw ``MOST_SAMPLED`` training pairs, or all if they are fewer, by the seed.

    Their loss can be compared with the validation loss; that of batches has smoothing, dropout and
    the weights of many steps in it.
    """
    count = len(examples.sources)
    drawn = random.Random(f"{seed}-sample").sample(range(count), min(count, MOST_SAMPLED))
    return [examples.sources[i] for i in drawn], [examples.targets[i] for i in drawn]
