"""Example sentences: the strongest weights, and figures of failed translations."""

from __future__ import annotations

from typing import Any

import numpy as np
import sacrebleu
import torch

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.decoding.translation import translate
from headwise.model.interface import KINDS, SpecialIds
from headwise.model.tokenizer import TokenizerPair
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.examples import (
    examples_in_batch,
    largest_weights,
    strongest_examples,
    translate_batch,
)
from headwise.viz_app.records.measures import Example
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near
from tests.viz_app.measuring.conftest import PAIRS, float64_by_default

ONCE: dict[str, Any] = {"dtype": np.float32, "operations": 1}
"""What was computed in float64 and rounded to float32, as all that is recorded is."""
SPECIAL = SpecialIds(start=BOS, end=EOS, padding=PAD, unknown=UNK)


# The strongest weights


def test_special_keys_and_rows_with_one_key_are_ignored() -> None:
    allowed = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    maps = torch.tensor([[[[1.0, 0, 0], [0.7, 0.3, 0], [0.5, 0.1, 0.4]]]])
    for keys, expected in (
        ([BOS, 7, 8], (0.4, 2, 2)),
        ([7, 8, EOS], (0.7, 1, 0)),
        ([BOS, 7, EOS], (0.3, 1, 1)),
        ([BOS, EOS, EOS], (-1.0, 0, 0)),
    ):
        sides = largest_weights(maps, allowed, torch.tensor([keys]), SPECIAL)
        assert [side.item() for side in sides] == near(list(expected), dtype=torch.float32)


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
            maps[:, [id in (BOS, EOS) for id in trace.keys_of(kind).ids]] = 0
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


# Translations


def total(log_probability: Floats) -> float:
    return float(log_probability.sum(dtype=np.float64))


def test_translations_and_figures_match_traces(
    precise: Transformer, tokenizers: TokenizerPair, sentences: list[EncodedPair]
) -> None:
    with float64_by_default():
        found = translate_batch(precise, tokenizers, sentences[::-1])
    texts = translate(precise, tokenizers, [pair.source for pair in PAIRS])
    assert [found[number].translation for number in range(3)] == texts
    for number, pair in enumerate(PAIRS):
        trace = run_trace(precise, tokenizers, pair.source)
        log_probability = trace.predictions.log_probability
        alone = EncodedPair(0, pair, [*trace.source.ids], [BOS, *trace.predicted.ids])
        with float64_by_default():
            ids = PaddedIds.of_pairs([alone], precise)
            shares = contributions(precise, ids).source_contribution
        assert found[number].figures == near(
            {
                "log_probability": total(log_probability) / len(log_probability),
                "source_contribution": float(shares.mean()),
            },
            size=max(1, abs(total(log_probability))),
            **ONCE,
        )
        chrf = sacrebleu.sentence_chrf(trace.target_text, [pair.target]).score
        assert found[number].chrf == near(chrf)
