"""A training in two processes is the training that one process does."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headwise.model.checkpoint import TrainedRun, open_trained_run
from headwise.model.files import only_writer
from headwise.model.train import main
from headwise.model.training import evaluation
from headwise.model.training import loop as training
from headwise.model.training.options import TrainArguments
from headwise.model.training.processes import ALONE, Processes, join_processes
from headwise.model.training.resume import latest_resume_step
from tests.floats import rounding
from tests.tiny import flags_of, tiny_training

StartTwo = Callable[..., list[tuple[int | None, str]]]

ROOT = Path(__file__).parents[3]

if sys.platform == "win32":
    pytest.skip("processes are forked here, which Windows does not do", allow_module_level=True)

STEPS = 24

PROGRAM = """
import itertools, os, sys
from headwise.model import train
from headwise.model.training import loop as training

sys.argv = {argv}
os.environ |= {environment}
index = int(os.environ["RANK"])
calls, original = itertools.count(1), training.cross_entropy


def cross_entropy(*args, **kwargs):
    if next(calls) == {call}:
        os.kill(os.getpid(), {number})
    return original(*args, **kwargs)


def see(event, args):
    if index and event == "open" and "/tiny/" in str(args[0]):
        os._exit(99)


training.cross_entropy = cross_entropy
sys.addaudithook(see)  # only the main process has files
train.program()
"""


@pytest.fixture(scope="module")
def arguments() -> Callable[[Path], TrainArguments]:
    """A training without dropout whose batches have from one row to seven, pairs joined or not."""

    def make(root: Path) -> TrainArguments:
        changes = {"steps": STEPS, "batch_tokens": 41, "milestones": (0, 9), "resume_every": 10}
        changes |= {"join": 0.2, "replace": 0.5}
        made = tiny_training(root, **changes)
        return replace(made, model=replace(made.model, dropout=0.0))

    return make


@pytest.fixture(scope="module")
def alone(
    arguments: Callable[[Path], TrainArguments], tmp_path_factory: pytest.TempPathFactory
) -> TrainedRun:
    """Train the run in one process."""
    root = tmp_path_factory.mktemp("alone")
    main(arguments(root))
    return open_trained_run("tiny", root=root)


@pytest.fixture
def start_two(run_forked: StartTwo) -> StartTwo:
    """Start two processes as on two machines: no launcher tells one that the other ended.

    One may be sent a signal in one of its batches. Exit status of each, and what it said.
    """

    def start_two(
        arguments: TrainArguments, *, victim: int = 0, call: int = 0, number: int = 0
    ) -> list[tuple[int | None, str]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        programs = []
        for index in (0, 1):
            environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            environment |= {"RANK": str(index), "LOCAL_RANK": str(index), "OMP_NUM_THREADS": "1"}
            program = PROGRAM.format(
                argv=["train", *flags_of(arguments), *["--resume"] * arguments.resume],
                environment=environment,
                call=call if index == victim else 0,
                number=int(number),
            )
            programs.append(program)
        return run_forked(*programs)

    return start_two


COMPUTED = ("train_loss", "gradient_norm", "valid_loss", "train_sample_loss")


def same_curve(one: TrainedRun, other: TrainedRun) -> None:
    """Assert that two logs are equal, but for what is computed in float32 and then rounded."""
    rows, others = one.metrics(), other.metrics()
    assert [row["step"] for row in others] == [row["step"] for row in rows]
    for row, its in zip(rows, others, strict=True):
        assert its.keys() == row.keys()
        for key in row.keys() - {"tokens_per_second"}:
            # Two numbers of four digits; roundings do not grow from step to step here.
            bound = 0.0001 + rounding(torch.float32, row[key]) if key in COMPUTED else 0
            assert its[key] == pytest.approx(row[key], rel=0, abs=bound), (row["step"], key)


def test_two_processes_compute_the_same_steps_as_one(
    arguments: Callable[[Path], TrainArguments],
    datasets_cache: Path,
    alone: TrainedRun,
    tmp_path: Path,
) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    finished = subprocess.run(
        [sys.executable, *torchrun, "headwise.model.train", *flags_of(arguments(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env=os.environ | {"HF_DATASETS_CACHE": str(datasets_cache), "OMP_NUM_THREADS": "1"},
    )
    said = finished.stderr
    assert (finished.returncode, finished.stdout) == (0, ""), said
    run = open_trained_run("tiny", root=tmp_path)
    same_curve(alone, run)
    assert [row["step"] for row in run.metrics() if "train_loss" in row] == [*range(1, STEPS + 1)]
    files, expected = (
        {str(path.relative_to(root)) for path in root.rglob("*")}
        for root in (tmp_path, alone.folder.parent)
    )
    assert files == expected
    assert (run.folder / "run.json").read_bytes() == (alone.folder / "run.json").read_bytes()
    assert [row["step"] for row in run.samples()] == [s for s in (0, 9, STEPS) for _ in range(12)]
    assert said.count("48 pairs kept of 48") == 1
    assert re.findall(r"milestone (\d+):", said) == ["0", "9", str(STEPS)]


def test_training_resumes_with_any_number_of_processes(
    start_two: StartTwo,
    arguments: Callable[[Path], TrainArguments],
    alone: TrainedRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One process stops; two resume, interrupted, terminated, killed in turn; one resumes."""
    given, folder = arguments(tmp_path), tmp_path / "tiny"
    goes_on = replace(given, resume=True)
    batches = [evaluation.cross_entropy] * (2 * 13 - 1)  # it ends in its thirteenth step
    with monkeypatch.context() as patch:
        patch.setattr(training, "cross_entropy", lambda *args, **of: batches.pop()(*args, **of))
        with pytest.raises(IndexError):
            main(given)
    assert latest_resume_step(folder) == 10

    (first, said), second = start_two(goes_on, victim=1, call=2 * 7, number=signal.SIGINT)
    assert first == 1, said
    assert "stopped; the state is saved: go on with the same command and --resume" in said
    assert second == (1, "")
    assert latest_resume_step(folder) == 17

    (first, said), ended = start_two(goes_on, victim=1, call=2 * 2, number=signal.SIGTERM)
    assert (first, ended[0]) == (1, 1)
    assert "error: process 1 of 2: another process ended or cannot be reached (" in said
    assert "error: process 2 of 2: told to end, as happens when another" in ended[1]
    assert latest_resume_step(folder) == 17

    killed, (second, said) = start_two(goes_on, victim=0, call=2 * 6, number=signal.SIGKILL)
    assert (killed[0], second) == (-signal.SIGKILL, 1), said
    assert "error: process 2 of 2: another process ended or cannot be reached (" in said
    assert "go on with the same command and --resume" in said
    assert "Traceback" not in said
    assert latest_resume_step(folder) == 20

    main(goes_on)
    same_curve(alone, open_trained_run("tiny", root=tmp_path))


def test_an_error_in_the_main_process_ends_all(
    start_two: StartTwo, arguments: Callable[[Path], TrainArguments], tmp_path: Path
) -> None:
    """The others do not wait for ever, and the error is printed once."""
    with only_writer(tmp_path / "tiny"):
        (first, said), second = start_two(arguments(tmp_path))
    assert first == 1
    assert said.startswith("error: ")
    assert "another training writes into this run" in said
    assert second == (1, "")
    assert not list(tmp_path.iterdir())


def test_a_program_of_one_process_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes() as processes:
        assert processes == ALONE == Processes(0, 1)
        assert processes.is_main
        assert processes.share(lambda: [7]) == [7]
        assert processes.sum(torch.tensor(7.0)) == 7.0


def test_processes_do_not_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name, value in {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    said = "there are 2 processes on this machine and 1 GPU, .*--nproc-per-node 1"
    with pytest.raises(ValueError, match=said), join_processes():
        pass
