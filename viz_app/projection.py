"""A vocabulary in two dimensions by UMAP, computed once and kept on disk.

UMAP: L. McInnes, J. Healy and J. Melville (2018), arXiv:1802.03426; by ``umap-learn``, which is
imported only here and only when it is wanted: it takes seconds to start.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.files import read_bytes, write_bytes
from viz_app.records import Floats

FEWEST_TOKENS = 4
"""Below this there are no neighbourhoods to speak of."""
_FORMAT = 1
"""Of the files; others are computed anew."""
# The threads that UMAP's compiled parts start are not safe against a second call.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class UmapSettings:
    """What a map depends on beside the embeddings."""

    neighbours: int = 15
    """How many of its nearest each token is tied to, itself among them; fewer of a few tokens."""
    least_distance: float = 0.1
    """How close tokens may lie in the plane."""
    seed: int = 1


def cache_folder() -> Path:
    """Where maps are kept: HEADWISE_CACHE, or ``headwise`` in the user's folder of caches."""
    if own := os.environ.get("HEADWISE_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwise"


def umap_path(
    sha256: str, side: str, ids: NDArray[np.int64], settings: UmapSettings = UmapSettings()
) -> Path:
    """The file of a map, named by all that it depends on.

    Args:
        sha256: of the weights.
        side: whose embeddings, source or target.
        ids: the tokens, (n,), in the order of the points.
        settings: as they are given to UMAP.
    """
    depends_on = [_FORMAT, sha256, side, ids.tolist(), asdict(settings)]
    name = hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"umap-{name}.npz"


def read_points(path: Path, number: int) -> Floats | None:
    """The points (number, 2) in a file; None if it is missing, broken or another's."""
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            points = arrays["points"]
    # What is in a file that others may have written can fail in any of numpy's ways.
    except Exception:
        return None
    if points.shape != (number, 2) or points.dtype != np.float32 or not np.isfinite(points).all():
        return None
    kept: Floats = points
    return kept


def write_points(path: Path, points: Floats) -> None:
    """Write points (n, 2) as a whole or not at all, without pickle.

    Raises:
        CheckpointError: if they cannot be written.
        OSError: if the folder cannot be made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, points=points)
    write_bytes(path, content.getvalue())


def umap_points(rows: Floats, settings: UmapSettings = UmapSettings()) -> Floats:
    """Rows (n, D) in the plane, (n, 2), by the cosines of neighbours; the same for the same seed.

    It begins with their principal components.

    Raises:
        ValueError: if there are too few rows.
    """
    if len(rows) < FEWEST_TOKENS:
        raise ValueError(f"expected at least {FEWEST_TOKENS} tokens for UMAP, got {len(rows)}")
    with _one_at_a_time:
        points = np.asarray(_reducer(len(rows), settings).fit_transform(rows), np.float32)
    if not np.isfinite(points).all():
        raise ValueError("UMAP found no place for some tokens: choose another number of them")
    return points


def _reducer(number: int, settings: UmapSettings) -> Any:
    with warnings.catch_warnings():
        # That TensorFlow is missing, for a part of it that is not used.
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
