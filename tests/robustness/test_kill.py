"""``kill.py`` notices what is broken after a kill; tests/model/test_survival.py kills trainings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwise.model.checkpoint import CheckpointError, weights_path
from tests.robustness import kill


@pytest.fixture
def root(trained_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a finished training, which ``kill.py`` reads as its own."""
    monkeypatch.setattr(kill, "_RUN", "tiny")
    return shutil.copytree(trained_root, tmp_path / "runs")


def test_check_says_how_far_a_training_was(root: Path) -> None:
    assert kill.check(root) == "after the state of a step from 0 on"
    shutil.rmtree(root / "tiny" / "resume")
    assert kill.check(root) == "before the first state"
    (root / "tiny" / "run.json").unlink()
    assert kill.check(root) == "before run.json"


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "tokenizer.json",
        "counts.json",
        "step-0000003.safetensors",
        "resume/step-0000008/state.safetensors",
        "resume/step-0000008/state.json",
    ],
)
def test_half_a_file_is_noticed(root: Path, name: str) -> None:
    path = root / "tiny" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError):
        kill.check(root)


def test_what_differs_at_the_end_is_named(root: Path, trained_root: Path) -> None:
    expected = kill.end_of(trained_root)
    assert {"step 0", "step 8", "state", "metrics", "samples.jsonl", "counts.json"} < set(expected)
    assert kill.compare(root, expected) == []
    weights_path(root / "tiny", 5).unlink()
    log = root / "tiny" / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    (root / "tiny" / ".left.unfinished").touch()
    assert kill.compare(root, expected) == [".left.unfinished", "metrics", "step 5"]
