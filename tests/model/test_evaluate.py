"""``python -m headwise.model.evaluate``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.model.checkpoint import (
    TrainedRun,
    load_weights,
    open_trained_run,
    weights_path,
    write_info,
)
from headwise.model.decoding.translation import GREEDY, Decoding, translate
from headwise.model.evaluate import EvaluateArguments
from headwise.model.files import append_log, only_writer, read_log, write_log
from headwise.model.train import main as train
from headwise.model.training.corpora import load_corpus
from headwise.model.training.data import Pair
from headwise.model.training.evaluation import evaluate
from headwise.model.training.options import TrainArguments
from tests.floats import rounding

Command = Callable[..., str]


@pytest.mark.parametrize(
    ("flags", "steps"),
    [
        ([], [8]),
        (["--step", "last"], [8]),
        (["--step", "3"], [3]),
        (["--step", "all"], [0, 3, 5, 8]),
    ],
)
def test_evaluate_prints_a_line_of_json_for_each_checkpoint(
    command: Command,
    trained_run: TrainedRun,
    trained_root: Path,
    data_folder: Path,
    flags: list[str],
    steps: list[int],
) -> None:
    data = data_folder / "valid.jsonl"
    output = command(
        "evaluate", "--run", "tiny", "--data", data, "--checkpoints", trained_root, *flags
    )
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["step"] for row in rows] == steps
    checkpoint = load_weights(trained_run, steps[-1])
    pairs = load_corpus(str(data), source="en", target="es").pairs
    assert rows[-1] == {
        "run": "tiny",
        "step": steps[-1],
        "sha256": checkpoint.sha256,
        "data": "valid.jsonl",
        "decoding": vars(GREEDY),
        "dtype": "float32",
        **vars(evaluate(checkpoint.model, trained_run.tokenizers, pairs)),
    }


@pytest.mark.parametrize(
    ("flags", "decoding"),
    [
        (["--beam", 3], Decoding(beam=3)),
        (["--beam", 3, "--length-penalty", 1], Decoding(beam=3, length_penalty=1)),
        (["--beam", 3, "--early-stopping"], Decoding(beam=3, early_stopping=True)),
        (
            ["--temperature", 0.5, "--top-p", 0.8, "--seed", 3],
            Decoding(temperature=0.5, top_p=0.8, seed=3),
        ),
    ],
)
def test_the_way_of_decoding_is_used_and_printed(
    command: Command,
    trained_run: TrainedRun,
    trained_root: Path,
    data_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: list[object],
    decoding: Decoding,
) -> None:
    asked = []

    def spy(*arguments: Any, decoding: Decoding) -> list[str]:
        asked.append(decoding)
        return translate(*arguments, decoding=decoding)

    monkeypatch.setattr("headwise.model.training.evaluation.translate", spy)
    data = data_folder / "valid.jsonl"
    run = ["--run", "tiny", "--data", data, "--checkpoints", trained_root]
    row = json.loads(command("evaluate", *run, *flags))
    pairs = load_corpus(str(data), source="en", target="es").pairs
    model = load_weights(trained_run, 8).model
    wanted = vars(evaluate(model, trained_run.tokenizers, pairs, decoding))
    assert {key: row[key] for key in wanted} == wanted
    assert row["decoding"] == vars(decoding)
    assert asked == [decoding, decoding]


def test_columns_are_named(
    command: Command, trained_run: TrainedRun, trained_root: Path, tmp_path: Path
) -> None:
    data = tmp_path / "a.tsv"
    data.write_text("es\tanswer\tquestion\nno\tEl gato.\tThe cat.\n", encoding="utf-8")
    flags = ["--run", "tiny", "--checkpoints", trained_root, "--data", data]
    row = json.loads(command("evaluate", *flags, "--columns", "question", "answer"))
    model = load_weights(trained_run, 8).model
    figures = evaluate(model, trained_run.tokenizers, [Pair("The cat.", "El gato.")])
    assert {key: row[key] for key in vars(figures)} == vars(figures)


@pytest.fixture
def old_run(trained_root: Path, tmp_path: Path) -> Path:
    """A run whose log has no loss of a sample."""
    folder = shutil.copytree(trained_root / "tiny", tmp_path / "tiny")
    log = folder / "metrics.jsonl"
    rows = [{k: v for k, v in row.items() if k != "train_sample_loss"} for row in read_log(log)]
    write_log(log, rows)
    return folder


@pytest.mark.parametrize(("flags", "steps"), [(["--step", "all"], [0, 3, 5, 8]), ([], [8])])
def test_the_loss_of_the_train_sample_is_added_to_an_older_log(
    command: Command,
    trained_run: TrainedRun,
    old_run: Path,
    data_folder: Path,
    flags: list[str],
    steps: list[int],
) -> None:
    """As a training of today logs it."""
    data = ["--data", data_folder / "train.jsonl", "--train-sample"]
    output = command("evaluate", "--run", "tiny", "--checkpoints", old_run.parent, *data, *flags)
    rows = [json.loads(line) for line in output.splitlines()]
    today = {row["step"]: row for row in trained_run.metrics() if "valid_loss" in row}
    assert [row["step"] for row in rows] == steps
    for row in rows:
        expected = today[row["step"]]["train_sample_loss"]
        bound = 0.00005 + rounding(torch.float32, expected)  # the log has four digits
        assert row["train_sample_loss"] == pytest.approx(expected, rel=0, abs=bound)
        assert row["pairs"] == 48
        assert row["sha256"] == load_weights(trained_run, row["step"]).sha256
    assert list(read_log(old_run / "metrics.jsonl")) == [
        row
        if row.get("train_sample_loss") is None or row["step"] in steps
        else {key: value for key, value in row.items() if key != "train_sample_loss"}
        for row in trained_run.metrics()
    ]


def test_the_train_sample_is_of_as_many_pairs_as_the_training_had(
    command: Command, make_arguments: Callable[..., TrainArguments], tmp_path: Path
) -> None:
    arguments = replace(make_arguments(tmp_path, steps=1, milestones=()), max_pairs=11)
    train(arguments)
    log = tmp_path / "tiny" / "metrics.jsonl"
    before = log.read_bytes()
    flags = ["--run", "tiny", "--checkpoints", tmp_path, "--data", arguments.train]
    with pytest.raises(SystemExit, match=r"the pairs are not those .* --max-pairs"):
        command("evaluate", *flags, "--train-sample")
    row = json.loads(command("evaluate", *flags, "--train-sample", "--max-pairs", 11))
    assert row["pairs"] == 11
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda folder: append_log(folder.parent / "train.jsonl", [{"en": "a", "es": "b"}]),
            "error: .*train.jsonl is not the training data that the run began with, train.jsonl: ",
        ),
        (
            lambda folder: (folder / "metrics.jsonl").write_text(""),
            "error: .*metrics.jsonl: expected a row with valid_loss for each step, got none for 8",
        ),
        (
            lambda folder: write_info(
                folder, replace(open_trained_run("tiny", root=folder.parent).info, data=None)
            ),
            "error: .*tiny: converted from a file of weights",
        ),
    ],
)
def test_a_log_stays_as_it_is_where_the_train_sample_cannot_be_measured(
    command: Command,
    old_run: Path,
    data_folder: Path,
    change: Callable[[Path], None],
    message: str,
) -> None:
    data = shutil.copy(data_folder / "train.jsonl", old_run.parent)
    change(old_run)
    before = (old_run / "metrics.jsonl").read_bytes()
    flags = ["--run", "tiny", "--checkpoints", old_run.parent, "--data", data, "--train-sample"]
    with pytest.raises(SystemExit, match=message):
        command("evaluate", *flags)
    assert (old_run / "metrics.jsonl").read_bytes() == before


def test_a_training_that_writes_is_left_alone(
    command: Command, old_run: Path, data_folder: Path
) -> None:
    flags = ["--run", "tiny", "--checkpoints", old_run.parent, "--train-sample"]
    with only_writer(old_run), pytest.raises(SystemExit, match="another training writes into"):
        command("evaluate", *flags, "--data", data_folder / "train.jsonl")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--step", "first"], "error: step: expected a number, last or all, got 'first'"),
        (["--step", "-1"], "error: step: expected a number, last or all, got '-1'"),
        (["--step", "4"], "error: .* no weights of step 4"),
        (["--columns", "x", "es"], "error: .*valid.jsonl, line 1: expected a column 'x', got 'en'"),
        (["--beam", "0"], "error: beam: expected at least 1, got 0"),
        (["--data", "nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
    ],
)
def test_evaluate_reports_bad_arguments(
    command: Command, trained_root: Path, data_folder: Path, flags: list[str], message: str
) -> None:
    data = [] if "--data" in flags else ["--data", data_folder / "valid.jsonl"]
    with pytest.raises(SystemExit, match=message):
        command("evaluate", "--run", "tiny", "--checkpoints", trained_root, *data, *flags)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_pairs": 3}, "max_pairs: expected with --train-sample only"),
        ({"leave_out": ("a.tsv",)}, "leave_out: expected with --train-sample only"),
        ({"max_pairs": 0, "train_sample": True}, "max_pairs: expected at least 1, got 0"),
    ],
)
def test_pairs_are_counted_for_the_train_sample_alone(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EvaluateArguments(run="tiny", data="valid.jsonl", **given)


def test_evaluate_names_a_broken_checkpoint(
    command: Command, trained_run: TrainedRun, tmp_path: Path, data_folder: Path
) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in ("run.json", "tokenizer.json"):
        (folder / name).write_bytes((trained_run.folder / name).read_bytes())
    weights_path(folder, 8).write_bytes(b"x" * 100)
    with pytest.raises(SystemExit, match=r"error: .*step-0000008\.safetensors: truncated"):
        command(
            "evaluate", "--run", "tiny", "--checkpoints", tmp_path,
            "--data", data_folder / "valid.jsonl",
        )  # fmt: skip
