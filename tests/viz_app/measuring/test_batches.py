"""A corpus as batches, and the maps of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from headwise.model.config import EOS
from headwise.model.interface import KINDS
from headwise.model.masks import PADDING
from headwise.model.tokenizer import TokenizerPair, WordTokenizer
from headwise.model.training.data import Pair
from headwise.model.transformer import Transformer
from headwise.viz_app.measuring import batches
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    LeftOutCounts,
    PaddedIds,
    attention_maps,
    batches_by_length,
    encode,
)
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import assert_near


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
