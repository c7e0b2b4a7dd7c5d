"""Test the run.json that preparation writes, and what a resumed training refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.model.checkpoint import CheckpointError, TrainedRun, open_trained_run, write_info
from headwise.model.train import main
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import DataError, encode_pairs
from headwise.model.training.options import TrainArguments
from headwise.model.training.preparation import load_data, prepare, train_sample_of
from headwise.model.transformer import Transformer

MakeArguments = Callable[..., TrainArguments]


def test_run_json_has_the_arguments(
    trained_run: TrainedRun, make_arguments: MakeArguments, tmp_path: Path, data_folder: Path
) -> None:
    arguments, info = make_arguments(tmp_path), trained_run.info
    size = trained_run.tokenizers.source.vocab_size
    assert trained_run.tokenizers.shared
    assert info.training == arguments.training
    assert info.model == replace(arguments.model, source_vocab_size=size, target_vocab_size=size)
    assert info.parameters == sum(p.numel() for p in Transformer(info.model).parameters())
    assert (info.name, info.source_language, info.target_language) == ("tiny", "en", "es")
    train = load_corpus(str(data_folder / "train.jsonl"), source="en", target="es")
    valid = load_corpus(str(data_folder / "valid.jsonl"), source="en", target="es")
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
        counts = torch.bincount(torch.tensor([id for row in rows for id in row]), minlength=size)
        assert getattr(trained_run.counts, side) == counts.tolist()


def test_sources_of_joined_pairs_are_as_long_as_allowed(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    main(make_arguments(tmp_path, join=0.5, max_tokens=50))
    data = open_trained_run("tiny", root=tmp_path).info.data
    assert data is not None
    assert data.longest_source == 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"learning_rate": 0.5},
            "keeps its --training.learning-rate; give --training.learning-rate 0.02",
        ),
        (
            {"seed": 9, "accumulate": 1},
            "keeps its --training.accumulate, --training.seed; give --training.accumulate 2 "
            "--training.seed 5",
        ),
        ({"betas": (0.5, 0.6)}, r"keeps its --training.betas; give --training.betas 0\.9 0\.98$"),
        ({"steps": 9}, "step 8 is behind it already, and the changed steps"),
        ({"steps": 7}, "step 8 is behind it already, and the changed steps"),
        ({"milestones": (0, 3, 6)}, "step 8 is behind it already, and the changed .* milestones"),
    ],
)
def test_settings_of_trained_steps_cannot_be_changed(
    make_arguments: MakeArguments,
    trained_root: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    message: str,
) -> None:
    shutil.copytree(trained_root, tmp_path, dirs_exist_ok=True)
    with pytest.raises(CheckpointError, match=message):
        main(replace(make_arguments(tmp_path, **changes), resume=True))
    before, after = (root / "tiny" / "run.json" for root in (trained_root, tmp_path))
    assert after.read_bytes() == before.read_bytes()


def test_other_data_is_refused(
    make_arguments: MakeArguments, trained_root: Path, data_folder: Path
) -> None:
    arguments = replace(make_arguments(trained_root), resume=True)
    with pytest.raises(CheckpointError, match="the training data is not that which"):
        main(replace(arguments, train=str(data_folder / "valid.jsonl")))


def test_other_columns_of_the_same_file_are_refused(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    """Swapped columns would reverse the direction of the translation during training."""
    file = tmp_path / "data.jsonl"
    rows = [{"en": "a cat" + " y" * n, "es": "un gato", "fr": "un chat"} for n in range(6)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = replace(
        make_arguments(tmp_path, steps=1), train=str(file), valid=str(file), columns=("en", "es")
    )
    main(arguments)
    with pytest.raises(CheckpointError, match=r"the pairs are not .* the same --columns, --leave"):
        main(replace(arguments, resume=True, columns=("es", "en")))


def test_what_must_not_be_seen_is_left_out_and_stays_so(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    """Test data in the languages of the training, and samples, which have other columns."""
    train, test, samples = (tmp_path / f"{name}.jsonl" for name in ("train", "test", "samples"))
    words = ("cat", "dog", "cow", "hen", "pig", "fox")
    train.write_text(
        "".join(json.dumps({"en": f"A {word}.", "es": f"El {word}"}) + "\n" for word in words)
    )
    test.write_text(json.dumps({"en": "a DOG", "es": "otro"}) + "\n")
    samples.write_text(json.dumps({"source": "other", "reference": "¡Él, pig!"}) + "\n")
    arguments = replace(
        make_arguments(tmp_path, steps=1),
        train=str(train),
        valid=str(train),
        leave_out=(str(test), str(samples)),
    )
    prepared = prepare(arguments, load_data(arguments), resume=False)
    assert [pair.source for pair in prepared.examples.pairs] == [
        f"A {word}." for word in ("cat", "cow", "hen", "fox")
    ]
    assert prepared.notes[0].startswith("2 training pairs are left out: a text of them is in ")
    data = prepared.run.info.data
    assert data is not None
    assert (data.train_pairs, data.left_out) == (4, 2)

    message = "the number of pairs left out is not that which the run began with: expected 2, got 0"
    changed = replace(arguments, leave_out=())
    with pytest.raises(CheckpointError, match=message):
        prepare(changed, load_data(changed), resume=True)
    corpus = load_corpus(str(train), source="en", target="es")
    with pytest.raises(CheckpointError, match="the same --columns, --leave-out and --max-pairs"):
        train_sample_of(prepared.run, corpus)
    sources, _ = train_sample_of(prepared.run, corpus, left_out=arguments.leave_out)
    assert len(sources) == 4


def test_data_to_leave_out_that_cannot_be_read_are_named(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    arguments = make_arguments(tmp_path)
    with pytest.raises(DataError, match=r"gone\.jsonl: no such file"):
        load_data(replace(arguments, leave_out=(str(tmp_path / "gone.jsonl"),)))
    with pytest.raises(DataError, match=r"every pair is also in .*train\.jsonl; give other data"):
        load_data(replace(arguments, leave_out=(arguments.train,)))


@pytest.mark.parametrize("given", [True, False])
def test_sentences_too_long_to_measure_are_found_before_the_training(
    make_arguments: MakeArguments, data_folder: Path, tmp_path: Path, given: bool
) -> None:
    """Validation sentences that are too long are left out; given samples are refused."""
    rows = [{"en": "a " * 70, "es": "b"}, {"en": "a cat", "es": "un gato"}]
    valid, samples = tmp_path / "valid.jsonl", tmp_path / "samples.jsonl"
    valid.write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples.write_text(
        "".join(json.dumps({"source": r["en"], "reference": ""}) + "\n" for r in rows)
    )
    arguments = replace(
        make_arguments(tmp_path, steps=1, milestones=()),
        valid=str(valid),
        samples=samples if given else None,
    )
    if given:
        with pytest.raises(
            DataError, match=r"samples\.jsonl: expected at most 61 tokens, got 7. in"
        ):
            main(arguments)
        assert not (tmp_path / "tiny").exists()
    else:
        main(arguments)
        assert [row["source"] for row in open_trained_run("tiny", root=tmp_path).samples()] == [
            "a cat"
        ]


def test_a_converted_run_cannot_be_resumed(
    trained_root: Path, make_arguments: MakeArguments, tmp_path: Path
) -> None:
    shutil.copytree(trained_root / "tiny", tmp_path / "tiny")
    info = open_trained_run("tiny", root=tmp_path).info
    write_info(tmp_path / "tiny", replace(info, training=None, data=None))
    with pytest.raises(CheckpointError, match="converted from a file of weights, so that its"):
        main(replace(make_arguments(tmp_path), resume=True))


def test_what_was_chosen_for_the_person_is_said(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    """What is held back, how long pairs may be, the vocabulary, and that BLEU will be 0."""
    data = tmp_path / "data.tsv"
    rows = [f"{n}\tno {n}" for n in range(100, 140)]
    data.write_text("\n".join(["en\tes", "9\t" + "a " * 70, *rows]))
    arguments = replace(make_arguments(tmp_path), train=str(data), valid=None, rarest_token=20)
    prepared = prepare(arguments, load_data(arguments), resume=False)
    size = prepared.run.tokenizers.source.vocab_size
    assert prepared.notes[1:] == [
        "too long: over 61 tokens, see --training.max-tokens",
        f"2 pairs are held back for validation: {tmp_path}/tiny/valid.jsonl; --valid names others",
        f"vocabulary: {size:,} tokens, merged from what occurs at least 20 times",
        "BLEU says nothing here and will be 0: no target has 4 words, and it counts sequences of "
        "4; read exact and chrF instead",
    ]
    assert size < 420
    given = replace(arguments, run="given", valid=str(data), rarest_token=0)
    said = prepare(given, load_data(given), resume=False).notes
    assert not [note for note in said if "held back" in note or "BLEU" in note]


def test_data_of_which_nothing_is_short_enough_name_the_option(
    make_arguments: MakeArguments, tmp_path: Path
) -> None:
    data = tmp_path / "data.tsv"
    data.write_text("en\tes\n" + "a " * 70 + "\tb\n")
    arguments = replace(make_arguments(tmp_path), train=str(data))
    with pytest.raises(DataError, match=r"data\.tsv: no pair is left: .* --training\.max-tokens"):
        prepare(arguments, load_data(arguments), resume=False)
