from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from headwise.model.checkpoint import CheckpointError, load_weights, open_trained_run
from headwise.model.training.resume import (
    interrupt_between_steps,
    read_resume_state,
    restore,
    save_resume_state,
)
from headwise.model.transformer import Transformer
from tests.tiny import flags_of, tiny_model, tiny_training

# Ctrl-C in a whole training is tested in test_loop.py and test_processes.py.


def test_in_another_thread_the_handler_is_not_changed() -> None:
    def look() -> object:
        with interrupt_between_steps() as asked:
            assert not asked()
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(look).result() == signal.getsignal(signal.SIGINT)


# The saved state


def adam(model: Transformer) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)


def save(folder: Path, model: Transformer, step: int) -> None:
    save_resume_state(folder, model, adam(model), step=step, tokens=5)


def load(folder: Path, model: Transformer, optimiser: torch.optim.Optimizer) -> tuple[int, int]:
    state = read_resume_state(folder, model)
    restore(state, model, optimiser)
    return state.step, state.tokens


def test_a_state_of_an_earlier_version_is_restored(tmp_path: Path) -> None:
    """It contains the number of processes, which no longer matters, and no loss."""
    model = tiny_model()
    save(tmp_path, model, 3)
    state = tmp_path / "resume" / "step-0000003" / "state.json"
    state.write_text('{"step": 3, "tokens": 7, "processes": 4}')
    assert load(tmp_path, model, adam(model)) == (3, 7)
    read = read_resume_state(tmp_path, model)
    assert (read.unlogged_loss, read.unlogged_tokens) == (0, 0)


def _foreign_type(content: bytes) -> bytes:
    """Set the type of the first tensor to one that safetensors has and torch does not."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    first = min(header)
    header[first] |= {"dtype": "F8_E8M0", "shape": [*header[first]["shape"], 4]}
    changed = json.dumps(header).encode()
    return len(changed).to_bytes(8, "little") + changed + content[8 + length :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("state.safetensors", None),
        ("state.safetensors", lambda content: content[:-1]),
        ("state.safetensors", _foreign_type),
        ("state.json", None),
        ("state.json", b"[]"),
        ("state.json", b"[" * 100_000),
        ("state.json", b'{"step": 3, "tokens": Infinity}'),
        ("state.json", b'{"step": 3, "tokens": 5, "unlogged_loss": Infinity}'),
        ("state.json", b'{"step": 3, "tokens": 5, "unlogged_tokens": 0.5}'),
    ],
)
def test_a_missing_or_broken_state_is_named(
    tmp_path: Path, name: str, damage: bytes | Callable[[bytes], bytes] | None
) -> None:
    model = tiny_model()
    with pytest.raises(CheckpointError, match="no resume state; remove the folder and start"):
        load(tmp_path, model, adam(model))
    save(tmp_path, model, 3)
    path = tmp_path / "resume" / "step-0000003" / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage if isinstance(damage, bytes) else damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"state\.safetensors: cannot be resumed from"):
        load(tmp_path, model, adam(model))


# A training in another process that is killed

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


@pytest.mark.parametrize("changes", [{"d_ff": 29}, {"n_decoder_layers": 3}])
def test_the_state_of_another_model_is_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    save(tmp_path, tiny_model(), 3)
    other = tiny_model(**changes)
    with pytest.raises(CheckpointError, match="cannot be resumed from"):
        load(tmp_path, other, adam(other))
