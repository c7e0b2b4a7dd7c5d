"""Queries and keys in one space: what the scaling keeps, and how nearness and score agree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from headwise.viz_app.analysis.plane import agreement, in_random_directions, join
from headwise.viz_app.records.plane import HeadVectors
from tests.floats import assert_near, near

SENTENCES, LENGTH, K = 20, 10, 8
RANDOM = np.random.default_rng(7)


def table() -> np.ndarray:
    return RANDOM.normal(size=(SENTENCES * LENGTH, K)).astype(np.float32)


def head(queries: np.ndarray, keys: np.ndarray, scores: np.ndarray | None = None) -> HeadVectors:
    """A head over sentences of one length, by default with the products as scores."""
    parts = [slice(n * LENGTH, (n + 1) * LENGTH) for n in range(SENTENCES)]
    made = queries @ keys.T if scores is None else scores
    return HeadVectors(queries, keys, tuple(made[part, part] for part in parts))


def test_queries_that_are_the_keys_they_look_at_agree_and_random_ones_do_not() -> None:
    keys = table()
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    order = np.concatenate([n * LENGTH + RANDOM.permutation(LENGTH) for n in range(SENTENCES)])
    planted, random = head(5 * keys[order], keys / 5 + 3), head(table(), table(), table() @ keys.T)
    joint = join(planted)
    longer = join(head(1_000 * planted.queries, 1_000 * planted.keys))
    for c in (joint.c, longer.c):  # 5 makes them one; it is their ratio that counts
        assert 5 / 2**0.5 < c < 5 * 2**0.5
    found = agreement(joint.rows, planted)
    assert found.value > 0.98
    # 200 rows of 10 keys: the mean of their rank correlations has a standard error of 1/√1800.
    error = 1 / math.sqrt(SENTENCES * LENGTH * (LENGTH - 1))
    assert abs(found.chance) < 4 * error
    by_chance = agreement(join(random).rows, random)
    assert abs(by_chance.value) < 4 * error
    assert by_chance.low < by_chance.value < by_chance.high
    assert by_chance.high - by_chance.low == pytest.approx(4 * error, rel=0.5)


def test_vectors_of_one_length_agree_by_construction_and_keep_their_lengths() -> None:
    tables = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (table(), table())]
    centred = [each - each.mean(axis=0) for each in tables]
    scores = tables[0] @ tables[1].T
    scores[3, 4] = np.nan
    random = in_random_directions(head(*tables, scores))
    for found, expected in zip((random.queries, random.keys), centred, strict=True):
        lengths = [np.linalg.norm(each, axis=1) for each in (found, expected)]
        assert_near(*lengths, dtype=np.float32, size=2)
    assert_near(random.scores[1], random.queries[10:20] @ random.keys[10:20].T, dtype=np.float32)
    assert np.isnan(random.scores[0][3, 4])
    assert agreement(join(random).rows, random).value > 0.95


def test_products_stay_but_for_one_number_a_row_and_centres_are_one() -> None:
    queries, keys = 3 * table() + 1, table() - 2
    joint = join(head(queries, keys))
    there, here = joint.rows[: len(queries)], joint.rows[len(queries) :]
    change = there.astype(np.float64) @ here.T - queries.astype(np.float64) @ keys.T
    assert_near(change, change[:, :1] + 0 * change, dtype=np.float32, size=200)
    assert_near(there.mean(axis=0), here.mean(axis=0), dtype=np.float32, size=10)
    assert 1 < joint.c < 3  # queries are three times as long


def test_rows_are_correlated_as_scipy_does_and_only_where_they_may_attend() -> None:
    queries, keys = table(), table()
    scores = queries @ keys.T
    scores[np.triu_indices(len(scores), 1)] = np.nan
    vectors, points = head(queries, keys, scores), RANDOM.normal(size=(2 * len(queries), 2))
    expected = []
    for n in range(SENTENCES):
        for row in range(2, LENGTH):  # the rows before have fewer than three keys
            at = n * LENGTH + row
            others = [n * LENGTH + key for key in range(row + 1)]
            distances = [math.dist(points[at], points[len(queries) + key]) for key in others]
            expected.append(-spearmanr(distances, scores[at, others]).statistic)
    found = agreement(points, vectors)
    assert found.value == near(float(np.mean(expected)), dtype=np.float64, size=1)


def test_keys_that_are_all_alike_have_no_order() -> None:
    vectors = head(table(), table() * 0 + 1)
    joint = join(vectors)
    assert np.isfinite(joint.rows).all()
    assert math.isnan(agreement(joint.rows, vectors).value)
    with pytest.raises(ValueError, match="expected scores of 200 queries"):
        HeadVectors(vectors.queries, vectors.keys, vectors.scores[1:])
