"""Strongest examples, by hand and on a tiny model."""

from __future__ import annotations

import pytest
import torch

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.interface import KINDS, SpecialIds
from headwise.model.tokenizer import TokenizerPair
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.batches import EncodedPair, LeftOutCounts, encode
from headwise.viz_app.measuring.examples import (
    examples_in_batch,
    largest_weights,
    strongest_examples,
)
from headwise.viz_app.records.measures import Example
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near

SPECIAL = SpecialIds(start=BOS, end=EOS, padding=PAD, unknown=UNK)
PAIRS = [
    Pair("Don't worry, she sees him.", "No te preocupes, ella lo ve."),
    Pair("Where is the old dog?", "¿Dónde está el perro?"),
    Pair("The cat.", "El gato."),
]


@pytest.fixture(scope="module")
def sentences(tokenizers: TokenizerPair) -> list[EncodedPair]:
    return list(encode(PAIRS, tokenizers, max_length=31, left_out=LeftOutCounts()))


def test_special_keys_and_rows_with_one_key_are_ignored() -> None:
    allowed = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    maps = torch.tensor([[[[1.0, 0, 0], [0.7, 0.3, 0], [0.5, 0.1, 0.4]]]])
    for keys, expected in (
        ([BOS, 7, 8], (0.4, 2, 2)),
        ([7, 8, EOS], (0.7, 1, 0)),
        ([BOS, 7, EOS], (0.3, 1, 1)),
        ([BOS, EOS, EOS], (-1.0, 0, 0)),
    ):
        found = [
            side.item() for side in largest_weights(maps, allowed, torch.tensor([keys]), SPECIAL)
        ]
        assert found == near(list(expected), dtype=torch.float32)


def test_examples_match_traces(
    precise: Transformer, tokenizers: TokenizerPair, sentences: list[EncodedPair]
) -> None:
    """Of a batch of sentences that differ in length, each as if it were alone."""
    found = examples_in_batch(precise, sentences)
    heads = precise.description.all_heads()
    assert list(found) == [0, 1, 2]
    for number, pair in enumerate(PAIRS):
        trace = run_trace(precise, tokenizers, *pair)
        for example, (kind, layer, head) in zip(found[number], heads, strict=True):
            maps = trace.attention[kind][layer, head].copy()
            assert example.sentence == number
            assert example.weight == near(maps[example.query, example.key], operations=1)
            special = [
                index for index, id in enumerate(trace.keys_of(kind).ids) if id in (BOS, EOS)
            ]
            maps[:, special] = 0
            if kind == "decoder_self":
                maps[0] = 0
            assert example.weight == near(maps.max(), operations=1)


def test_strongest_examples_come_first(trained: Transformer) -> None:
    n_heads = len(trained.description.all_heads())
    weights = [0.5, 0.25, 0.75, -1, 0.5, *(0.01 * n for n in range(10))]
    rows = [[Example(n, n, 0, weight)] * n_heads for n, weight in enumerate(weights)]
    rows[1][4] = Example(1, 9, 9, 0.99)
    found = strongest_examples(trained, rows)
    assert list(found) == [(kind, i, h) for kind in KINDS for i in range(2) for h in range(3)]
    assert [e.sentence for e in found["encoder_self", 0, 0]] == [2, 0, 4, 1, 14, 13, 12, 11]
    assert [e.sentence for e in found["encoder_self", 1, 1]][:3] == [1, 2, 0]
