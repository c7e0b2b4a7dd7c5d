"""Which checkpoints a folder has, while a training writes them and after, and its log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwise.model.files import CheckpointError
from headwise.model.pretrained.folders import is_pretrained
from headwise.model.pretrained.run import PretrainedRun
from tests.model.pretrained.saved import WEIGHTS, trainer_state


def test_checkpoints_appear_when_they_are_complete(training: Path) -> None:
    run = PretrainedRun(training, "out")
    written = training / "checkpoint-120"
    written.mkdir()
    shutil.copy(training / "checkpoint-100" / "config.json", written)
    assert run.steps() == [20, 100]
    weights = (training / "checkpoint-100" / WEIGHTS).read_bytes()
    for share in (0, 5, 500, len(weights) - 1):  # a file that grows
        (written / WEIGHTS).write_bytes(weights[:share])
        assert run.steps() == [20, 100]
    (written / WEIGHTS).write_bytes(weights)
    (written / "trainer_state.json").write_text(trainer_state(120))  # the last that is written
    assert run.steps() == [20, 100, 120]
    assert run.metrics()[-1]["step"] == 120  # the log is read anew as well
    shutil.rmtree(training / "checkpoint-20")  # the Trainer keeps only so many
    assert run.steps() == [100, 120]


def test_checkpoints_without_a_log_appear_when_their_weights_are_whole(training: Path) -> None:
    for path in training.glob("*/trainer_state.json"):
        path.unlink()
    run = PretrainedRun(training, "out")
    assert run.steps() == [20, 100]
    path = training / "checkpoint-100" / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    assert run.steps() == [20]
    assert run.metrics() == []


def test_a_training_without_a_complete_checkpoint_asks_to_wait(training: Path) -> None:
    for step in (20, 100):
        (training / f"checkpoint-{step}" / WEIGHTS).unlink()
    assert is_pretrained(training)
    with pytest.raises(CheckpointError, match="wait for the training, or restore the files"):
        PretrainedRun(training, "out").steps()


def test_damaged_logs_of_a_training_are_left_out(training: Path) -> None:
    path = training / "checkpoint-100" / "trainer_state.json"
    damaged = [trainer_state(100, log_history=rows) for rows in ({}, [1, {"step": -1}])]
    for content in ("[]", *damaged):
        path.write_text(content)
        assert PretrainedRun(training, "out").metrics() == []
    path.write_text("{")
    with pytest.raises(
        CheckpointError, match=r"trainer_state\.json: not JSON .*; restore the file"
    ):
        PretrainedRun(training, "out").metrics()
