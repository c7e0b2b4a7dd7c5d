"""A disk that takes nothing: commands say so in a line, and leave no half file.

Of a full one, the limit that a process has for the size of files stands for it where it can: the
system then really ends a write in the middle.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.files import has_writer
from headwise.viz_app.trace.saved import to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.viz_app.conftest import RunCommand

if TYPE_CHECKING:
    from headwise.model.training.options import TrainArguments

ReadOnly = Callable[[Path], AbstractContextManager[list[str]]]

pytestmark = pytest.mark.usefixtures("datasets_cache")

TEXT = "Where is the old dog?"


def tree(folder: Path) -> dict[str, bytes]:
    """Path → content of all files; none of them half written under another name."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Commands


@pytest.fixture
def measure(own_root: Path, tmp_path: Path, run_command: RunCommand) -> Callable[[], str]:
    """Measures the last checkpoint of ``own_root``, which fails; what it says."""
    path = tmp_path / "valid.jsonl"
    pair = {"source": TEXT, "reference": "¿Dónde está?"}
    path.write_text(json.dumps(pair) + "\n", encoding="utf-8")
    line = ["--run", "tiny", "--checkpoints", str(own_root), "--steps", "60"]
    line += ["--data", str(path), "--columns", "source", "reference", "--examples", str(path)]
    return lambda: run_command("headwise.viz_app.measure", *line)


def test_the_refusal_is_real(read_only: ReadOnly, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with read_only(tmp_path) as refused:
        for change in (
            (tmp_path / "a").write_bytes,
            (tmp_path / "b").write_bytes,
            lambda _: (tmp_path / "a").rename(tmp_path / "b"),
            lambda _: (tmp_path / "a").unlink(),
            lambda _: (tmp_path / "c").mkdir(),
        ):
            with pytest.raises(OSError, match="Read-only file system"):
                change(b"")
        assert (tmp_path / "a").read_bytes() == b""
    assert len(refused) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_ended_training_is_not_taken_for_a_running_one(
    read_only: ReadOnly, tmp_path: Path
) -> None:
    (tmp_path / "training.lock").touch()
    with read_only(tmp_path):
        assert not has_writer(tmp_path)


def test_measures_that_cannot_be_written(
    read_only: ReadOnly, own_root: Path, measure: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, folder = tree(own_root), own_root / "tiny" / "measures"
    with read_only(own_root):
        said = measure()
    assert said.startswith(f"error: {folder}: cannot be made (Read-only file system); see to that")
    assert tree(own_root) == before

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    path = folder / "sentences.jsonl"
    assert measure().startswith(f"error: {path}: cannot be written (No space left on device); ")
    assert tree(own_root) == before


def test_an_export_into_a_read_only_folder(
    run_command: RunCommand, read_only: ReadOnly, run_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.html"
    line = ["--run", "tiny", "--checkpoints", str(run_root), "--text", TEXT, str(out)]
    with read_only(tmp_path):
        said = run_command("headwise.viz_app.export", *line)
    assert said.startswith(f"error: {out}: cannot be written (Read-only file system); ")
    assert "run the command again" in said
    assert not tree(tmp_path)


@pytest.mark.parametrize("resume", [False, True], ids=["new", "resumed"])
def test_a_training_into_a_read_only_folder(
    make_arguments: Callable[..., TrainArguments],
    to_flags: Callable[[TrainArguments], list[str]],
    run_command: RunCommand,
    read_only: ReadOnly,
    own_root: Path,
    resume: bool,
) -> None:
    root = own_root if resume else own_root.parent
    before = tree(root)
    with read_only(root):
        line = [*to_flags(make_arguments(root)), *["--resume"] * resume]
        said = run_command("headwise.model.train", *line)
    assert said.startswith(f"error: {root / 'tiny'}: cannot be written (Read-only file system); ")
    assert tree(root) == before


@pytest.mark.parametrize(("ending", "old"), [("html", b"old"), ("npz", None), ("json", b"old")])
def test_an_export_that_does_not_fit(
    run: TrainedRun, run_command: RunCommand, tmp_path: Path, ending: str, old: bytes | None
) -> None:
    resource = pytest.importorskip("resource", reason="only POSIX limits the size of files")
    saved = tmp_path / "saved.npz"
    saved.write_bytes(to_npz(run_trace(load_weights(run, 60).model, run.tokenizers, TEXT)))
    out = tmp_path / f"out.{ending}"
    if old is not None:
        out.write_bytes(old)
    before = tree(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        said = run_command("headwise.viz_app.export", "--trace", str(saved), str(out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert said.startswith(f"error: {out}: cannot be written (File too large); what was written")
    assert tree(tmp_path) == before
