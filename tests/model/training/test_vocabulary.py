"""Test that a learned vocabulary fits small data, and that one which does not is warned of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headwise.model.checkpoint import open_trained_run
from headwise.model.tokenizer import TokenizerPair
from headwise.model.train import main
from headwise.model.training.data import Pair
from headwise.model.training.options import RAREST_TOKEN, TrainArguments, parse
from headwise.model.training.vocabulary import describe_vocabulary, rare_words_as_tokens

NUMBERS = [Pair(str(n), f"no {n}") for n in range(10_000, 19_000, 5)]
"""1,800 pairs whose numbers each occur twice."""


def learn(*, rarest: int, shared: bool = True, pairs: list[Pair] = NUMBERS) -> TokenizerPair:
    return TokenizerPair.train(
        pairs, kind="bpe", vocab_sizes=(8_000, 8_000), shared=shared, rarest=rarest
    )


def test_what_is_rare_becomes_no_token() -> None:
    numbers = [text for pair in NUMBERS for text in pair]
    by_heart, fitting = learn(rarest=0), learn(rarest=RAREST_TOKEN)
    assert rare_words_as_tokens(by_heart.source, numbers) == 1
    assert rare_words_as_tokens(fitting.source, numbers) == 0
    assert by_heart.source.vocab_size > 2_000 > 600 > fitting.source.vocab_size
    ids = [id for pair in NUMBERS for text in pair for id in fitting.source.encode(text)]
    assert len(ids) / len(set(ids)) > RAREST_TOKEN


def test_a_vocabulary_of_rare_words_is_warned_of() -> None:
    by_heart, fitting = learn(rarest=0, shared=False), learn(rarest=20)
    described = describe_vocabulary(by_heart, NUMBERS, rarest=0)
    size = by_heart.source.vocab_size
    assert described[0] == f"source vocabulary: {size:,} tokens"
    assert described[1].startswith(
        "warning: 100% of the words that occur fewer than 20 times are single tokens of the source"
    )
    assert described[3].startswith("warning: 100%")
    assert describe_vocabulary(fitting, NUMBERS, rarest=20) == [
        f"vocabulary: {fitting.source.vocab_size:,} tokens, merged from what occurs at least 20 "
        "times"
    ]


def test_single_tokens_of_frequent_words_are_no_reason_to_warn() -> None:
    pairs = [Pair("house", "casa"), Pair("tree", "árbol")] * 20
    tokenizers = learn(rarest=0, pairs=pairs)
    assert len(tokenizers.source.encode("house")) == 1
    assert len(describe_vocabulary(tokenizers, pairs, rarest=0)) == 1
    assert len(describe_vocabulary(tokenizers, pairs[:38], rarest=0)) == 2


def test_a_given_vocabulary_size_is_taken_as_it_is() -> None:
    data = ["--run", "new", "--train", "a.tsv", "--valid", "b.tsv"]
    assert parse(data).rarest_token == RAREST_TOKEN
    for option in (
        "--model.source-vocab-size=8000",
        "--model.target-vocab-size 8000",
        "--model.source_vocab_size 8000",
    ):
        assert parse([*data, *option.split()]).rarest_token == 0
        assert parse([*data, *option.split(), "--rarest-token", "5"]).rarest_token == 5


def test_rare_words_stay_in_a_vocabulary_of_words(
    make_arguments: Callable[..., TrainArguments], tmp_path: Path
) -> None:
    arguments = replace(make_arguments(tmp_path, steps=1), tokenizer="word", rarest_token=20)
    main(arguments)
    tokenizers = open_trained_run("tiny", root=tmp_path).tokenizers
    assert tokenizers.source.unknown("The cat sleeps.") == []
