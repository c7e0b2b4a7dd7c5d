"""A pipe, a device, a huge file or a link elsewhere stands in place of a file, or null in it.

Reading must end at once, with an error that names the file; nothing that stands elsewhere is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwise.model.checkpoint import CheckpointError, open_trained_run
from headwise.viz_app.lessons.reading import LessonError, read_lesson
from headwise.viz_app.trace.saved import read_trace
from tests.robustness.read_run import read_run
from tests.robustness.test_corrupted_files import KINDS, limited
from tests.robustness.tiny_run import make_run

FILES = sorted({kind.file for kind in KINDS.values() if kind.run == "bpe"})
_SECRET = "what visitors must not see"


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 20 * 2**30)


def _elsewhere(path: Path) -> None:
    """Lead to a file beside the run, of which all else could be right."""
    secret = Path(f"{path}.secret")
    secret.write_text(_SECRET)
    outside = next(each for each in path.parents if (each / "run").exists())
    path.symlink_to(secret.rename(outside / "secret"))


STRANGE: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": _sparse,
    "elsewhere": _elsewhere,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny run, ``bpe``; each test puts back what it changes."""
    folder: Path = tmp_path_factory.mktemp("root")
    (folder / "run").touch()
    make_run(folder / "runs", "bpe")
    return folder


@pytest.fixture
def replaced(root: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file of the run, moved away for the time of the test."""
    path: Path = root / "runs" / "bpe" / request.param
    kept = path.rename(root / "kept")
    yield path
    path.unlink()
    kept.rename(path)


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("replaced", FILES, indirect=True, ids=str)
def test_what_is_no_file_is_refused_at_once(replaced: Path, root: Path, strange: str) -> None:
    STRANGE[strange](replaced)
    with limited():
        found = read_run(root / "runs", "bpe", translating=False)
        if replaced.suffix == ".safetensors" and replaced.parent.name == "bpe":  # weights
            with pytest.raises(CheckpointError, match=replaced.name):
                open_trained_run("bpe", root=root / "runs").load(20)
            return
    assert CheckpointError in found.values()
    assert _SECRET[:10] not in str(found)


@pytest.mark.parametrize("content", ["null", "[]", "3", '"a"', "true"])
@pytest.mark.parametrize("replaced", ["run.json"], indirect=True)
def test_a_run_that_is_no_object_is_named(replaced: Path, root: Path, content: str) -> None:
    replaced.write_text(content)
    with pytest.raises(CheckpointError, match=r"/run\.json: expected an object, got \w+$"):
        open_trained_run("bpe", root=root / "runs")


@pytest.mark.parametrize("strange", ["pipe", "device", "sparse"])
def test_lessons_and_saved_traces_are_files(tmp_path: Path, strange: str) -> None:
    for name, read in (("a.md", read_lesson), ("a.npz", read_trace), ("a.json", read_trace)):
        STRANGE[strange](tmp_path / name)
        with limited(), pytest.raises((LessonError, ValueError), match=name):
            read(tmp_path / name)
