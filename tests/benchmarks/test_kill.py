"""What ``benchmarks/kill.py`` sees after a kill; that kills do no harm is tested of training."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from model.checkpoint import CheckpointError, weights_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, looking at the run of the tests."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import kill

    monkeypatch.setattr(kill, "_RUN", "tiny")
    return kill


@pytest.fixture
def root(trained_root: Path, tmp_path: Path) -> Path:
    """A copy of a training that came to its end."""
    return shutil.copytree(trained_root, tmp_path / "runs")


def test_it_says_how_far_a_training_came(kill: ModuleType, root: Path) -> None:
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
def test_half_a_file_is_noticed(kill: ModuleType, root: Path, name: str) -> None:
    path = root / "tiny" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError):
        kill.check(root)


def test_what_differs_in_the_end_is_named(kill: ModuleType, root: Path, trained_root: Path) -> None:
    expected = kill.end_of(trained_root)
    assert {"step 0", "step 8", "state", "metrics", "samples.jsonl", "counts.json"} < set(expected)
    assert kill.compare(root, expected) == []
    weights_path(root / "tiny", 5).unlink()
    log = root / "tiny" / "metrics.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    (root / "tiny" / ".left.unfinished").touch()
    assert kill.compare(root, expected) == [".left.unfinished", "metrics", "step 5"]
