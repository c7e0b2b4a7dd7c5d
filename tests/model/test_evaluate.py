"""``python -m headwise.model.evaluate``."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run, write_info
from headwise.model.decoding.translation import GREEDY, Decoding
from headwise.model.files import append_log, read_log, write_log
from headwise.model.train import main as train
from headwise.model.training.corpora import load_corpus
from headwise.model.training.evaluation import Evaluation, evaluate
from tests.floats import rounding
from tests.tiny import DATA, tiny_training

Command = Callable[..., str]


VALID = DATA / "valid.jsonl"


def written(figures: Evaluation) -> dict[str, Any]:
    """Figures as JSON has them; the ends of an interval without a width are unknown there."""
    return {k: None if v != v else v for k, v in vars(figures).items()}


@pytest.mark.parametrize(
    ("flags", "steps"), [([], [8]), (["last"], [8]), (["3"], [3]), (["all"], [0, 3, 5, 8])]
)
def test_evaluate_prints_a_line_of_json_for_each_checkpoint(
    tiny: Command, trained_run: TrainedRun, flags: list[str], steps: list[int]
) -> None:
    step = ["--step", *flags] if flags else []
    rows = [json.loads(line) for line in tiny("evaluate", "--data", VALID, *step).splitlines()]
    assert [row["step"] for row in rows] == steps
    checkpoint = load_weights(trained_run, steps[-1])
    pairs = load_corpus(str(VALID), source="en", target="es").pairs
    assert rows[-1] == {
        "run": "tiny",
        "step": steps[-1],
        "sha256": checkpoint.sha256,
        "data": "valid.jsonl",
        "data_sha256": hashlib.sha256(VALID.read_bytes()).hexdigest(),
        "decoding": vars(GREEDY),
        "dtype": "float32",
        **written(evaluate(checkpoint.model, trained_run.tokenizers, pairs)),
    }


@pytest.mark.parametrize(
    ("flags", "decoding"),
    [
        ("--beam 3", Decoding(beam=3)),
        ("--beam 3 --length-penalty 1", Decoding(beam=3, length_penalty=1)),
        ("--beam 3 --early-stopping", Decoding(beam=3, early_stopping=True)),
        ("--temperature 0.5 --top-p 0.8 --seed 3", Decoding(temperature=0.5, top_p=0.8, seed=3)),
    ],
)
def test_the_way_of_decoding_is_used_and_printed(
    tiny: Command, monkeypatch: pytest.MonkeyPatch, flags: str, decoding: Decoding
) -> None:
    asked = []

    def spy(_: Any, __: Any, texts: list[str], decoding: Decoding) -> list[str]:
        asked.append(decoding)
        return texts

    monkeypatch.setattr("headwise.model.training.evaluation.translate", spy)
    row = json.loads(tiny("evaluate", "--data", VALID, *flags.split()))
    assert row["decoding"] == vars(decoding)
    assert asked == [decoding]


# The sample of training pairs


def without_sample(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "train_sample_loss"}


@pytest.fixture
def old_run(trained_root: Path, tmp_path: Path) -> Path:
    """A run whose log has no loss of a sample."""
    folder = shutil.copytree(trained_root / "tiny", tmp_path / "tiny")
    log = folder / "metrics.jsonl"
    write_log(log, list(map(without_sample, read_log(log))))
    return folder


@pytest.fixture
def measure_sample(tiny: Command, old_run: Path) -> Command:
    """Return a function that measures the sample of the old run."""
    given = ["--checkpoints", old_run.parent, "--train-sample"]
    train = ["--data", DATA / "train.jsonl"]
    return lambda *flags: tiny("evaluate", *given, *train, *flags)


@pytest.mark.parametrize(("flags", "steps"), [(["--step", "all"], [0, 3, 5, 8]), ([], [8])])
def test_the_loss_of_the_train_sample_is_added_to_an_older_log(
    measure_sample: Command,
    trained_run: TrainedRun,
    old_run: Path,
    flags: list[str],
    steps: list[int],
) -> None:
    """As a training of today logs it."""
    rows = [json.loads(line) for line in measure_sample(*flags).splitlines()]
    today = {row["step"]: row for row in trained_run.metrics() if "valid_loss" in row}
    assert [row["step"] for row in rows] == steps
    for row in rows:
        expected = today[row["step"]]["train_sample_loss"]
        bound = 0.00005 + rounding(torch.float32, expected)  # the log has four digits
        assert row["train_sample_loss"] == pytest.approx(expected, rel=0, abs=bound)
        assert row["pairs"] == 48
        assert row["sha256"] == load_weights(trained_run, row["step"]).sha256
    assert list(read_log(old_run / "metrics.jsonl")) == [
        row if row["step"] in steps else without_sample(row) for row in trained_run.metrics()
    ]


def test_what_milestones_measure_is_measured_again_and_added_to_an_older_log(
    tiny: Command, trained_run: TrainedRun, old_run: Path
) -> None:
    """As a training of today logs it; of the validation data only."""
    new = ("bleu_low", "bleu_high", "chrf_low", "chrf_high", "valid_pairs", "valid_sources")
    log = old_run / "metrics.jsonl"
    older = [{k: v for k, v in row.items() if k not in new} for row in trained_run.metrics()]
    write_log(log, older)
    flags = ["--checkpoints", old_run.parent, "--valid", "--step", "all", "--data"]
    with pytest.raises(SystemExit, match="expected the validation data of tiny, got others"):
        tiny("evaluate", *flags, DATA / "train.jsonl")
    assert list(read_log(log)) == older
    tiny("evaluate", *flags, DATA / "valid.jsonl")
    assert list(read_log(log)) == list(trained_run.metrics())
    last = list(read_log(log))[-1]
    assert last["valid_pairs"] >= last["valid_sources"] > 0
    assert last["chrf_low"] < last["chrf_high"]


def test_the_train_sample_is_of_the_pairs_of_the_training(tiny: Command, tmp_path: Path) -> None:
    arguments = replace(tiny_training(tmp_path, steps=1, milestones=()), max_pairs=11)
    train(arguments)
    log = tmp_path / "tiny" / "metrics.jsonl"
    before = log.read_bytes()
    flags = ["--checkpoints", tmp_path, "--data", arguments.train, "--train-sample"]
    with pytest.raises(SystemExit, match=r"the pairs are not those .* --max-pairs"):
        tiny("evaluate", *flags)
    assert json.loads(tiny("evaluate", *flags, "--max-pairs", 11))["pairs"] == 11
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
    measure_sample: Command, old_run: Path, change: Callable[[Path], None], message: str
) -> None:
    data = shutil.copy(DATA / "train.jsonl", old_run.parent)
    change(old_run)
    before = (old_run / "metrics.jsonl").read_bytes()
    with pytest.raises(SystemExit, match=message):
        measure_sample("--data", data)
    assert (old_run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--step first", "error: step: expected a number, last or all, got 'first'"),
        ("--step -1", "error: step: expected a number, last or all, got '-1'"),
        ("--columns x es", "error: .*valid.jsonl, line 1: expected a column 'x', got 'en'"),
        ("--data nowhere.jsonl", "error: nowhere.jsonl: no such file"),
    ],
)
def test_evaluate_reports_bad_arguments(tiny: Command, flags: str, message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        tiny("evaluate", "--data", VALID, *flags.split())
