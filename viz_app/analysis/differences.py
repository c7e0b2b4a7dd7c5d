"""Distances between the attention maps of two checkpoints, and whether their words match.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.analysis.attention import max_pool, rows_with_several_keys
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.records.trace import Floats, Tokens, Trace

UNKNOWN = "<unk>"  # text of a word that is not in a vocabulary


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Compute the Jensen-Shannon distance (Endres and Schindelin 2003): (…, M), (…, M) → (…).
    0 is equal, 1 no key in common: the square root of the divergence to base 2, a metric."""
    from scipy.special import rel_entr  # imported late: only comparisons need it

    # SciPy's jensenshannon is NaN where rounding makes the divergence of near rows negative.
    first, second = a.astype(np.float64), b.astype(np.float64)
    middle = (first + second) / 2
    nats = (rel_entr(first, middle) + rel_entr(second, middle)).sum(axis=-1) / 2
    return np.asarray(np.sqrt(np.clip(nats / np.log(2), 0, 1)), np.float32)


def head_distances(a: Floats, b: Floats, *, allowed: NDArray[np.bool_] | None) -> Floats:
    """Average the distances of each head's rows: (L, H, Q, M), (L, H, Q, M) → (L, H).

    Rows with only one allowed key, always the same, do not count; without others it is NaN. The
    mask ``allowed`` is bool (Q, M). One head is computed at a time: all in float64 would take much
    memory.
    """
    if a.shape != b.shape:
        raise ValueError(f"expected maps of one shape, got {a.shape} and {b.shape}")
    rows = rows_with_several_keys(a.shape, allowed)
    if not rows.any():
        return np.full(a.shape[:-2], np.nan, dtype=np.float32)
    distances = np.empty(a.shape[:-2], np.float32)
    for head in np.ndindex(distances.shape):
        distances[head] = jensen_shannon(a[head][rows], b[head][rows]).mean()
    return distances


def pool_differences(maps: Floats, most: int = 40) -> Floats:
    """Shrink signed maps to at most ``most`` cells a side; a cell has its block's value farthest
    from 0."""
    highest, lowest = max_pool(maps, most), -max_pool(-maps, most)
    return np.where(highest >= -lowest, highest, lowest)


def first_word_mismatch(a: Trace, b: Trace, names: tuple[str, str], *, folded: bool) -> str:
    """Describe the first word in which two traces of the same sentences, by two tokenizers, differ;
    "" if all match, so that maps can be compared. ``folded`` ignores case."""
    sources, targets = (a.source, b.source), (a.predicted, b.predicted)
    return _first_mismatch(sources, "source", names, folded=folded) or _first_mismatch(
        targets, "target", names, folded=folded
    )


def _first_mismatch(
    both: tuple[Tokens, Tokens], what: str, names: tuple[str, str], *, folded: bool
) -> str:
    """Describe the first difference of two lists of words; ``<unk>`` matches any word."""
    a, b = ([word.text for word in tokens.words] for tokens in both)
    for place, (first, second) in enumerate(zip_longest(a, b)):
        if first is not None and second is not None and _same(first, second, folded=folded):
            continue
        texts_of_both = [
            f"“{make_visible(text)}” for {name}" if text is not None else f"missing for {name}"
            for text, name in zip((first, second), names, strict=True)
        ]
        return (
            f"Word {place + 1} of the {what} is {' and '.join(texts_of_both)} "
            f"({len(a)} and {len(b)} words in all)"
        )
    return ""


def _same(a: str, b: str, *, folded: bool) -> bool:
    if UNKNOWN in (a, b):
        return bool(a.strip() and b.strip())
    return a.lower() == b.lower() if folded else a == b
