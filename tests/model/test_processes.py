"""A training in two processes is the training that one process does."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from model import losses, training
from model.checkpoint import Run, open_run
from model.files import only_writer
from model.options import Arguments
from model.processes import ALONE, Processes, joined
from model.resume import latest_resume_step
from model.train import main

MakeArguments = Callable[..., Arguments]
StartTwo = Callable[..., list[tuple[int | None, str]]]

ROOT = Path(__file__).parents[2]

if sys.platform == "win32":
    pytest.skip("processes are forked here, which Windows does not do", allow_module_level=True)

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["model.train", "torch._dynamo"])  # seconds, only once

PROGRAM = """
import itertools, os, pathlib, sys
import datasets
from model import train, training

sys.argv, path = {argv}, {path!r}
os.environ |= {environment}
index = int(os.environ["RANK"])
datasets.config.HF_DATASETS_CACHE = pathlib.Path({cache!r})
said = os.open(path, os.O_WRONLY | os.O_CREAT)
for handle in (1, 2):
    os.dup2(said, handle)

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
def arguments(make_arguments: MakeArguments) -> Callable[[Path], Arguments]:
    """A training without dropout whose batches have from one row to seven."""

    def make(root: Path) -> Arguments:
        changes = {"steps": 50, "batch_tokens": 41, "milestones": (0, 9), "resume_every": 10}
        made = make_arguments(root, **changes)
        return replace(made, model=replace(made.model, dropout=0.0))

    return make


@pytest.fixture(scope="module")
def alone(arguments: Callable[[Path], Arguments], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that one process made."""
    root = tmp_path_factory.mktemp("alone")
    main(arguments(root))
    return open_run("tiny", root=root)


@pytest.fixture
def start_two(
    to_flags: Callable[[Arguments], list[str]],
    datasets_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> StartTwo:
    """Two processes as on two machines: no launcher tells one what became of the other.

    One may be sent a signal in one of its batches. Exit status of each, and what it said.
    """

    # New processes would run the main module again; Streamlit's tests leave a script there.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))

    def start_two(
        arguments: Arguments, *, victim: int = 0, call: int = 0, number: int = 0
    ) -> list[tuple[int | None, str]]:
        folder = tmp_path_factory.mktemp("two")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        processes = []
        for index in (0, 1):
            environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            environment |= {"RANK": str(index), "LOCAL_RANK": str(index), "OMP_NUM_THREADS": "1"}
            program = folder / f"{index}.py"
            program.write_text(
                PROGRAM.format(
                    argv=["train", *to_flags(arguments), *["--resume"] * arguments.resume],
                    path=f"{folder}/{index}.txt",
                    environment=environment,
                    call=call if index == victim else 0,
                    number=int(number),
                    cache=str(datasets_cache),
                )
            )
            processes.append(FORKS.Process(target=runpy.run_path, args=(str(program),)))
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=120)
            process.kill()  # if it hangs, the test fails
            process.join()
        return [
            (process.exitcode, (folder / f"{index}.txt").read_text())
            for index, process in enumerate(processes)
        ]

    return start_two


def same_curve(one: Run, other: Run) -> None:
    rows, others = one.metrics(), other.metrics()
    assert [row["step"] for row in others] == [row["step"] for row in rows]
    for row, its in zip(rows, others, strict=True):
        assert its.keys() == row.keys()
        for key in row.keys() - {"tokens_per_second"}:
            assert its[key] == pytest.approx(row[key], abs=1e-4), (row["step"], key)


def test_two_processes_take_the_steps_that_one_takes(
    arguments: Callable[[Path], Arguments],
    to_flags: Callable[[Arguments], list[str]],
    datasets_cache: Path,
    alone: Run,
    tmp_path: Path,
) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    finished = subprocess.run(
        [sys.executable, *torchrun, "-m", "--", "model.train", *to_flags(arguments(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env=os.environ | {"HF_DATASETS_CACHE": str(datasets_cache), "OMP_NUM_THREADS": "1"},
    )
    said = finished.stderr
    assert (finished.returncode, finished.stdout) == (0, ""), said
    run = open_run("tiny", root=tmp_path)
    same_curve(alone, run)
    assert [row["step"] for row in run.metrics() if "train_loss" in row] == list(range(1, 51))

    def files(root: Path) -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*")}

    assert files(tmp_path) == files(alone.folder.parent)
    assert (run.folder / "run.json").read_bytes() == (alone.folder / "run.json").read_bytes()
    assert [row["step"] for row in run.samples()] == [s for s in (0, 9, 50) for _ in range(12)]
    assert said.count("48 pairs kept of 48") == 1
    assert re.findall(r"milestone (\d+):", said) == ["0", "9", "50"]


def test_it_goes_on_with_any_number_of_processes(
    start_two: StartTwo,
    arguments: Callable[[Path], Arguments],
    alone: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One ends; three times two go on, and one is interrupted, told to end, killed; one goes on."""
    given, folder = arguments(tmp_path), tmp_path / "tiny"
    goes_on = replace(given, resume=True)
    calls = itertools.count(1)

    def cross_entropy(*args: Any, **kwargs: Any) -> torch.Tensor:
        if next(calls) == 2 * 13:
            raise SystemError("killed")
        return losses.cross_entropy(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(training, "cross_entropy", cross_entropy)
        with pytest.raises(SystemError, match="killed"):
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
    same_curve(alone, open_run("tiny", root=tmp_path))


def test_what_the_main_process_finds_wrong_ends_all(
    start_two: StartTwo, arguments: Callable[[Path], Arguments], tmp_path: Path
) -> None:
    """The others, which wait for it, do not wait for ever; it is said once."""
    with only_writer(tmp_path / "tiny"):
        (first, said), second = start_two(arguments(tmp_path))
    assert first == 1
    assert said.startswith("error: ")
    assert "another training writes into this run" in said
    assert second == (1, "")
    assert not list(tmp_path.iterdir())


def test_a_program_of_one_process_needs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as processes:
        assert processes == ALONE == Processes(0, 1)
        assert processes.is_main
        assert processes.share(lambda: [7]) == [7]
        assert processes.sum(torch.tensor(7.0)) == 7.0
