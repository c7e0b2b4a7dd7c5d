"""A corpus as batches, the maps of a batch, and what is found on example sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch

from headwise.model.config import BOS, EOS, PAD, UNK
from headwise.model.decoding.translation import translate
from headwise.model.interface import KINDS, SpecialIds
from headwise.model.masks import PADDING
from headwise.model.tokenizer import TokenizerPair, WordTokenizer
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.core import batches
from headwise.viz_app.core.batches import (
    EncodedPair,
    LeftOutCounts,
    PaddedIds,
    attention_maps,
    batches_by_length,
    encode,
)
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
from tests.floats import assert_near, near
from tests.viz_app.measuring.conftest import PAIRS, float64_by_default


def test_empty_repeated_and_long_pairs_are_left_out(tokenizers: TokenizerPair) -> None:
    pairs = [
        Pair("The cat", "El gato"),
        Pair("", "El gato"),
        Pair("The cat", "El perro"),
        Pair("a" * 40, "a"),
        Pair("a", "a" * 40),
        Pair("Where?", ""),
        Pair("Where?", "¿Dónde?"),
    ]
    left_out = LeftOutCounts()
    found = list(encode(pairs, tokenizers, max_length=31, left_out=left_out))
    assert [(e.number, e.pair) for e in found] == [(0, pairs[0]), (6, pairs[6])]
    assert found[1].source == [*tokenizers.source.encode("Where?"), EOS]
    assert found[1].target == tokenizers.encode_target("¿Dónde?")
    assert left_out == LeftOutCounts(empty=2, repeated=1, too_long=2)
    words = WordTokenizer.train(["the cat", "el gato"], 20)
    nothing = [Pair(" ", "el gato"), Pair("the cat", "\t")]  # no tokens of text
    whole, left_out = TokenizerPair(words, words), LeftOutCounts()
    assert list(encode(nothing, whole, max_length=31, left_out=left_out)) == []
    assert left_out == LeftOutCounts(empty=2)


def test_longest_allowed_pair_is_encoded(tokenizers: TokenizerPair) -> None:
    """A target may have one token more than a source: its last one is only predicted."""
    pair = Pair("The cat", "El gato")
    longest = max(
        len(tokenizers.encode_source("The cat")), len(tokenizers.encode_target("El gato")) - 1
    )
    for allowed, kept in ((longest, 1), (longest - 1, 0)):
        found = list(encode([pair], tokenizers, max_length=allowed, left_out=LeftOutCounts()))
        assert len(found) == kept


def sentence(number: int, source: int, target: int) -> EncodedPair:
    return EncodedPair(number, Pair("", ""), [5] * source, [6] * target)


def test_batches_have_similar_lengths_and_limited_cells() -> None:
    sentences = [sentence(n, 3 + n % 5, 4) for n in range(70)]
    sentences += [sentence(70, 300, 20), sentence(71, 10, 500), sentence(72, 64, 64)]
    found = list(batches_by_length(sentences))
    assert sorted(e.number for batch in found for e in batch) == list(range(73))
    assert [len(batch) for batch in found] == [32, 32, 6, 1, 1, 1]
    assert max(len(e.source) for e in found[0]) < max(len(e.source) for e in found[2])


def test_a_corpus_is_read_by_windows(
    monkeypatch: pytest.MonkeyPatch, tokenizers: TokenizerPair
) -> None:
    """So memory does not grow with the corpus: nor by what is known of repeated sources."""
    monkeypatch.setattr(batches, "_WINDOW", 8)
    monkeypatch.setattr(batches, "_REMEMBERED", 5)
    read = 0

    def corpus() -> Iterator[Pair]:
        nonlocal read
        for read in range(1, 1_000):
            yield Pair(f"cat {read % 6}", "gato")

    left_out = LeftOutCounts()
    encoded = encode(corpus(), tokenizers, max_length=31, left_out=left_out)
    stream = batches_by_length(encoded, size=4)
    for number in range(1, 41):
        assert len(next(stream)) == 4
        assert read <= (number + 1) // 2 * 8
    assert left_out.repeated == 0  # the sixth before is forgotten


def test_maps_of_a_batch_match_sentences(precise: Transformer, tokenizers: TokenizerPair) -> None:
    pairs = [
        Pair("Don't worry, she sees him.", "No te preocupes."),
        Pair("Where?", "¿Dónde está el perro viejo?"),
    ]
    found = list(encode(pairs, tokenizers, max_length=31, left_out=LeftOutCounts()))
    ids = PaddedIds.of([e.source for e in found], [e.target for e in found], precise)
    maps, stream = attention_maps(precise, ids)
    for row, pair in enumerate(pairs):
        trace = run_trace(precise, tokenizers, pair.source, pair.target)
        for kind in KINDS:
            alone = torch.tensor(trace.attention[kind]).flatten(0, 1)  # (L H, Q, M)
            n_queries, n_keys = alone.shape[1:]
            there = maps[kind][row, :, :n_queries, :n_keys]
            assert_near(there, alone, size=1, operations=1)  # recorded in float32
            allowed = ids.allowed(kind)[row]
            assert (allowed[:n_queries, :n_keys] == (alone > 0).all(dim=0)).all()
            assert not allowed[n_queries:].any()
            assert not allowed[:, n_keys:].any()
            keys = ids.keys(kind)[row]
            assert keys[:n_keys].tolist() == list(trace.keys_of(kind).ids)
            assert (keys[n_keys:] == PADDING).all()
        steps = len(trace.predicted)
        expected = torch.tensor(trace.decoder_stream[-1]).double()
        final = precise.decoder.final_norm(expected)
        assert_near(stream[row, :steps], final, dtype=torch.float32)


# Example sentences


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
