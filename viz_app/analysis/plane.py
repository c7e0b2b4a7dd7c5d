"""Queries and keys of a head in one space, scaled so that nearness means weight.

After AttentionViz (Yeh et al. 2023, arXiv 2305.03210), which uses two freedoms of a head. A vector
that is added to all keys adds one number to each row of scores, which no softmax sees; so keys are
moved to where queries are. Queries divided by c and keys times c have the products they had. With
a query q and a key k, both from their centres, the squared distance is

    ‖q/c − c k‖² = ‖q‖²/c² + c² ‖k‖² − 2 q·k

and c is that with which nearness, −‖q/c − c k‖², and score agree most over all pairs, by the
correlation of Pearson. Here a score is less the mean of its row, since a softmax sees only
differences within a row, and keys are moved after they were scaled, so that both centres stay in
one place. (Within rows alone agreement would be perfect for c → 0, with all keys in one point.)

``n`` queries, ``m`` keys, ``K`` = d_k, ``Q`` and ``M`` queries and keys of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from headwise.model.ties import first_largest
from headwise.viz_app.records.plane import Agreement, HeadVectors, JointVectors
from headwise.viz_app.records.trace import Floats

_Doubles = NDArray[np.float64]
_FACTORS = 2.0 ** np.linspace(-3, 3, 25)
"""What c is tried with, times the root of how much longer queries are than keys."""
_FEWEST_KEYS = 3
"""Rows with fewer keys do not count: two can only be in order or not."""
_ROUNDED = 1e-5
"""Parts of the largest value of a sentence to which values are rounded before they are ranked."""
_RESAMPLES = 1_000


def join(vectors: HeadVectors) -> JointVectors:
    """Scale and move queries and keys into one space."""
    queries, keys = (
        table - table.mean(axis=0)
        for table in (vectors.queries.astype(np.float64), vectors.keys.astype(np.float64))
    )
    lengths = [math.sqrt((table**2).sum(axis=1).mean()) for table in (queries, keys)]
    middle = math.sqrt(lengths[0] / lengths[1]) if min(lengths) > 0 else 1.0
    scores = np.concatenate(
        [
            (each - np.nanmean(each, axis=1, keepdims=True))[~np.isnan(each)]
            for each in vectors.scores
        ]
    ).astype(np.float64)
    found = []
    for c in middle * _FACTORS:
        near = np.concatenate(
            [
                nearness[~np.isnan(each)]
                for nearness, each in _sentences(np.concatenate([queries / c, keys * c]), vectors)
            ]
        )
        varies = near.std() > 0 and scores.std() > 0
        found.append(float(np.corrcoef(near, scores)[0, 1]) if varies else 0.0)
    c = float(middle * _FACTORS[int(first_largest(found))]) if any(found) else middle
    centres = [table.mean(axis=0, dtype=np.float64) for table in (vectors.queries, vectors.keys)]
    shift = centres[0] / c - centres[1] * c
    rows = np.concatenate([vectors.queries / c, vectors.keys * c + shift])
    return JointVectors(rows.astype(np.float32), c, shift.astype(np.float32))


def in_random_directions(vectors: HeadVectors) -> HeadVectors:
    """Return vectors as long, from their centres, in random directions, with their own products.

    Their distances agree with their scores by construction alone: a distance has the product in it.
    """
    random = np.random.default_rng(0)
    made = []
    for table in (vectors.queries, vectors.keys):
        centred = table.astype(np.float64) - table.mean(axis=0, dtype=np.float64)
        drawn = random.normal(size=table.shape)
        lengths = np.linalg.norm(centred, axis=1) / np.linalg.norm(drawn, axis=1)
        made.append((drawn * lengths[:, None]).astype(np.float32))
    scores, query, key = [], 0, 0
    for each in vectors.scores:
        n_queries, n_keys = each.shape
        products = made[0][query : query + n_queries] @ made[1][key : key + n_keys].T
        scores.append(np.where(np.isnan(each), np.float32(np.nan), products))
        query, key = query + n_queries, key + n_keys
    return HeadVectors(made[0], made[1], tuple(scores))


def _sentences(points: _Doubles, vectors: HeadVectors) -> Iterator[tuple[_Doubles, Floats]]:
    """Yield for each sentence the nearness of each query and key, and the scores."""
    query, key = 0, len(vectors.queries)
    for scores in vectors.scores:
        n_queries, n_keys = scores.shape
        of_queries, of_keys = points[query : query + n_queries], points[key : key + n_keys]
        yield -((of_queries[:, None] - of_keys) ** 2).sum(axis=-1), scores
        query, key = query + n_queries, key + n_keys


def agreement(points: Floats, vectors: HeadVectors) -> Agreement:
    """Correlate nearness with scores by rank (Spearman 1904) within rows, and take the mean.

    ``points`` are queries, then keys, in a space of any dimension: (n + m, ·).
    """
    random = np.random.default_rng(0)
    found, by_chance = [], []
    for near, scores in _sentences(points.astype(np.float64), vectors):
        found.append(_row_correlations(near, scores))
        by_chance.append(_row_correlations(random.random(near.shape), scores))
    rows = np.array([len(each) for each in found])
    if not rows.sum():
        return Agreement(math.nan, math.nan, math.nan, math.nan)
    sums = np.array([each.sum() for each in found])
    low = high = math.nan
    if np.count_nonzero(rows) > 1:
        drawn = random.integers(len(rows), size=(_RESAMPLES, len(rows)))
        counts = rows[drawn].sum(axis=1)
        means = sums[drawn].sum(axis=1)[counts > 0] / counts[counts > 0]
        low, high = (float(end) for end in np.percentile(means, [2.5, 97.5]))
    chance = sum(each.sum() for each in by_chance) / sum(map(len, by_chance))
    return Agreement(float(sums.sum() / rows.sum()), low, high, float(chance))


def _row_correlations(near: _Doubles, scores: Floats) -> _Doubles:
    """Return the rank correlation of each row that has one, of (Q, M) and (Q, M)."""
    from scipy.stats import rankdata  # imported late: only one page needs it

    allowed = ~np.isnan(scores)
    ranks = []
    for values in (near, scores):
        unit = np.abs(values[allowed]).max(initial=0.0) * _ROUNDED or 1.0
        # Those that are not allowed come after all others, so that these have ranks from 1.
        ranked = rankdata(np.where(allowed, np.round(values / unit), np.inf), axis=1)
        mean = (ranked * allowed).sum(axis=1, keepdims=True) / allowed.sum(axis=1, keepdims=True)
        ranks.append((ranked - mean) * allowed)
    squares = np.prod([(each**2).sum(axis=1) for each in ranks], axis=0)
    kept = (squares > 0) & (allowed.sum(axis=1) >= _FEWEST_KEYS)
    return np.asarray((ranks[0] * ranks[1]).sum(axis=1)[kept] / np.sqrt(squares[kept]))
