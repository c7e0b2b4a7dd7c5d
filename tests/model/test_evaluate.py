"""``python -m model.evaluate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from model.checkpoint import Run, load_weights, weights_path
from model.corpora import load_corpus
from model.evaluation import evaluate

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
    trained_run: Run,
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
        **vars(evaluate(checkpoint.model, trained_run.tokenizers, pairs)),
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--step", "first"], "error: step: expected a number, last or all, got 'first'"),
        (["--step", "-1"], "error: step: expected a number, last or all, got '-1'"),
        (["--step", "4"], "error: .* no weights of step 4"),
        (["--data", "nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
    ],
)
def test_evaluate_says_what_is_wrong(
    command: Command, trained_root: Path, data_folder: Path, flags: list[str], message: str
) -> None:
    data = [] if "--data" in flags else ["--data", data_folder / "valid.jsonl"]
    with pytest.raises(SystemExit, match=message):
        command("evaluate", "--run", "tiny", "--checkpoints", trained_root, *data, *flags)


def test_evaluate_names_a_broken_checkpoint(
    command: Command, trained_run: Run, tmp_path: Path, data_folder: Path
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
