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

Targets are forced. ``n`` queries and ``m`` keys of a sentence, ``N`` and ``M`` of all; ``K`` = d_k.
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
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, batches_by_length
from headwise.viz_app.core.computed import Sentences, of_sentences
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
    """The queries and keys of a head in each sentence, and the scores that it makes of them."""

    queries: list[Floats]
    """(n, K) each."""
    keys: list[Floats]
    """(m, K) each."""
    scores: list[Floats]
    """Before softmax and cap, and with what relative positions add, (n, m) each; NaN where a query
    may not attend."""


class ScoreAgreement(NamedTuple):
    """The rank correlation of nearness and score within rows, mean over rows."""

    value: float
    """From −1 to 1; NaN if there is no row with three keys that differ."""
    low: float
    """Of its 95% interval, by resamples of the sentences; NaN for a single one."""
    high: float
    chance: float
    """The same with the keys of each row permuted, which is expected to be 0."""


class ReadHead(NamedTuple):
    """The queries and keys of a head in one space, and how that agrees with its scores."""

    vectors: HeadVectors
    rows: Floats
    """All queries, then all keys, (N + M, K)."""
    c: float
    in_space: ScoreAgreement
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
    return HeadVectors(*map(list, zip(*(found[each.number] for each in sentences), strict=True)))


def join(vectors: HeadVectors) -> tuple[Floats, float]:
    """Scale and move queries and keys into one space: (N + M, K), and by what c they are scaled."""
    tables = [np.concatenate(each) for each in (vectors.queries, vectors.keys)]
    centres = [table.mean(axis=0, dtype=np.float64) for table in tables]
    lengths = [
        math.sqrt(((table - centre) ** 2).sum(axis=1).mean())
        for table, centre in zip(tables, centres, strict=True)
    ]
    middle = math.sqrt(lengths[0] / lengths[1]) if min(lengths) > 0 else 1.0
    cells = []
    for queries, keys, scores in zip(*vectors, strict=True):
        q, k = queries - centres[0], keys - centres[1]
        squares = (q**2).sum(axis=1, keepdims=True), (k**2).sum(axis=1)
        apart = scores - np.nanmean(scores, axis=1, keepdims=True)
        of_cells = np.broadcast_arrays(apart, q @ k.T, *squares)
        cells.append(np.stack(of_cells)[:, ~np.isnan(scores)])
    of_scores, products, of_queries, of_keys = np.concatenate(cells, axis=1)
    near = [2 * products - of_queries / c**2 - of_keys * c**2 for c in middle * _FACTORS]
    with np.errstate(divide="ignore", invalid="ignore"):  # what does not vary has no correlation
        found = np.corrcoef([of_scores, *near])[0, 1:]
    known = ~np.isnan(found).all()
    c = float(middle * _FACTORS[int(first_largest(found))]) if known else middle
    moved = tables[1] * c + (centres[0] / c - centres[1] * c)
    return np.concatenate([tables[0] / c, moved]).astype(np.float32), c


def in_random_directions(vectors: HeadVectors) -> HeadVectors:
    """Return vectors as long, from their centres, in random directions, with their own products.

    Their distances agree with their scores by construction alone: a distance has the product in it.
    """
    random = np.random.default_rng(0)

    def turned(tables: list[Floats]) -> list[Floats]:
        centre = np.concatenate(tables).mean(axis=0, dtype=np.float64)
        found = []
        for table in tables:
            drawn = random.normal(size=table.shape)
            lengths = np.linalg.norm(table - centre, axis=1) / np.linalg.norm(drawn, axis=1)
            found.append((drawn * lengths[:, None]).astype(np.float32))
        return found

    queries, keys = turned(vectors.queries), turned(vectors.keys)
    scores = [
        np.where(np.isnan(given), np.float32(np.nan), q @ k.T)
        for q, k, given in zip(queries, keys, vectors.scores, strict=True)
    ]
    return HeadVectors(queries, keys, scores)


def agreement(points: Floats, vectors: HeadVectors) -> ScoreAgreement:
    """Correlate nearness with scores by rank (Spearman 1904) within rows, and take the mean.

    ``points`` are all queries, then all keys, in a space of any dimension: (N + M, ·).
    """
    from scipy.spatial.distance import cdist  # imported late: only one page needs it

    random, sizes = np.random.default_rng(0), [*map(len, (*vectors.queries, *vectors.keys))]
    parts = np.split(points, np.cumsum(sizes)[:-1])
    of_queries, of_keys = parts[: len(sizes) // 2], parts[len(sizes) // 2 :]
    near = [-cdist(q, k, "sqeuclidean") for q, k in zip(of_queries, of_keys, strict=True)]
    permuted = [random.random(each.shape) for each in near]
    of_sentences, by_chance = (
        [_row_correlations(*both) for both in zip(each, vectors.scores, strict=True)]
        for each in (near, permuted)
    )
    rows = np.array([np.count_nonzero(~np.isnan(each)) for each in of_sentences])
    if not rows.any():
        return ScoreAgreement(math.nan, math.nan, math.nan, math.nan)
    low = high = math.nan
    if np.count_nonzero(rows) > 1:
        sums = np.array([np.nansum(each) for each in of_sentences])
        drawn = random.integers(len(rows), size=(_RESAMPLES, len(rows)))
        counts = rows[drawn].sum(axis=1)
        means = sums[drawn].sum(axis=1)[counts > 0] / counts[counts > 0]
        low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    value, chance = (float(np.nanmean(np.concatenate(e))) for e in (of_sentences, by_chance))
    return ScoreAgreement(value, low, high, chance)


def _row_correlations(near: NDArray[np.floating], scores: Floats) -> NDArray[np.float64]:
    """Return the rank correlation of each row of (n, m) and (n, m), NaN of those that have none."""
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
