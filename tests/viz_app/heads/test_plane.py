"""Queries and keys in one space: those of each sentence, what scaling keeps, and what agrees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import spearmanr

from headwise.model.config import BOS, EOS
from headwise.model.interface import KINDS, Head, Seq2SeqModel
from headwise.model.training.data import Pair
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.heads.plane.vectors import (
    HeadVectors,
    agreement,
    first_sentences,
    head_vectors,
    in_random_directions,
    join,
)
from tests.floats import PASS, assert_near, near
from tests.model.pretrained.tiny import MAKES, build
from tests.viz_app.core.test_circuits import tiny_preset

OF_TWO_LENGTHS = [
    EncodedPair(0, Pair("", ""), [5, 17, 9, 30, 8, EOS], [BOS, 12, 7, 33, EOS]),
    EncodedPair(1, Pair("", ""), [5, 5, EOS], [BOS, 9, 8, 7, 6, 5, EOS]),
]
"""So that a batch has padding on both sides."""
SENTENCES, LENGTH, K = 20, 10, 8
RANDOM = np.random.default_rng(7)
ERROR = 1 / math.sqrt(SENTENCES * LENGTH * (LENGTH - 1))
"""The standard error of the mean rank correlation of 200 rows of 10 keys."""


@pytest.mark.parametrize("name", ["paper-base", *MAKES])
def test_scores_are_products_and_give_the_maps_of_each_sentence(name: str) -> None:
    """Of a tiny model in float64, of ours and of every make of a family."""
    ours = tiny_preset(name) if name == "paper-base" else build(name, dtype=torch.float64).ours
    model: Seq2SeqModel = ours.double()
    about = model.description
    for kind in KINDS:
        layers, heads = about.shapes[kind]
        found = head_vectors(model, OF_TWO_LENGTHS, Head(kind, layers - 1, heads - 1))
        scale, cap = about.of(kind).score_scale(found.keys[0].shape[1]), about.of(kind).score_cap
        for pair, queries, keys, scores in zip(OF_TWO_LENGTHS, *found, strict=True):
            drawn = attention_maps(model, PaddedIds.of_pairs([pair], model))[0][kind][0, -1].numpy()
            drawn = drawn / drawn.sum(axis=-1, keepdims=True)  # of half an attention, its share
            seen = scores if cap is None else cap * np.tanh(scores / cap)
            weights = softmax(np.where(np.isnan(scores), -np.inf, seen), axis=1)
            assert_near(weights, drawn, dtype=np.float32, size=1)
            products = queries @ keys.T * scale
            allowed = ~np.isnan(scores)
            if about.positions == "relative" and kind != "cross":  # which products do not have
                assert np.abs(products - scores)[allowed].max() > 0.01
            else:
                near_scores = {"dtype": np.float32, "operations": PASS}
                size = float(np.abs(scores[allowed]).max())
                assert_near(products[allowed], scores[allowed], size=size, **near_scores)


def test_as_many_sentences_as_have_so_many_points() -> None:
    for most, number in ((0, 1), (10, 1), (18, 1), (19, 2)):  # 10 and 9 queries and keys
        found = first_sentences(OF_TWO_LENGTHS, "cross", most_points=most)
        assert found == tuple(OF_TWO_LENGTHS[:number])


def table() -> np.ndarray:
    return RANDOM.normal(size=(SENTENCES * LENGTH, K)).astype(np.float32)


def head(queries: np.ndarray, keys: np.ndarray, scores: np.ndarray | None = None) -> HeadVectors:
    """A head over sentences of one length, by default with the products as scores: (N, M)."""
    made = queries @ keys.T if scores is None else scores
    within = [slice(n * LENGTH, (n + 1) * LENGTH) for n in range(SENTENCES)]
    return HeadVectors(
        [queries[each] for each in within],
        [keys[each] for each in within],
        [made[each, each] for each in within],
    )


def test_queries_that_are_the_keys_they_look_at_agree_and_random_ones_do_not() -> None:
    keys = table()
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    order = np.concatenate([n * LENGTH + RANDOM.permutation(LENGTH) for n in range(SENTENCES)])
    planted, random = head(5 * keys[order], keys / 5 + 3), head(table(), table(), table() @ keys.T)
    rows, c = join(planted)
    _, of_longer = join(head(*(1_000 * np.concatenate(each) for each in planted[:2])))
    for each in (c, of_longer):  # 5 makes them one; it is their ratio that counts
        assert 5 / 2**0.5 < each < 5 * 2**0.5
    found = agreement(rows, planted)
    assert found.value > 0.98
    assert abs(found.chance) < 4 * ERROR
    by_chance = agreement(join(random)[0], random)
    assert abs(by_chance.value) < 4 * ERROR
    assert by_chance.low < by_chance.value < by_chance.high
    assert by_chance.high - by_chance.low == pytest.approx(4 * ERROR, rel=0.5)


def test_vectors_of_one_length_agree_by_construction_and_keep_their_lengths() -> None:
    tables = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in (table(), table())]
    scores = tables[0] @ tables[1].T
    scores[3, 4] = np.nan
    random = in_random_directions(head(*tables, scores))
    for found, given in zip((random.queries, random.keys), tables, strict=True):
        both = np.concatenate(found), given - given.mean(axis=0)
        lengths = [np.linalg.norm(each, axis=1) for each in both]
        assert_near(*lengths, dtype=np.float32, size=2)
    assert_near(random.scores[1], random.queries[1] @ random.keys[1].T, dtype=np.float32)
    assert np.isnan(random.scores[0][3, 4])
    assert agreement(join(random)[0], random).value > 0.95


def test_products_stay_but_for_one_number_a_row_and_centres_are_one() -> None:
    queries, keys = 3 * table() + 1, table() - 2
    rows, c = join(head(queries, keys))
    there, here = rows[: len(queries)], rows[len(queries) :]
    change = there.astype(np.float64) @ here.T - queries.astype(np.float64) @ keys.T
    assert_near(change, change[:, :1] + 0 * change, dtype=np.float32, size=200)
    assert_near(there.mean(axis=0), here.mean(axis=0), dtype=np.float32, size=10)
    assert 1 < c < 3  # queries are three times as long


def test_no_other_factor_has_nearness_agree_better_with_score() -> None:
    queries, keys = table() ** 2, table() ** 3  # whose lengths differ
    vectors = head(queries, keys)
    scores = np.concatenate(vectors.scores)
    scores -= scores.mean(axis=1, keepdims=True)
    queries, keys = queries - queries.mean(axis=0), keys - keys.mean(axis=0)
    keys = keys.reshape(SENTENCES, LENGTH, K).repeat(LENGTH, axis=0)

    def correlation(c: float) -> float:
        near = -((queries[:, None] / c - keys * c) ** 2).sum(axis=-1)
        return float(np.corrcoef(near.ravel(), scores.ravel())[0, 1])

    _, c = join(vectors)
    assert correlation(c) > max(correlation(c * 2**0.25), correlation(c / 2**0.25))


def test_rows_are_correlated_as_scipy_does_and_only_where_they_may_attend() -> None:
    queries, keys = table(), table()
    scores = queries @ keys.T
    scores[np.triu_indices(len(scores), 1)] = np.nan
    points = RANDOM.normal(size=(2 * len(queries), 2))
    expected = []
    for n in range(SENTENCES):
        for row in range(2, LENGTH):  # the rows before have fewer than three keys
            at = n * LENGTH + row
            others = [n * LENGTH + key for key in range(row + 1)]
            distances = [math.dist(points[at], points[len(queries) + key]) for key in others]
            expected.append(-spearmanr(distances, scores[at, others]).statistic)
    found = agreement(points, head(queries, keys, scores))
    assert found.value == near(float(np.mean(expected)), dtype=np.float64, size=1)
    alike = head(queries, keys * 0 + 1)  # keys that have no order
    rows, _ = join(alike)
    assert np.isfinite(rows).all()
    assert math.isnan(agreement(rows, alike).value)
