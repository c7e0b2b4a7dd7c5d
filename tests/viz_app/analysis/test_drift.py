from __future__ import annotations

import numpy as np
import pytest

from viz_app.analysis.drift import in_one_frame, pair_cosines, pairs_of, turned_onto
from viz_app.analysis.projection import principal_components


def test_every_two_different_ids_are_a_pair() -> None:
    assert pairs_of([5, 2, 5, 9]) == [(5, 2), (5, 9), (2, 9)]
    assert pairs_of([5, 5]) == []


def test_cosines_of_pairs_by_hand() -> None:
    first = np.array([[1, 0], [1, 1], [0, 0]], np.float32)
    second = np.array([[1, 0], [-2, 0], [0, 3]], np.float32)
    found = pair_cosines([first, second], [(0, 1), (0, 2)])
    np.testing.assert_allclose(found, [[0.5**0.5, 0], [-1, 0]], atol=1e-6)


def test_rows_that_were_turned_and_moved_come_back() -> None:
    rng = np.random.default_rng(5)
    onto = rng.standard_normal((13, 7))
    rotation, _ = np.linalg.qr(rng.standard_normal((7, 7)))
    rows = (onto @ rotation + 3).astype(np.float32)
    turned = turned_onto(rows, onto.astype(np.float32))
    np.testing.assert_allclose(turned, onto - onto.mean(axis=0), atol=1e-5)


def test_nothing_is_stretched() -> None:
    rng = np.random.default_rng(7)
    rows, onto = rng.standard_normal((2, 11, 5)).astype(np.float32)
    turned = turned_onto(rows, onto * 9)
    apart = [np.linalg.norm(x[:, None] - x, axis=-1) for x in (turned, rows)]
    np.testing.assert_allclose(*apart, atol=1e-5)
    # Another turn is no closer.
    centred = onto * 9 - (onto * 9).mean(axis=0)
    other = turned @ np.linalg.qr(np.eye(5) + 0.05 * rng.standard_normal((5, 5)))[0]
    assert ((turned - centred) ** 2).sum() < ((other - centred) ** 2).sum()


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected as many rows.*\(3, 2\) and \(2, 2\)"):
        turned_onto(np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32))


def test_the_frame_itself_is_where_its_components_are() -> None:
    rng = np.random.default_rng(11)
    tables = list(rng.standard_normal((3, 13, 5)).astype(np.float32))
    points, plane = in_one_frame(tables, tables[1])
    expected = principal_components(tables[1])
    assert points.shape == (3, 13, 2)
    np.testing.assert_allclose(points[1], expected.points, atol=1e-5)
    np.testing.assert_allclose(
        points[2], turned_onto(tables[2], tables[1]) @ expected.directions, atol=1e-5
    )
    assert plane.shares == expected.shares
