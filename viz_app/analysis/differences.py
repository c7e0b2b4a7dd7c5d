"""Distances between the attention maps of two checkpoints, and whether their words match.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headwise.viz_app.analysis.attention import max_pool, rows_with_several_keys
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.records.trace import Floats, Trace

UNKNOWN = "<unk>"
"""Text of a word that is not in a vocabulary."""


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Compute the Jensen-Shannon distance along the last axis: (…, M), (…, M) → (…).

    It is the square root of the divergence to base 2, which is a metric (Endres and Schindelin
    2003): 0 for equal rows, 1 for rows that share no key.
    """
    from scipy.special import rel_entr  # imported late: only comparisons need it

    # SciPy's jensenshannon is NaN where rounding makes the divergence of near rows negative.
    first, second = a.astype(np.float64), b.astype(np.float64)
    middle = (first + second) / 2
    nats = (rel_entr(first, middle) + rel_entr(second, middle)).sum(axis=-1) / 2
    distance: Floats = np.sqrt(np.clip(nats / np.log(2), 0, 1)).astype(np.float32)
    return distance


def head_distances(a: Floats, b: Floats, *, allowed: NDArray[np.bool_] | None) -> Floats:
    """Average the distances of each head's rows: (L, H, Q, M), (L, H, Q, M) → (L, H).

    Rows with only one allowed key do not count, as in the measure ``distance``: they are always the
    same. Without other rows the distances are NaN.

    Args:
        a, b: the maps.
        allowed: bool (Q, M), False where the mask forbids; None if it allows all.

    Raises:
        ValueError: if the maps differ in shape.
    """
    if a.shape != b.shape:
        raise ValueError(f"expected maps of one shape, got {a.shape} and {b.shape}")
    rows = rows_with_several_keys(a.shape, allowed)
    if not rows.any():
        return np.full(a.shape[:-2], np.nan, dtype=np.float32)
    distances: Floats = jensen_shannon(a[..., rows, :], b[..., rows, :]).mean(axis=-1)
    return distances


def pool_differences(maps: Floats, most: int = 40) -> Floats:
    """Shrink signed maps to at most ``most`` cells a side; a cell has its block's value farthest
    from 0.

    Raises:
        ValueError: if ``most`` is below 1.
    """
    highest, lowest = max_pool(maps, most), -max_pool(-maps, most)
    pooled: Floats = np.where(highest >= -lowest, highest, lowest)
    return pooled


def first_word_mismatch(a: Trace, b: Trace, names: tuple[str, str], *, folded: bool) -> str:
    """Describe the first word in which two traces differ; an empty string if all words match.

    Maps between words can be compared cell by cell only if the words match.

    Args:
        a, b: traces of the same sentences, made with two tokenizers.
        names: names of the two in the description.
        folded: whether to ignore case, as for a tokenizer that lower-cases.
    """
    for side in ("source", "predicted"):
        first, second = ([word.text for word in getattr(t, side).words] for t in (a, b))
        name = "source" if side == "source" else "target"
        if reason := _first_mismatch(first, second, name, names, folded=folded):
            return reason
    return ""


def _first_mismatch(
    a: Sequence[str], b: Sequence[str], what: str, names: tuple[str, str], *, folded: bool
) -> str:
    """Describe the first difference of two lists of words; ``<unk>`` matches any word."""
    for place in range(max(len(a), len(b))):
        texts = [words[place] if place < len(words) else None for words in (a, b)]
        if None not in texts and _same(*map(str, texts), folded=folded):
            continue
        texts_of_both = [
            f"“{make_visible(text)}” for {name}" if text is not None else f"missing for {name}"
            for text, name in zip(texts, names, strict=True)
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
