"""Projects a vocabulary to two dimensions by UMAP, and keeps the result on disk.

UMAP: L. McInnes, J. Healy and J. Melville (2018), arXiv:1802.03426; by ``umap-learn``, which is
an extra of ours, and imported only here and only when it is used: the import takes seconds.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from headwise.model.files import CheckpointError, read_bytes, write_bytes
from headwise.viz_app.records.trace import Floats

FEWEST_TOKENS = 4
"""UMAP needs neighbours: fewer tokens have too few."""
_FORMAT = 1
"""Version of the files; a file of another version is not used."""
_PATIENCE = 600.0
"""Seconds to wait for another process that computes the same points."""
# Two calls of UMAP at once are not safe: its compiled parts start threads.
_LOCK = threading.Lock()


@dataclass(frozen=True)
class UmapSettings:
    """A projection depends on these settings, besides the embeddings."""

    neighbours: int = 15
    """How many nearest neighbours UMAP considers, the token itself included."""
    least_distance: float = 0.1
    """The least distance of two tokens in the plane."""
    seed: int = 1


def cache_folder() -> Path:
    """Return the folder of the files: HEADWISE_CACHE, or ``headwise`` in the user's cache."""
    if own := os.environ.get("HEADWISE_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwise"


def umap_path(
    sha256: str, side: str, ids: NDArray[np.int64], settings: UmapSettings = UmapSettings()
) -> Path:
    """Return the file of a projection; its name has a hash of all that it depends on.

    Args:
        sha256: hash of the weights.
        side: the side that has the embeddings, source or target; empty where both share them.
        ids: the tokens, (n,), in the order of the points.
        settings: settings of UMAP.
    """
    depends_on = [_FORMAT, sha256, side, ids.tolist(), asdict(settings)]
    name = hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"umap-{name}.npz"


def is_installed() -> bool:
    """Return whether ``umap-learn`` is there, without importing it."""
    return find_spec("umap") is not None


def read_points(path: Path, number: int) -> Floats | None:
    """Read points (number, 2); None if the file is missing, damaged or has other points."""
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            points = arrays["points"]
    # NumPy may raise anything on a file that another program wrote.
    except Exception:
        return None
    if points.shape != (number, 2) or points.dtype != np.float32 or not np.isfinite(points).all():
        return None
    kept: Floats = points
    return kept


def write_points(path: Path, points: Floats) -> None:
    """Write points (n, 2), atomically and without pickle.

    Raises:
        CheckpointError: if they cannot be written.
        OSError: if the folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, points=points)
    write_bytes(path, content.getvalue())


def compute_points(path: Path, rows: Floats, settings: UmapSettings) -> tuple[Floats, bool]:
    """Project rows (n, D) to the plane, (n, 2), and write a file; return also whether it is kept.

    Of several processes that share the folder one computes; the others wait and read its file.

    Raises:
        ValueError: if there are too few rows.
    """
    with _waiting_for_others(path):
        points = read_points(path, len(rows))
        if points is not None:
            return points, True
        points = umap_points(rows, settings)
        try:
            write_points(path, points)
        except (CheckpointError, OSError):
            return points, False
        return points, True


@contextmanager
def _waiting_for_others(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which also ends with the process; go on without one if need be.

    That is where the folder cannot be written to, or another process has had the lock for too long.
    """
    with ExitStack() as held:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(path.with_suffix(".lock"), timeout=_PATIENCE))
        yield


def umap_points(rows: Floats, settings: UmapSettings = UmapSettings()) -> Floats:
    """Project rows (n, D) to the plane, (n, 2), by the cosines of neighbours.

    The same seed gives the same points. UMAP starts from the principal components.

    Raises:
        ValueError: if there are too few rows.
    """
    if len(rows) < FEWEST_TOKENS:
        raise ValueError(f"expected at least {FEWEST_TOKENS} tokens for UMAP, got {len(rows)}")
    with _LOCK:
        points = np.asarray(_reducer(len(rows), settings).fit_transform(rows), np.float32)
    if not np.isfinite(points).all():
        raise ValueError("UMAP found no place for some tokens: choose another number of them")
    return points


def _reducer(number: int, settings: UmapSettings) -> Any:
    with warnings.catch_warnings():
        # umap-learn warns that TensorFlow is missing, which only its unused parts need.
        warnings.simplefilter("ignore", ImportWarning)
        from umap import UMAP
    return UMAP(
        n_neighbors=min(settings.neighbours, number - 1),
        min_dist=settings.least_distance,
        metric="cosine",
        init="pca",
        random_state=settings.seed,
        n_jobs=1,  # more would not be the same every time
    )
