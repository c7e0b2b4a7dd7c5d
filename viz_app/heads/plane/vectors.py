"""Queries and keys of a head over sentences, in one space so scaled that nearness means weight.

After AttentionViz (Yeh et al. 2023, arXiv 2305.03210), which uses two freedoms of a head. A vector
that is added to all keys adds one number to each row of scores, which no softmax sees; so keys are
moved to where queries are. Queries divided by c and keys times c have the products they had. With
a query q and a key k, both from their centres, the squared distance is

    ‖q/c − c k‖² = ‖q‖²/c² + c² ‖k‖² − 2 q·k

and c is that with which nearness, −‖q/c − c k‖², and score agree most over all pairs, by the
correlation of Pearson. Here a score is less the mean of its row, since a softmax sees only
differences within a row, and keys are moved after they were scaled, so that both centres stay in
one place. (Within rows alone agreement would be perfect for c → 0, with all keys in one point.)

Targets are forced. ``n`` queries and ``m`` keys of all sentences, one after another; ``M`` keys of
the longest; ``K`` = d_k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import Head, Kind, Seq2SeqModel, attention_path
from headwise.model.ties import first_largest
from headwise.viz_app.analysis.embeddings import principal_components
from headwise.viz_app.core.computed import of_sentences
from headwise.viz_app.core.sentences import Sentences
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, batches_by_length
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.attention import to_numpy

_FACTORS = 2.0 ** np.linspace(-3, 3, 25)
"""What c is tried with, times the root of how much longer queries are than keys."""
_FEWEST_KEYS = 3
"""Rows with fewer keys do not count: two can only be in order or not."""
_ROUNDED = 1e-5
"""Parts of the largest value of a row to which values are rounded before they are ranked."""
_RESAMPLES = 1_000


class HeadVectors(NamedTuple):
    """The queries and keys of a head, and the scores that it makes of them."""

    queries: Floats
    """(n, K)."""
    keys: Floats
    """(m, K)."""
    key: NDArray[np.int64]
    """Which keys the sentence of each query has, (n, M); −1 where it has no more."""
    scores: Floats
    """With these keys, before softmax and cap, and with what relative positions add, (n, M); NaN
    where a query may not attend."""


class Agreement(NamedTuple):
    """The rank correlation of nearness and score within rows, mean over rows."""

    value: float
    """From −1 to 1; NaN if there is no row with three keys that differ."""
    low: float
    """Of its 95% interval, by resamples of the sentences; NaN for a single one."""
    high: float
    chance: float
    """The same with the keys of each row permuted, which is expected to be 0."""


class ReadHead(NamedTuple):
    """The n queries and m keys of a head in one space, and how that agrees with its scores."""

    vectors: HeadVectors
    rows: Floats
    """Queries, then keys, (n + m, K)."""
    c: float
    in_space: Agreement
    by_construction: tuple[float, float]
    """What vectors as long in random directions have there, and in a plane of their own."""


def ids_in(pair: EncodedPair, kind: Kind) -> tuple[list[int], list[int]]:
    """Return the ids at which a pair has queries and keys: what is read there, none predicted."""
    consumed = pair.target[:-1]
    return (
        pair.source if kind == "encoder_self" else consumed,
        consumed if kind == "decoder_self" else pair.source,
    )


def first_sentences(
    sentences: Sequence[EncodedPair], kind: Kind, *, most_points: int
) -> tuple[EncodedPair, ...]:
    """Return the first sentences, at least one, with at most so many queries and keys together."""
    points = np.cumsum([sum(map(len, ids_in(each, kind))) for each in sentences])
    return tuple(sentences[: max(1, int((points <= most_points).sum()))])


@of_sentences("queries and keys")
def read_head(model: Seq2SeqModel, sentences: Sentences, head: Head) -> ReadHead:
    """Read the queries and keys of a head over sentences, and put them in one space."""
    vectors = head_vectors(model, sentences.pairs, head)
    random = in_random_directions(vectors)
    (rows, c), (joined, _) = join(vectors), join(random)
    flat = principal_components(joined).points
    by_construction = agreement(joined, random).value, agreement(flat, random).value
    return ReadHead(vectors, rows, c, agreement(rows, vectors), by_construction)


@torch.inference_mode()
def head_vectors(model: Seq2SeqModel, sentences: Sequence[EncodedPair], head: Head) -> HeadVectors:
    """Run the model over sentences, at least one, and keep what a head makes of them."""
    path = attention_path(head.kind, head.layer)
    cap = model.description.of(head.kind).score_cap
    points = ("query", "key", "scores" if cap is None else "uncapped")
    found: dict[int, tuple[Floats, Floats, Floats]] = {}
    for batch in batches_by_length(sentences):
        ids = PaddedIds.of_pairs(batch, model)
        with capture(model, [f"{path}.{point}" for point in points]) as seen:
            forced_stream(model, ids.source, ids.target[:, :-1])
        queries, keys, scores = (
            to_numpy(seen[f"{path}.{point}"][0][:, head.head]) for point in points
        )
        scores = np.where(ids.allowed(head.kind).cpu().numpy(), scores, np.float32(np.nan))
        for place, pair in enumerate(batch):
            n, m = map(len, ids_in(pair, head.kind))
            found[pair.number] = queries[place, :n], keys[place, :m], scores[place, :n, :m]
    of_queries, of_keys, of_scores = zip(*(found[e.number] for e in sentences), strict=True)
    queries, keys = np.concatenate(of_queries), np.concatenate(of_keys)
    shape = len(queries), max(map(len, of_keys))
    key, scores = np.full(shape, -1), np.full(shape, np.nan, np.float32)
    query = first = 0
    for each in of_scores:
        n, m = each.shape
        key[query : query + n, :m] = np.arange(first, first + m)
        scores[query : query + n, :m] = each
        query, first = query + n, first + m
    return HeadVectors(queries, keys, key, scores)


def join(vectors: HeadVectors) -> tuple[Floats, float]:
    """Scale and move queries and keys into one space: (n + m, K), and by what c they are scaled."""
    centres = [table.mean(axis=0, dtype=np.float64) for table in (vectors.queries, vectors.keys)]
    queries, keys = vectors.queries - centres[0], vectors.keys - centres[1]
    squares = (queries**2).sum(axis=1), (keys**2).sum(axis=1)
    lengths = [math.sqrt(each.mean()) for each in squares]
    middle = math.sqrt(lengths[0] / lengths[1]) if min(lengths) > 0 else 1.0
    allowed = ~np.isnan(vectors.scores)
    scores = vectors.scores - np.nanmean(vectors.scores, axis=1, keepdims=True)
    products = _with_own_keys(queries @ keys.T, vectors)
    near = [
        2 * products - squares[0][:, None] / c**2 - squares[1][vectors.key] * c**2
        for c in middle * _FACTORS
    ]
    with np.errstate(divide="ignore", invalid="ignore"):  # what does not vary has no correlation
        found = np.corrcoef([scores[allowed], *(each[allowed] for each in near)])[0, 1:]
    known = ~np.isnan(found).all()
    c = float(middle * _FACTORS[int(first_largest(found))]) if known else middle
    moved = vectors.keys * c + (centres[0] / c - centres[1] * c)
    return np.concatenate([vectors.queries / c, moved]).astype(np.float32), c


def _with_own_keys(pairs: NDArray[np.floating], vectors: HeadVectors) -> NDArray[np.floating]:
    """Choose of each query those of its own sentence's keys: (n, m) → (n, M)."""
    return np.take_along_axis(pairs, vectors.key, axis=1)


def in_random_directions(vectors: HeadVectors) -> HeadVectors:
    """Return vectors as long, from their centres, in random directions, with their own products.

    Their distances agree with their scores by construction alone: a distance has the product in it.
    """
    random = np.random.default_rng(0)

    def turned(table: Floats) -> Floats:
        centred = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
        drawn = random.normal(size=table.shape)
        lengths = np.linalg.norm(centred, axis=1) / np.linalg.norm(drawn, axis=1)
        return (drawn * lengths[:, None]).astype(np.float32)

    queries, keys = turned(vectors.queries), turned(vectors.keys)
    products = _with_own_keys(queries @ keys.T, vectors)
    scores = np.where(np.isnan(vectors.scores), np.float32(np.nan), products)
    return HeadVectors(queries, keys, vectors.key, scores)


def agreement(points: Floats, vectors: HeadVectors) -> Agreement:
    """Correlate nearness with scores by rank (Spearman 1904) within rows, and take the mean.

    ``points`` are queries, then keys, in a space of any dimension: (n + m, ·).
    """
    from scipy.spatial.distance import cdist  # imported late: only one page needs it

    random, n = np.random.default_rng(0), len(vectors.queries)
    near = -_with_own_keys(cdist(points[:n], points[n:], "sqeuclidean"), vectors)
    permuted, there = np.zeros(near.shape), vectors.key >= 0
    permuted[there] = random.random(there.sum())
    found, by_chance = (_row_correlations(each, vectors.scores) for each in (near, permuted))
    counted = ~np.isnan(found)
    if not counted.any():
        return Agreement(math.nan, math.nan, math.nan, math.nan)
    sentence = np.unique(vectors.key[:, 0], return_inverse=True)[1]  # none shares its keys
    sums, rows = (np.bincount(sentence, each) for each in (np.nan_to_num(found), counted))
    low = high = math.nan
    if np.count_nonzero(rows) > 1:
        drawn = random.integers(len(rows), size=(_RESAMPLES, len(rows)))
        counts = rows[drawn].sum(axis=1)
        means = sums[drawn].sum(axis=1)[counts > 0] / counts[counts > 0]
        low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    return Agreement(float(found[counted].mean()), low, high, float(np.nanmean(by_chance)))


def _row_correlations(near: NDArray[np.floating], scores: Floats) -> NDArray[np.float64]:
    """Return the rank correlation of each row of (n, M) and (n, M), NaN of those that have none."""
    from scipy.stats import rankdata

    allowed = ~np.isnan(scores)
    ranks = []
    for values in (near, scores):
        size = np.abs(values).max(axis=1, keepdims=True, initial=0, where=allowed)
        rounded = np.round(values / np.where(size > 0, size * _ROUNDED, 1))
        # Those that are not allowed come after all others, so that these have ranks from 1.
        ranked = rankdata(np.where(allowed, rounded, np.inf), axis=1)
        mean = ranked.mean(axis=1, keepdims=True, where=allowed)
        ranks.append((ranked - mean) * allowed)
    products, squares = ranks[0] * ranks[1], np.prod([(e**2).sum(axis=1) for e in ranks], axis=0)
    counts = (squares > 0) & (allowed.sum(axis=1) >= _FEWEST_KEYS)
    return np.where(counts, products.sum(axis=1) / np.sqrt(np.where(counts, squares, 1)), np.nan)
