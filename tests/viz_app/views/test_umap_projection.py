from __future__ import annotations

import numba
import numpy as np
import pytest

from headwise.viz_app.views.embeddings.projection import umap_points


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run UMAP without compiling it, which takes half a minute; a test in the browser compiles."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)


def test_umap_keeps_clusters_together_and_is_the_same_for_the_same_seed() -> None:
    generator = np.random.default_rng(5)
    rows = np.repeat(10 * np.eye(3, 11), 4, axis=0) + generator.standard_normal((12, 11))
    rows = rows.astype(np.float32)
    points = umap_points(rows, neighbours=3)
    assert points.shape == (12, 2)
    assert points.dtype == np.float32
    nearest = ((points[:, None] - points) ** 2).sum(-1) + np.eye(12) * 1e9
    np.testing.assert_array_equal(nearest.argmin(axis=1) // 4, np.arange(12) // 4)
    np.testing.assert_array_equal(umap_points(rows, neighbours=3), points)
    other = umap_points(rows, neighbours=3, seed=2)
    assert not np.array_equal(other, points)


def test_umap_of_few_tokens() -> None:
    rows = np.random.default_rng(6).standard_normal((5, 3)).astype(np.float32)
    assert umap_points(rows).shape == (5, 2)
    with pytest.raises(ValueError, match=r"^expected at least 4 tokens for UMAP, got 3$"):
        umap_points(rows[:3])
