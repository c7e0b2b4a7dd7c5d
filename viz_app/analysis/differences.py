"""How far apart the maps of two checkpoints are, and whether two sentences have the same words.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from viz_app.analysis.attention import max_pool
from viz_app.analysis.labels import visible
from viz_app.records import KINDS, Floats, Head, Kind, Trace

UNKNOWN = "<unk>"
"""The text of a word that a vocabulary lacks."""


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Distance of distributions along the last axis: (…, M), (…, M) → (…), from 0 to 1.

    The square root of the Jensen-Shannon divergence to base 2 (Endres and Schindelin 2003), which
    is a metric: 0 for equal rows, 1 for rows that share no key.
    """
    first, second = a.astype(np.float64), b.astype(np.float64)
    middle = (first + second) / 2
    divergence = (_relative_entropy(first, middle) + _relative_entropy(second, middle)) / 2
    distance: Floats = np.sqrt(np.clip(divergence, 0, 1)).astype(np.float32)
    return distance


def _relative_entropy(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """In bits, along the last axis; 0 log 0 is 0. Wherever p is not 0, q must not be."""
    ratio = np.divide(p, q, out=np.ones_like(p), where=p > 0)
    total: np.ndarray = (p * np.log2(ratio)).sum(axis=-1)
    return total


def head_distances(a: Floats, b: Floats) -> Floats:
    """Mean distance of the rows of each head's maps: (L, H, Q, M), (L, H, Q, M) → (L, H).

    Raises:
        ValueError: if the maps differ in shape.
    """
    if a.shape != b.shape:
        raise ValueError(f"expected maps of one shape, got {a.shape} and {b.shape}")
    distances: Floats = jensen_shannon(a, b).mean(axis=-1)
    return distances


def pool_differences(maps: Floats, most: int = 40) -> Floats:
    """Signed maps of at most ``most`` cells a side, each the value farthest from 0 of its block.

    Raises:
        ValueError: if ``most`` is below 1.
    """
    highest, lowest = max_pool(maps, most), -max_pool(-maps, most)
    pooled: Floats = np.where(highest >= -lowest, highest, lowest)
    return pooled


def ranked(distances: Mapping[Kind, Floats]) -> list[tuple[Head, float]]:
    """Every head with its distance, the farthest first."""
    heads: list[tuple[Head, float]] = [
        ((kind, layer, head), float(value))
        for kind, values in distances.items()
        for (layer, head), value in np.ndenumerate(values)
    ]
    return sorted(heads, key=lambda each: -each[1])


def why_not_by_cell(a: Trace, b: Trace, names: tuple[str, str], *, folded: bool) -> str:
    """Why the maps of two traces, put together to words, have other rows or columns; or nothing.

    Args:
        a, b: traces of the same sentences as two tokenizers read them.
        names: of the two, for people.
        folded: whether upper and lower case count as one, since a tokenizer does not tell them
            apart.
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
    """In words, where two lists of words part; a word that one does not know matches any."""
    for place in range(max(len(a), len(b))):
        texts = [words[place] if place < len(words) else None for words in (a, b)]
        if None not in texts and _same(*map(str, texts), folded=folded):
            continue
        said = [
            f"“{visible(text)}” for {name}" if text is not None else f"missing for {name}"
            for text, name in zip(texts, names, strict=True)
        ]
        return (
            f"Word {place + 1} of the {what} is {' and '.join(said)} "
            f"({len(a)} and {len(b)} words in all)"
        )
    return ""


def _same(a: str, b: str, *, folded: bool) -> bool:
    if UNKNOWN in (a, b):
        return bool(a.strip() and b.strip())
    return a.lower() == b.lower() if folded else a == b


def shapes(trace: Trace) -> tuple[int, int]:
    """Layers and heads of a trace."""
    layers, heads = trace.attention[KINDS[0]].shape[:2]
    return layers, heads
