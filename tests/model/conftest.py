"""Run the programs as a person does, without starting a new Python process each time."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

Command = Callable[..., str]
RunForked = Callable[..., list[tuple[int | None, str]]]

PROLOGUE = """
import os, pathlib
import datasets, torch

handle = os.open({output!r}, os.O_WRONLY | os.O_CREAT)
for stream in (1, 2):
    os.dup2(handle, stream)
datasets.config.HF_DATASETS_CACHE = pathlib.Path({cache!r})
torch.set_num_threads({threads})
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a program and returns its output, or raises SystemExit."""

    def run(program: str, *arguments: object) -> str:
        name = f"model.{program}"
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [program, *map(str, arguments)])
            patch.delitem(sys.modules, name, raising=False)
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        return capfd.readouterr().out

    return run


@pytest.fixture
def stdin() -> Iterator[Callable[[Path], None]]:
    """Return a function that makes a file the standard input."""
    saved = os.dup(0)

    def use(path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        os.dup2(handle, 0)
        os.close(handle)

    yield use
    os.dup2(saved, 0)
    os.close(saved)


@pytest.fixture
def run_forked(
    tmp_path_factory: pytest.TempPathFactory, datasets_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> RunForked:
    """Return a function that runs programs side by side; it returns exit status and output of each.

    Each is a process that is forked from one in which the slow libraries are loaded already.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["headwise.model.train", "torch._dynamo"])
    # New processes would run the main module again; Streamlit's tests leave a script there.
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))

    def run(*programs: str) -> list[tuple[int | None, str]]:
        folder = tmp_path_factory.mktemp("forked")
        processes = []
        for number, program in enumerate(programs):
            path = folder / f"{number}.py"
            output = str(path.with_suffix(".txt"))
            path.write_text(
                PROLOGUE.format(
                    output=output,
                    cache=str(datasets_cache),
                    threads=os.environ.get("OMP_NUM_THREADS", "1"),
                )
                + program
            )
            processes.append(forks.Process(target=runpy.run_path, args=(str(path),)))
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=120)
            process.kill()  # if it hangs, the test fails
            process.join()
        outputs = [path.read_text() for path in sorted(folder.glob("*.txt"))]
        return [(process.exitcode, text) for process, text in zip(processes, outputs, strict=True)]

    return run
