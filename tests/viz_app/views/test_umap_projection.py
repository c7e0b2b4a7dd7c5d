from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numba
import numpy as np
import pytest

from headwise.model.checkpoint import CheckpointError
from headwise.viz_app.views.embeddings.umap_projection import (
    UmapSettings,
    cache_folder,
    compute_points,
    read_points,
    umap_path,
    umap_points,
    write_points,
)

POINTS = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
IDS = np.array([5, 3, 11])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "own"))
    return tmp_path / "own"


def test_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HEADWISE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "headwise"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_folder() == tmp_path / "x" / "headwise"
    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_the_file_name_changes_with_all_that_points_depend_on(cache: Path) -> None:
    path = umap_path("5ha", "source", IDS)
    assert path.parent == cache
    assert path == umap_path("5ha", "source", IDS.copy(), UmapSettings())
    others = [
        umap_path("other", "source", IDS),
        umap_path("5ha", "target", IDS),
        umap_path("5ha", "source", IDS[:2]),
        umap_path("5ha", "source", IDS[::-1]),
        umap_path("5ha", "source", IDS, UmapSettings(neighbours=7)),
        umap_path("5ha", "source", IDS, UmapSettings(least_distance=0.5)),
        umap_path("5ha", "source", IDS, UmapSettings(seed=2)),
    ]
    assert len({path, *others}) == 8


def test_written_points_can_be_read(cache: Path) -> None:
    path = cache / "deeper" / "points.npz"
    assert read_points(path, 7) is None
    write_points(path, POINTS)
    found = read_points(path, 7)
    assert found is not None
    np.testing.assert_array_equal(found, POINTS)
    assert [file.name for file in path.parent.iterdir()] == ["points.npz"]


@pytest.mark.parametrize("damage", ["cut", "altered", "text", "no points", "no files"])
def test_a_damaged_file_is_ignored(cache: Path, damage: str) -> None:
    path = cache / "points.npz"
    write_points(path, POINTS)
    content = path.read_bytes()
    at = content.index(POINTS.tobytes()[:8])
    if damage == "no points":
        np.savez(path, others=POINTS)
    elif damage == "no files":
        zipfile.ZipFile(path, "w").close()
    else:
        altered = content[:at] + b"\0" + content[at + 1 :]
        path.write_bytes(
            {"cut": content[:-40], "altered": altered, "text": b"not an archive"}[damage]
        )
    assert read_points(path, 7) is None


@pytest.mark.parametrize(
    "points",
    [POINTS[:6], POINTS.astype(np.float64), np.full((7, 2), np.nan, np.float32)],
    ids=["fewer", "double", "no numbers"],
)
def test_a_file_with_other_points_is_ignored(cache: Path, points: np.ndarray) -> None:
    cache.mkdir()
    np.savez(cache / "points.npz", points=points)
    assert read_points(cache / "points.npz", 7) is None


class Trap:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


def test_nothing_is_ever_unpickled(cache: Path) -> None:
    cache.mkdir()
    np.savez(cache / "points.npz", points=np.array([Trap(cache / "sprung")], dtype=object))
    assert read_points(cache / "points.npz", 7) is None
    assert not (cache / "sprung").exists()


def test_a_file_without_points_is_ignored(cache: Path) -> None:
    cache.mkdir()
    np.savez(cache / "points.npz", others=POINTS)
    assert read_points(cache / "points.npz", 7) is None
    with zipfile.ZipFile(cache / "points.npz", "w"):
        pass
    assert read_points(cache / "points.npz", 7) is None


def test_a_folder_that_cannot_be_written_to_is_refused(cache: Path) -> None:
    cache.write_text("a file stands where the folder should be")
    with pytest.raises((CheckpointError, OSError)):
        write_points(cache / "points.npz", POINTS)


_COMPUTE = """
import sys
from pathlib import Path

import numpy as np

from headwise.viz_app.views.embeddings import umap_projection as module

def umap_points(rows, settings):
    print("computes", flush=True)
    sys.stdin.readline()
    return rows[:, :2] + float(sys.argv[2])

class FileLock(module.FileLock):
    def __enter__(self):
        print("asks", flush=True)
        return super().__enter__()

module.umap_points, module.FileLock = umap_points, FileLock
rows = np.ones((7, 3), np.float32)
points, kept = module.compute_points(Path(sys.argv[1]), rows, module.UmapSettings())
print(points[0, 0], kept)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_of_two_processes_one_computes_unless_it_is_killed(cache: Path, killed: bool) -> None:
    path = cache / "points.npz"
    with ExitStack() as running:

        def start(added: int) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", _COMPUTE, str(path), str(added)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            process = running.enter_context(subprocess.Popen(command, text=True, **pipes))
            running.callback(process.kill)
            return process

        first = start(1)
        assert [first.stdout.readline() for _ in range(2)] == ["asks\n", "computes\n"]
        second = start(2)
        assert second.stdout.readline() == "asks\n"
        if killed:
            first.kill()
            assert second.communicate("\n", timeout=60)[0] == "computes\n3.0 True\n"
        else:
            assert first.communicate("\n", timeout=60)[0] == "2.0 True\n"
            assert second.communicate("\n", timeout=60)[0] == "2.0 True\n"
    found = read_points(path, 7)
    assert found is not None
    assert (found == (3.0 if killed else 2.0)).all()


def test_points_are_computed_where_they_cannot_be_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "headwise.viz_app.views.embeddings.umap_projection"
    monkeypatch.setattr(f"{module}.umap_points", lambda rows, settings: rows[:, :2])
    cache.write_text("a file stands where the folder should be")
    rows = np.ones((7, 3), np.float32)
    points, kept = compute_points(cache / "points.npz", rows, UmapSettings())
    assert not kept
    np.testing.assert_array_equal(points, rows[:, :2])


@pytest.mark.parametrize("refused", [PermissionError, TimeoutError])
def test_points_are_computed_where_there_is_no_lock_to_be_had(
    cache: Path, monkeypatch: pytest.MonkeyPatch, refused: type[OSError]
) -> None:
    class FileLock:
        def __init__(self, path: Path, *, timeout: float) -> None: ...

        def __enter__(self) -> None:
            raise refused

        def __exit__(self, *_: object) -> None: ...

    module = "headwise.viz_app.views.embeddings.umap_projection"
    monkeypatch.setattr(f"{module}.FileLock", FileLock)
    monkeypatch.setattr(f"{module}.umap_points", lambda rows, settings: rows[:, :2])
    rows = np.ones((7, 3), np.float32)
    assert compute_points(cache / "points.npz", rows, UmapSettings())[1]


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run UMAP without compiling it, which takes half a minute; a test in the browser compiles."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)


@pytest.mark.usefixtures("interpreted")
def test_umap_keeps_clusters_together_and_is_the_same_for_the_same_seed() -> None:
    generator = np.random.default_rng(5)
    rows = np.repeat(10 * np.eye(3, 11), 4, axis=0) + generator.standard_normal((12, 11))
    rows = rows.astype(np.float32)
    points = umap_points(rows, UmapSettings(neighbours=3))
    assert points.shape == (12, 2)
    assert points.dtype == np.float32
    nearest = ((points[:, None] - points) ** 2).sum(-1) + np.eye(12) * 1e9
    np.testing.assert_array_equal(nearest.argmin(axis=1) // 4, np.arange(12) // 4)
    np.testing.assert_array_equal(umap_points(rows, UmapSettings(neighbours=3)), points)
    other = umap_points(rows, UmapSettings(neighbours=3, seed=2))
    assert not np.array_equal(other, points)


@pytest.mark.usefixtures("interpreted")
def test_umap_of_few_tokens() -> None:
    rows = np.random.default_rng(6).standard_normal((5, 3)).astype(np.float32)
    assert umap_points(rows).shape == (5, 2)
    with pytest.raises(ValueError, match=r"^expected at least 4 tokens for UMAP, got 3$"):
        umap_points(rows[:3])
