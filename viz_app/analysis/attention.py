"""Attention maps: heads combined, tokens merged into words, cells pooled, facts, and differences.

``L`` layers, ``H`` heads, ``Q`` queries, ``M`` keys. A mask ``allowed`` is bool (Q, M), False where
it forbids, or None if it allows all.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.labels import make_visible
from headwise.viz_app.records.trace import Floats, Tokens, Trace, Word

ALMOST_EVEN = 0.97  # the heaviest of ten keys then has at most 2.3 times the even weight
Aggregate = Literal["head", "mean", "max", "rollout"]  # rollout is of all layers, others of one


def aggregate_heads(layer: Floats, how: Aggregate, head: int = 0) -> Floats:
    """Combine the heads of a layer into one map, or choose one head: (H, Q, M) → (Q, M).

    Rows sum to what those of the heads do, 1 but for half an attention; of the maximum to more.
    """
    if how == "mean":
        return layer.mean(axis=0)
    if how == "max":
        return layer.max(axis=0)
    if how != "head" or not 0 <= head < len(layer):
        raise ValueError(
            f"expected mean, max, or a head from 0 to {len(layer) - 1}, got {how} {head}"
        )
    return layer[head]


def to_words(weights: Floats, queries: Sequence[Word], keys: Sequence[Word]) -> Floats:
    """Turn maps between tokens into maps between words: (…, Q, M) → (…, query words, key words).

    Weights are summed over key tokens and averaged over query tokens (Clark et al. 2019, section
    3.1). ValueError if the words do not cover all tokens in order.
    """
    _require_cover(queries, weights.shape[-2], "query")
    _require_cover(keys, weights.shape[-1], "key")
    by_key = np.add.reduceat(weights, [word.start for word in keys], axis=-1)
    summed = np.add.reduceat(by_key, [word.start for word in queries], axis=-2)
    sizes = np.array([word.stop - word.start for word in queries], dtype=np.float32)
    return np.asarray(summed / sizes[:, None], np.float32)


def _require_cover(words: Sequence[Word], length: int, axis: str) -> None:
    edges = [0, *(word.stop for word in words)]
    if [word.start for word in words] != edges[:-1] or edges[-1] != length:
        raise ValueError(f"{axis} words must cover {length} tokens in order, without gaps")


def rows_with_several_keys(
    shape: Sequence[int], allowed: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Return which rows of a map of a shape (…, Q, M) have several allowed keys: bool (Q,).

    The weight of a single key is always 1, so that its row says nothing about a head.
    """
    queries, keys = shape[-2:]
    if allowed is None:
        return np.full(queries, keys > 1)
    return np.asarray(allowed.sum(axis=1) > 1)


def causal_word_mask(queries: Sequence[Word], keys: Sequence[Word]) -> np.ndarray:
    """Return which key words a query word may attend to under a causal mask: bool (queries, keys).

    A query word may attend to a key word if its last token may attend to the key's first token.
    """
    last_query = np.array([word.stop - 1 for word in queries])
    first_key = np.array([word.start for word in keys])
    return np.asarray(first_key <= last_query[:, None])


def max_pool(maps: Floats, most: int = 40) -> Floats:
    """Shrink maps to at most ``most`` cells a side: (…, Q, M) → (…, ≤ most, ≤ most).

    A cell is the maximum over a block, all of one size but the last. Small maps are unchanged.
    """
    if most < 1:
        raise ValueError(f"most: expected 1 or more, got {most}")
    height, width = (math.ceil(cells / most) for cells in maps.shape[-2:])
    return max_of_blocks(maps, height, width)


def pool_mask(allowed: NDArray[np.bool_] | None, most: int = 40) -> NDArray[np.bool_] | None:
    """Shrink a mask, bool (Q, M), as ``max_pool`` does: a cell is allowed if any in its block is.

    None, which allows all, stays None.
    """
    return None if allowed is None else max_pool(allowed.astype(np.float32), most) > 0


def pool_labels(labels: Sequence[str], most: int = 40) -> list[str]:
    """Name the blocks that ``max_pool`` makes of the cells of a side."""
    return block_labels(labels, math.ceil(len(labels) / most))


def block_labels(labels: Sequence[str], size: int) -> list[str]:
    """Name blocks of so many labels each by their first and their last."""
    blocks = [labels[at : at + size] for at in range(0, len(labels), max(size, 1))]
    return [block[0] if len(block) == 1 else f"{block[0]} … {block[-1]}" for block in blocks]


def max_of_blocks(maps: Floats, height: int, width: int) -> Floats:
    """Take the maximum of each block: (…, Q, M) → (…, ⌈Q/height⌉, ⌈M/width⌉)."""
    for axis, size in ((-2, height), (-1, width)):
        if size > 1:
            maps = np.maximum.reduceat(maps, range(0, maps.shape[axis], size), axis=axis)
    return maps


@dataclass(frozen=True)
class MapFacts:
    """These are the facts of a map; shares are means over its rows, of what is in these."""

    largest: float
    row: int  # the query of the largest weight
    column: int  # the key of the largest weight
    evenness: float  # mean entropy of a row as a share of itself, over the largest possible one
    even_weight: float  # weight that each key would have on average if every row were even
    special: float  # share of the weight on special tokens, such as ``</s>``
    punctuation: float | None  # share of the weight on punctuation marks; None if there are none
    itself: float | None  # weight on the query's own token; None where keys are other tokens


def map_facts(
    weights: Floats, keys: Tokens, *, allowed: NDArray[np.bool_] | None, own_keys: bool
) -> MapFacts | None:
    """Compute the facts of a map of single tokens, (Q, M), over rows with several allowed keys;
    None if there are none. ``own_keys``: key i is the token of query i, as in self-attention.
    """
    may = np.ones(weights.shape, bool) if allowed is None else allowed
    count = may.sum(axis=1)
    rows = np.flatnonzero(count > 1)
    if not len(rows):
        return None
    shown = weights[rows].astype(np.float64)  # (rows, M)
    row, column = np.unravel_index(first_largest(shown.ravel()), shown.shape)
    total = shown.sum(axis=1)
    shares = np.divide(shown, total[:, None], out=np.zeros_like(shown), where=total[:, None] > 0)
    logarithms = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logarithms).sum(axis=1)
    special = np.isin(keys.ids, list(keys.special_ids))
    marks = punctuation(keys)
    return MapFacts(
        largest=float(shown.max()),
        row=int(rows[row]),
        column=int(column),
        evenness=float((entropy / np.log(count[rows])).mean()),
        even_weight=float((total / count[rows]).mean()),
        special=_share(shown, special),
        punctuation=_share(shown, marks) if marks.any() else None,
        itself=float(weights[rows, rows].mean()) if own_keys else None,
    )


def most_on_punctuation(
    attention: Mapping[Kind, Floats], keys_of: Callable[[Kind], Tokens]
) -> tuple[Head, float] | None:
    """Return the head that rests most on punctuation marks, and its share of the weight there.

    The share is a mean over rows, masked ones too; None if no key is a mark. ``attention`` has maps
    (L, H, Q, M), whose columns are ``keys_of`` a kind.
    """
    shares: dict[Head, float] = {}
    for kind, maps in attention.items():
        causal = np.tri(maps.shape[-1], dtype=bool) if kind == "decoder_self" else None
        rows, marks = rows_with_several_keys(maps.shape, causal), punctuation(keys_of(kind))
        if rows.any() and marks.any():
            for layer, head in np.ndindex(*maps.shape[:2]):
                shares[Head(kind, layer, head)] = _share(maps[layer, head][rows], marks)
    return list(shares.items())[int(first_largest(list(shares.values())))] if shares else None


def _share(weights: NDArray[np.floating], columns: NDArray[np.bool_]) -> float:
    return float(weights[:, columns].sum(axis=1).mean())


def punctuation(tokens: Tokens) -> NDArray[np.bool_]:
    """Return which tokens are punctuation marks, and no special tokens."""
    marks = np.array([is_punctuation(text) for text in tokens.texts])
    return marks & ~np.isin(tokens.ids, list(tokens.special_ids))


def is_punctuation(token: str) -> bool:
    text = token.removeprefix(" ")
    return bool(text) and all(unicodedata.category(letter)[0] == "P" for letter in text)


def jensen_shannon(a: Floats, b: Floats) -> Floats:
    """Compute the Jensen-Shannon distance (Endres and Schindelin 2003): (…, M), (…, M) → (…).

    0 is equal, 1 no key in common: the square root of the divergence to base 2, a metric.
    """
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
    """Shrink signed maps as ``max_pool`` does; a cell has its block's value farthest from 0."""
    highest, lowest = max_pool(maps, most), -max_pool(-maps, most)
    return np.where(highest >= -lowest, highest, lowest)


def first_word_mismatch(a: Trace, b: Trace, names: tuple[str, str], *, folded: bool) -> str:
    """Describe the first word in which two traces of the same sentences, by two tokenizers, differ;
    "" if all match, so that maps can be compared. ``folded`` ignores case.
    """
    sides = (("source", a.source, b.source), ("target", a.predicted, b.predicted))
    for side, *both in sides:
        words = [[word.text for word in tokens.words] for tokens in both]
        for place, (first, second) in enumerate(zip_longest(*words)):
            if first is not None and second is not None and _same(first, second, folded=folded):
                continue
            texts_of_both = [
                f"“{make_visible(text)}” for {name}" if text is not None else f"missing for {name}"
                for text, name in zip((first, second), names, strict=True)
            ]
            return (
                f"Word {place + 1} of the {side} is {' and '.join(texts_of_both)} "
                f"({len(words[0])} and {len(words[1])} words in all)"
            )
    return ""


def _same(a: str, b: str, *, folded: bool) -> bool:
    if "<unk>" in (a, b):  # a word that is not in a vocabulary
        return bool(a.strip() and b.strip())
    return a.lower() == b.lower() if folded else a == b
