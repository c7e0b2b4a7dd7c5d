"""The programs as a person runs them, without starting Python anew each time."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Command = Callable[..., str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a program on arguments; its output, or SystemExit with what it says on failing."""

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
    """Makes a file the standard input."""
    saved = os.dup(0)

    def use(path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        os.dup2(handle, 0)
        os.close(handle)

    yield use
    os.dup2(saved, 0)
    os.close(saved)
