from __future__ import annotations

import numpy as np
import pytest

from headwise.viz_app.analysis.embeddings import (
    all_pairs,
    pair_cosines,
    principal_components,
    project_together,
    rotate_onto,
)
from tests.floats import assert_near


def test_all_pairs() -> None:
    assert all_pairs([5, 2, 5, 9]) == [(5, 2), (5, 9), (2, 9)]
    assert all_pairs([5, 5]) == []


def test_pair_cosines_by_hand() -> None:
    first = np.array([[1, 0], [1, 1], [0, 0]], np.float32)
    second = np.array([[1, 0], [-2, 0], [0, 3]], np.float32)
    found = pair_cosines([first, second], [(0, 1), (0, 2)])
    assert_near(found, [[0.5**0.5, 0], [-1, 0]])


def test_rotate_onto_undoes_rotation_and_shift() -> None:
    rng = np.random.default_rng(5)
    onto = rng.standard_normal((13, 7))
    rotation, _ = np.linalg.qr(rng.standard_normal((7, 7)))
    turned = rotate_onto(onto @ rotation + 3, onto)
    assert_near(turned, onto - onto.mean(axis=0))


def test_rotate_onto_does_not_scale() -> None:
    rng = np.random.default_rng(7)
    rows, onto = rng.standard_normal((2, 11, 5)).astype(np.float32)
    turned = rotate_onto(rows, onto * 9)
    apart = [np.linalg.norm(x[:, None] - x, axis=-1) for x in (turned, rows)]
    assert_near(*apart)
    # Another turn is no closer.
    centred = onto * 9 - (onto * 9).mean(axis=0)
    other = turned @ np.linalg.qr(np.eye(5) + 0.05 * rng.standard_normal((5, 5)))[0]
    assert ((turned - centred) ** 2).sum() < ((other - centred) ** 2).sum()


def test_rotate_onto_refuses_different_shapes() -> None:
    with pytest.raises(ValueError, match=r"expected as many rows.*\(3, 2\) and \(2, 2\)"):
        rotate_onto(np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32))


def test_project_together_uses_components_of_the_frame() -> None:
    rng = np.random.default_rng(11)
    tables = list(rng.standard_normal((3, 13, 5)).astype(np.float32))
    points, plane = project_together(tables, tables[1])
    expected = principal_components(tables[1])
    assert points.shape == (3, 13, 2)
    assert_near(points[1], expected.points)
    assert_near(points[2], rotate_onto(tables[2], tables[1]) @ expected.directions)
    assert plane.shares == expected.shares
