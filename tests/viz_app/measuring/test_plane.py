"""Queries, keys and scores of a head are those by which each sentence alone has its maps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from headwise.model.config import BOS, EOS
from headwise.model.interface import KINDS, Head, Seq2SeqModel
from headwise.model.training.data import Pair
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.measuring.plane import first_sentences, head_vectors
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import FAMILY_NAMES, build
from tests.viz_app.trace.test_circuits import tiny_preset

SENTENCES = [
    EncodedPair(0, Pair("", ""), [5, 17, 9, 30, 8, EOS], [BOS, 12, 7, 33, EOS]),
    EncodedPair(1, Pair("", ""), [5, 5, EOS], [BOS, 9, 8, 7, 6, 5, EOS]),
]
"""Of different lengths, so that a batch has padding on both sides."""


@pytest.fixture(scope="module", params=["paper-base", *FAMILY_NAMES])
def model(request: pytest.FixtureRequest) -> Seq2SeqModel:
    """A tiny model in float64, of ours and of every family."""
    name = request.param
    ours = tiny_preset(name) if name == "paper-base" else build(name, dtype=torch.float64).ours
    return ours.double()


def test_scores_are_products_and_give_the_maps_of_each_sentence(model: Seq2SeqModel) -> None:
    about = model.description
    for kind in KINDS:
        layers, heads = about.shapes[kind]
        found = head_vectors(model, SENTENCES, Head(kind, layers - 1, heads - 1))
        scale = about.of(kind).score_scale(found.keys.shape[1])
        cap = about.of(kind).score_cap
        query = key = 0
        for pair, scores in zip(SENTENCES, found.scores, strict=True):
            maps = attention_maps(model, PaddedIds.of_pairs([pair], model))[0]
            seen = scores if cap is None else cap * np.tanh(scores / cap)
            weights = softmax(np.where(np.isnan(scores), -np.inf, seen), axis=1)
            drawn = maps[kind][0, -1].numpy()
            drawn = drawn / drawn.sum(axis=-1, keepdims=True)  # of half an attention, its share
            assert_near(weights, drawn, dtype=np.float32, size=1)
            n, m = scores.shape
            products = found.queries[query : query + n] @ found.keys[key : key + m].T * scale
            allowed = ~np.isnan(scores)
            if about.positions == "relative" and kind != "cross":  # which products do not have
                assert np.abs(products - scores)[allowed].max() > 0.01
            else:
                size = float(np.abs(scores[allowed]).max())
                assert_near(
                    products[allowed], scores[allowed], dtype=np.float32, size=size, operations=PASS
                )
            query, key = query + n, key + m


def test_as_many_sentences_as_have_so_many_points() -> None:
    for most, number in ((0, 1), (10, 1), (18, 1), (19, 2)):  # 10 and 9 queries and keys
        assert first_sentences(SENTENCES, "cross", most_points=most) == tuple(SENTENCES[:number])


def test_a_head_that_is_not_there_is_named(model: Seq2SeqModel) -> None:
    with pytest.raises(ValueError, match="no head "):
        head_vectors(model, SENTENCES, Head("cross", 9, 0))
