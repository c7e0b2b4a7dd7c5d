"""Test the run.json that preparation writes, what it says, and what a resumed training refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwise.model.checkpoint import CheckpointError, TrainedRun, open_trained_run, write_info
from headwise.model.tokenizer import TokenizerPair
from headwise.model.train import main
from headwise.model.training import preparation
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import DataError, Pair, encode_pairs
from headwise.model.training.options import RAREST_TOKEN, TrainArguments
from headwise.model.transformer import Transformer
from tests.tiny import DATA, tiny_training


def prepared(arguments: TrainArguments, *, resume: bool = False) -> preparation.Prepared:
    return preparation.prepare(arguments, preparation.load_data(arguments), resume=resume)


def write(path: Path, *rows: object) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_run_json_has_the_arguments(trained_run: TrainedRun, tmp_path: Path) -> None:
    arguments, info = tiny_training(tmp_path), trained_run.info
    size = trained_run.tokenizers.source.vocab_size
    assert trained_run.tokenizers.shared
    assert info.training == arguments.training
    assert info.model == replace(arguments.model, source_vocab_size=size, target_vocab_size=size)
    assert info.parameters == sum(p.numel() for p in Transformer(info.model).parameters())
    assert (info.name, info.source_language, info.target_language) == ("tiny", "en", "es")
    train, valid = (
        load_corpus(str(DATA / f"{name}.jsonl"), source="en", target="es")
        for name in ("train", "valid")
    )
    examples = encode_pairs(train.pairs, trained_run.tokenizers, max_tokens=100)
    assert vars(info.data) == {
        "name": "train.jsonl",
        "licence": "CC0-1.0",
        "attribution": "",
        "train_file": "train.jsonl",
        "train_sha256": train.sha256,
        "train_pairs": 48,
        "valid_file": "valid.jsonl",
        "valid_sha256": valid.sha256,
        "longest_source": max(map(len, examples.sources)),
        "held_back": 0,
        "left_out": 0,
    }
    for side, rows in (("source", examples.sources), ("target", examples.targets)):
        ids = [id for row in rows for id in row]
        assert getattr(trained_run.counts, side) == [ids.count(id) for id in range(size)]
    joined = prepared(tiny_training(tmp_path, join=0.5, max_tokens=50)).run.info.data
    assert joined is not None
    assert joined.longest_source == 50  # joined pairs are as long as allowed


# What a resumed training refuses


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.5}, "keeps its --training.learning-rate; give --.*learning-rate 0.02"),
        (
            {"seed": 9, "accumulate": 1},
            "keeps its --training.accumulate, --training.seed; give --training.accumulate 2 "
            "--training.seed 5",
        ),
        ({"betas": (0.5, 0.6)}, r"keeps its --training.betas; give --training.betas 0\.9 0\.98$"),
        ({"steps": 9}, "step 8 is behind it already, and the changed steps"),
        ({"steps": 7}, "step 8 is behind it already, and the changed steps"),
        ({"milestones": (0, 3, 6)}, "step 8 is behind it already, and the changed .* milestones"),
        (None, "the training data is not that which"),
    ],
)
def test_settings_of_trained_steps_and_data_cannot_be_changed(
    trained_root: Path, tmp_path: Path, changes: dict[str, Any] | None, message: str
) -> None:
    shutil.copytree(trained_root, tmp_path, dirs_exist_ok=True)
    arguments = replace(tiny_training(tmp_path, **(changes or {})), resume=True)
    if changes is None:
        arguments = replace(arguments, train=str(DATA / "valid.jsonl"))
    with pytest.raises(CheckpointError, match=message):
        main(arguments)
    before, after = (root / "tiny" / "run.json" for root in (trained_root, tmp_path))
    assert after.read_bytes() == before.read_bytes()


def test_other_columns_of_the_same_file_are_refused(tmp_path: Path) -> None:
    """Swapped columns would reverse the direction of the translation during training."""
    rows = [{"en": "a cat" + " y" * n, "es": "un gato", "fr": "un chat"} for n in range(6)]
    file = write(tmp_path / "data.jsonl", *rows)
    arguments = replace(tiny_training(tmp_path), train=file, valid=file, columns=("en", "es"))
    prepared(arguments)
    with pytest.raises(CheckpointError, match=r"the pairs are not .* the same --columns, --leave"):
        prepared(replace(arguments, columns=("es", "en")), resume=True)


def test_what_must_not_be_seen_is_left_out_and_stays_so(tmp_path: Path) -> None:
    """Test data in the languages of the training, and samples, which have other columns."""
    words = ("cat", "dog", "cow", "hen", "pig", "fox")
    train = write(
        tmp_path / "train.jsonl", *({"en": f"A {word}.", "es": f"El {word}"} for word in words)
    )
    test = write(tmp_path / "test.jsonl", {"en": "a DOG", "es": "otro"})
    samples = write(tmp_path / "samples.jsonl", {"source": "other", "reference": "¡Él, pig!"})
    arguments = replace(
        tiny_training(tmp_path), train=train, valid=train, leave_out=(test, samples)
    )
    begun = prepared(arguments)
    assert [pair.source for pair in begun.examples.pairs] == [
        f"A {word}." for word in ("cat", "cow", "hen", "fox")
    ]
    assert begun.notes[0].startswith("2 training pairs are left out: a text of them is in ")
    data = begun.run.info.data
    assert data is not None
    assert (data.train_pairs, data.left_out) == (4, 2)

    message = "the number of pairs left out is not that which the run began with: expected 2, got 0"
    with pytest.raises(CheckpointError, match=message):
        prepared(replace(arguments, leave_out=()), resume=True)
    corpus = load_corpus(train, source="en", target="es")
    with pytest.raises(CheckpointError, match="the same --columns, --leave-out and --max-pairs"):
        preparation.train_sample_of(begun.run, corpus)
    sources, _ = preparation.train_sample_of(begun.run, corpus, left_out=arguments.leave_out)
    assert len(sources) == 4

    with pytest.raises(DataError, match=r"gone\.jsonl: no such file"):
        preparation.load_data(replace(arguments, leave_out=(str(tmp_path / "gone.jsonl"),)))
    with pytest.raises(DataError, match=r"every pair is also in .*train\.jsonl; give other data"):
        preparation.load_data(replace(arguments, leave_out=(train,)))


def test_a_converted_run_cannot_be_resumed(trained_root: Path, tmp_path: Path) -> None:
    shutil.copytree(trained_root / "tiny", tmp_path / "tiny")
    info = open_trained_run("tiny", root=tmp_path).info
    write_info(tmp_path / "tiny", replace(info, training=None, data=None))
    with pytest.raises(CheckpointError, match="converted from a file of weights, so that its"):
        main(replace(tiny_training(tmp_path), resume=True))


# What is said of the data


def test_sentences_too_long_to_measure_are_found_before_the_training(tmp_path: Path) -> None:
    """Validation sentences that are too long are left out; given samples are refused."""
    texts = ("a " * 70, "a cat")
    valid = write(tmp_path / "valid.jsonl", *({"en": text, "es": "b"} for text in texts))
    samples = tmp_path / "samples.jsonl"
    write(samples, *({"source": text, "reference": ""} for text in texts))
    arguments = replace(tiny_training(tmp_path), valid=valid)
    message = r"samples\.jsonl: expected at most 61 tokens, got 7. in"
    with pytest.raises(DataError, match=message):
        prepared(replace(arguments, samples=samples))
    assert not (tmp_path / "tiny").exists()
    assert [sample.source for sample in prepared(arguments).samples] == ["a cat"]


def test_what_was_chosen_for_the_person_is_said(tmp_path: Path) -> None:
    """What is held back, how long pairs may be, the vocabulary, and that BLEU will be 0."""
    data = tmp_path / "data.tsv"
    rows = [f"{n}\tno {n}" for n in range(100, 140)]
    data.write_text("\n".join(["en\tes", "9\t" + "a " * 70, *rows]))
    arguments = replace(tiny_training(tmp_path), train=str(data), valid=None, rarest_token=20)
    begun = prepared(arguments)
    size = begun.run.tokenizers.source.vocab_size
    assert begun.notes[1:] == [
        "too long: over 61 tokens, see --training.max-tokens",
        f"2 pairs are held back for validation: {tmp_path}/tiny/valid.jsonl; --valid names others",
        f"vocabulary: {size:,} tokens, merged from what occurs at least 20 times",
        "BLEU says nothing here and will be 0: no target has 4 words, and it counts sequences of "
        "4; read exact and chrF instead",
    ]
    assert size < 420
    said = prepared(replace(arguments, run="given", valid=str(data), rarest_token=0)).notes
    assert not [note for note in said if "held back" in note or "BLEU" in note]
    data.write_text("en\tes\n" + "a " * 70 + "\tb\n")
    with pytest.raises(DataError, match=r"data\.tsv: no pair is left: .* --training\.max-tokens"):
        prepared(replace(arguments, run="long", valid=arguments.train))


# The vocabulary

NUMBERS = [Pair(str(n), f"no {n}") for n in range(10_000, 19_000, 5)]
"""1,800 pairs whose numbers each occur twice."""


def learn(*, rarest: int, shared: bool = True, pairs: list[Pair] = NUMBERS) -> TokenizerPair:
    return TokenizerPair.train(
        pairs, kind="bpe", vocab_sizes=(8_000, 8_000), shared=shared, rarest=rarest
    )


def test_what_is_rare_becomes_no_token_or_is_warned_of() -> None:
    numbers = [text for pair in NUMBERS for text in pair]
    by_heart, fitting = learn(rarest=0, shared=False), learn(rarest=RAREST_TOKEN)
    assert preparation.rare_words_as_tokens(by_heart.source, numbers) == 1
    assert preparation.rare_words_as_tokens(fitting.source, numbers) == 0
    size, few = by_heart.source.vocab_size, fitting.source.vocab_size
    assert size > 1_800 > 600 > few
    ids = [id for text in numbers for id in fitting.source.encode(text)]
    assert len(ids) / len(set(ids)) > RAREST_TOKEN

    described = preparation.describe_vocabulary(by_heart, NUMBERS, rarest=0)
    assert described[0] == f"source vocabulary: {size:,} tokens"
    warning = "warning: 100% of the words that occur fewer than 20 times are single tokens of the "
    assert described[1].startswith(f"{warning}source")
    assert described[3].startswith(f"{warning}target")
    assert preparation.describe_vocabulary(fitting, NUMBERS, rarest=20) == [
        f"vocabulary: {few:,} tokens, merged from what occurs at least 20 times"
    ]


def test_single_tokens_of_frequent_words_are_no_reason_to_warn() -> None:
    pairs = [Pair("house", "casa"), Pair("tree", "árbol")] * 20
    tokenizers = learn(rarest=0, pairs=pairs)
    assert len(tokenizers.source.encode("house")) == 1
    assert len(preparation.describe_vocabulary(tokenizers, pairs, rarest=0)) == 1
    assert len(preparation.describe_vocabulary(tokenizers, pairs[:38], rarest=0)) == 2


def test_rare_words_stay_in_a_vocabulary_of_words(tmp_path: Path) -> None:
    begun = prepared(replace(tiny_training(tmp_path), tokenizer="word", rarest_token=20))
    assert begun.run.tokenizers.source.unknown("The cat sleeps.") == []
