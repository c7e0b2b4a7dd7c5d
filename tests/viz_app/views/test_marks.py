"""What a process died of is not computed by the next; where nothing can be marked, all is."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import streamlit as st

from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.marks import CACHE, CrashedBeforeError, marked
from headwise.viz_app.views.shared.turns import SMALL
from tests.imports import ROOT

DIES = """
import os, sys, threading, time
from headwise.viz_app.views.shared.marks import marked

def compute():
    with marked(("trace", "long")):
        begun.set()
        time.sleep(60)

begun = threading.Event()
with marked(("trace", "long")):
    pass
threading.Thread(target=compute, daemon=True).start()
begun.wait()
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
"""


def test_what_a_process_died_of_is_not_taken_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    st.cache_resource.clear()
    monkeypatch.setenv(CACHE, str(tmp_path))
    stopped = subprocess.run([sys.executable, "-c", DIES, "stopped"], cwd=ROOT, check=True)
    assert stopped.returncode == 0
    with marked(("trace", "long")):  # it was told to stop, and died of nothing
        pass
    died = subprocess.run([sys.executable, "-c", DIES, "killed"], cwd=ROOT, check=False)
    assert died.returncode == -9

    def ask(key: str) -> str:
        return cached("trace", key, lambda: "computed", needs=SMALL + 1)

    with pytest.raises(CrashedBeforeError, match=r"ended while it computed this.*for 10 minutes"):
        ask("long")
    with pytest.raises(CrashedBeforeError):  # nor by the one after that
        ask("long")
    assert ask("another") == "computed"
    [mark] = (tmp_path / "computing").iterdir()  # that of the other is gone, and all locks
    os.utime(mark, (0, 0))
    assert ask("long") == "computed"
    assert [*(tmp_path / "computing").iterdir()] == []


def test_what_another_process_computes_now_is_computed_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    with marked("a"), marked("a"):  # another lock, as another process has
        assert len([*(tmp_path / "computing").iterdir()]) == 2
    with pytest.raises(KeyError), marked("a"):
        raise KeyError
    with marked("a"):  # an error is no death
        pass


@pytest.mark.parametrize("where", ["a file", "read-only", "full"])
def test_without_a_folder_for_marks_everything_is_computed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path))
    if where == "a file":
        (tmp_path / "computing").touch()
    else:  # root may write anywhere, and no disk of a test is full
        error = {"read-only": errno.EROFS, "full": errno.ENOSPC}[where]

        def refuse(*_: object, **__: object) -> None:
            raise OSError(error, os.strerror(error))

        monkeypatch.setattr(Path, "mkdir" if where == "read-only" else "touch", refuse)
    with marked("a"):
        pass
    with pytest.raises(KeyError), marked("a"):
        raise KeyError
