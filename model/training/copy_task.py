"""The copy task of The Annotated Transformer: sequences of symbols, to be copied.

Differences: lengths vary from 1 to 10 instead of being 10, the first symbol is free, and there are
seven symbols, because four of the eleven entries of the vocabulary are special tokens.
"""

from __future__ import annotations

import random

SYMBOLS = "abcdefg"
LONGEST = 10
"""Number of symbols of the longest sequence."""

_SIZES = {"train": 20_000, "validation": 1_000, "test": 1_000}


def copy_task(split: str) -> list[str]:
    """Return the sequences of a split, symbols separated by spaces; no sequence is repeated."""
    if split not in _SIZES:
        raise ValueError(f"copy: expected one of the splits {', '.join(_SIZES)}, got {split!r}")
    generator = random.Random(0)
    wanted = sum(_SIZES.values())
    sequences: dict[str, None] = {}
    while len(sequences) < wanted:
        length = generator.randint(1, LONGEST)
        sequences[" ".join(generator.choices(SYMBOLS, k=length))] = None
    before = list(_SIZES)[: list(_SIZES).index(split)]
    start = sum(_SIZES[name] for name in before)
    return list(sequences)[start : start + _SIZES[split]]
