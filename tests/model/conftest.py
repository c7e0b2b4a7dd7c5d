"""Run the programs as a person does, without starting a new Python process each time.

And a model, with sources, for the tests of decoding.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from headwise.model.config import EOS
from headwise.model.transformer import Transformer
from tests.commands import run_module
from tests.tiny import tiny_ids, tiny_model

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
        name = f"headwise.model.{program}"
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [program, *map(str, arguments)])
            run_module(name, patch)
        return capfd.readouterr().out

    return run


@pytest.fixture
def tiny(command: Command, trained_root: Path) -> Command:
    """Return a function that runs a program on the run ``tiny``; later options change earlier."""

    def run(program: str, *arguments: object) -> str:
        return command(program, "--run", "tiny", "--checkpoints", trained_root, *arguments)

    return run


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
    threads = os.environ.get("OMP_NUM_THREADS", "1")

    def run(*programs: str) -> list[tuple[int | None, str]]:
        folder = tmp_path_factory.mktemp("forked")
        processes = []
        for number, program in enumerate(programs):
            path = folder / f"{number}.py"
            output, cache = str(path.with_suffix(".txt")), str(datasets_cache)
            prologue = PROLOGUE.format(output=output, cache=cache, threads=threads)
            path.write_text(prologue + program)
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


@pytest.fixture(scope="session")
def model() -> Transformer:
    """Make a model of which some targets end early and others reach their limit.

    It has a bias on ``</s>``, and is in float64: no two tokens are nearly tied.
    """
    made = tiny_model(output_bias=True, tied="none").double()
    with torch.no_grad():
        made.unembedding.bias[EOS] += 1
    return made


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    return [[*row[row != 0].tolist(), EOS] for row in tiny_ids([7, 2, 5, 1, 11, 3], 37)]
