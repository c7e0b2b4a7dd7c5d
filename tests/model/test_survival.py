"""A training in a separate process is killed and started again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise.model.checkpoint import load_weights, open_trained_run
from tests.tiny import flags_of, tiny_training

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kill -9 is of POSIX systems")


PROGRAM = """
import itertools, os, signal
from headwise.model import files, train
from headwise.model.training import loop as training

calls = itertools.count(1)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


{sabotage}

train.main(train.parse({flags}))
"""

IN_A_STEP = """
original = training.cross_entropy


def cross_entropy(*args, **kwargs):
    if next(calls) == {call}:
        kill()
    return original(*args, **kwargs)


training.cross_entropy = cross_entropy
"""

IN_A_WRITE = """
def fsync(handle):
    if next(calls) == {call}:
        os.ftruncate(handle, os.fstat(handle).st_size // 2)
        kill()


files.os.fsync = fsync
"""

IN_A_LOG = """
original = training.append_log


def append_log(path, rows):
    original(path, rows)
    if next(calls) == {call}:
        os.truncate(path, path.stat().st_size - 9)
        kill()


training.append_log = append_log
"""


@pytest.fixture
def train(
    run_forked: Callable[..., list[tuple[int | None, str]]], tmp_path: Path
) -> Callable[[str, int], int]:
    """Return a function that trains in a new process with a fault and returns its exit status."""
    flags = [*flags_of(tiny_training(tmp_path)), "--resume"]

    def run(sabotage: str, call: int) -> int:
        program = PROGRAM.format(sabotage=sabotage.format(call=call), flags=flags)
        [(status, output)] = run_forked(program)
        assert status in (0, -signal.SIGKILL), output
        return status

    return run


def same_end(root: Path, trained_root: Path) -> None:
    """Assert that the run has the weights and samples of one that was never stopped."""
    run, other = (open_trained_run("tiny", root=folder) for folder in (root, trained_root))
    weights = [{s: load_weights(r, s).sha256 for s in r.steps()} for r in (run, other)]
    assert weights[0] == weights[1]
    for name in ("samples.jsonl", "run.json", "counts.json", "resume/step-0000008/state.json"):
        assert (run.folder / name).read_bytes() == (other.folder / name).read_bytes(), name
    assert [row["step"] for row in run.metrics()] == [row["step"] for row in other.metrics()]
    assert not [path for path in run.folder.rglob(".*") if path.is_file()]


WHILE_MADE = [
    (IN_A_WRITE, 2, r"/\.counts\.json\.\w+\.unfinished"),
    (IN_A_WRITE, 4, r"/resume/\.step-0000000\..*/\.state\.safetensors\."),
    (IN_A_WRITE, 3, r"/\.step-0000000\.safetensors\."),
]
WHILE_TRAINING = [
    (IN_A_WRITE, 7, r"/\.step-0000003\.safetensors\."),
    (IN_A_WRITE, 6, r"/resume/\.step-0000004\..*/\.state\.json\."),
    (IN_A_STEP, 14, "/resume/step-0000004"),  # in the second batch of the seventh step
    (IN_A_LOG, 5, ""),
]
"""A fault, at which of its calls, and what it leaves; each goes on from what the former left."""


@pytest.mark.parametrize("kills", [WHILE_MADE, WHILE_TRAINING])
def test_killed_it_ends_as_if_never_stopped(
    train: Callable[[str, int], int],
    trained_root: Path,
    tmp_path: Path,
    kills: list[tuple[str, int, str]],
) -> None:
    for sabotage, call, left in kills:
        assert train(sabotage, call) == -signal.SIGKILL
        assert any(re.search(left, str(path)) for path in tmp_path.rglob("*"))
        assert len([*tmp_path.rglob("*.unfinished")]) <= 2  # of this kill alone
    log = tmp_path / "tiny" / "metrics.jsonl"
    assert not log.exists() or not log.read_bytes().endswith(b"\n")
    assert train("", 0) == 0
    same_end(tmp_path, trained_root)
