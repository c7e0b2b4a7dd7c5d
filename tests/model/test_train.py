"""``python -m model.train``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from model.checkpoint import load_weights, open_trained_run

Command = Callable[..., str]


@pytest.mark.usefixtures("datasets_cache")
def test_a_run_is_trained_from_the_shell(
    command: Command, tmp_path: Path, data_folder: Path
) -> None:
    flags = (
        f"--run new --train {data_folder}/train.jsonl --valid {data_folder}/valid.jsonl"
        f" --checkpoints {tmp_path} --source es --target en --training.steps 2"
        " --training.precision no --training.milestones 1 --training.log-every 2"
        " --model.n-encoder-layers 1 --model.n-decoder-layers 1"
        " --model.d-model 12 --model.n-heads 3 --model.d-ff 16"
        " --model.source-vocab-size 390 --model.target-vocab-size 400 --model.tied output"
    )
    assert command("train", *flags.split()) == ""
    run = open_trained_run("new", root=tmp_path)
    assert run.steps() == [1, 2]
    assert (run.info.source_language, run.info.target_language) == ("es", "en")
    assert not run.tokenizers.shared
    assert run.info.model.head_width == 4
    assert load_weights(run, 2).model.config == run.info.model


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train", "nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
        (["--run", "../new"], r"error: run: expected a plain folder name, got '\.\./new'"),
        (["--run", ".."], r"error: run: expected a plain folder name, got '\.\.'"),
        (
            ["--model.source-vocab-size", "100"],
            "error: vocab_size: expected more than 260, got 100",
        ),
    ],
)
def test_train_reports_bad_arguments(
    command: Command, tmp_path: Path, data_folder: Path, flags: list[str], message: str
) -> None:
    train = [] if "--train" in flags else ["--train", data_folder / "train.jsonl"]
    with pytest.raises(SystemExit, match=message):
        command(
            "train", "--run", "new", "--checkpoints", tmp_path, *train,
            "--valid", data_folder / "valid.jsonl", "--model.tied", "none", *flags,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
