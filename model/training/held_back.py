"""Hold back a share of the training pairs for validation, where no validation data are given."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import replace

from headwise.model.training.corpora import Corpus
from headwise.model.training.data import DataError, Pair

FILE = "valid.jsonl"
"""Name of the file in the run's folder that has the pairs that were held back."""
SHARE = 0.05
MOST_PAIRS = 2_000
"""What is held back: this share of the pairs, but at least one source and at most so many pairs."""


def hold_back(corpus: Corpus, *, languages: tuple[str, str], seed: int) -> tuple[Corpus, Corpus]:
    """Split a corpus into training data and validation data, which have no source in common.

    Which pairs are held back follows from the pairs and the seed alone.

    Args:
        corpus: all pairs; training data keep its name and hash.
        languages: names of source and target, the columns of the validation data as a file.
        seed: seed of the training.

    Raises:
        DataError: if there are fewer than two distinct sources, or the languages are one.
    """
    if languages[0] == languages[1]:
        raise DataError(f"expected two languages, got '{languages[0]}' twice; give --valid")
    counts: dict[str, int] = {}
    for pair in corpus.pairs:
        if pair.source and pair.target:
            counts[pair.source] = counts.get(pair.source, 0) + 1
    if len(counts) < 2:
        raise DataError(
            f"{corpus.name}: expected at least two different sources, one of them to hold back for "
            f"validation, got {len(counts)}; give --valid"
        )
    wanted = min(max(1, round(SHARE * sum(counts.values()))), MOST_PAIRS)
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
    return replace(corpus, pairs=train), Corpus(FILE, digest, valid)


def to_lines(pairs: Sequence[Pair], languages: tuple[str, str]) -> bytes:
    """Write pairs as JSON lines with a column for each language."""
    rows = (dict(zip(languages, pair, strict=True)) for pair in pairs)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
