"""Embeddings of tokens and encodings of positions, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwise.model.layers import sinusoidal_positions
from headwise.viz_app.analysis.embeddings import (
    all_pairs,
    cosine_similarity,
    digit_counts,
    frequency_groups,
    mean_pairwise_similarity,
    most_frequent,
    nearest_by_chance,
    nearest_neighbours,
    pair_cosines,
    principal_components,
    project_together,
    rotate_onto,
    sides_of_tokens,
    similar_pairs,
)
from headwise.viz_app.model.angles import (
    bias_by_distance,
    divisor,
    encoding_formula,
    encodings,
    is_cosine,
    largest_deviation,
    order_of,
    sample_dimensions,
    similarity_by_distance,
    wavelength,
)
from tests.floats import assert_near, near, rounding

TABLE = np.array([[2, 0], [0, 3], [-1, 0], [1, 1], [0, 0], [4, 1], [9, 0]], dtype=np.float32)
ALL = np.ones(len(TABLE), dtype=bool)


# Cosines


def test_cosines_by_hand() -> None:
    half = 0.5**0.5
    cosine = cosine_similarity(TABLE[:2], TABLE[:5])
    assert_near(cosine, [[1, 0, -1, half, 0], [0, 1, 0, half, 0]])
    assert cosine.dtype == np.float32
    table = np.array([[1, 0], [-2, 0], [0, 3]], np.float32)
    assert_near(pair_cosines([TABLE[2:5], table], [(0, 1), (0, 2)]), [[-half, 0], [-1, 0]])
    assert all_pairs([5, 2, 5, 9]) == [(5, 2), (5, 9), (2, 9)]
    assert all_pairs([5, 5]) == []
    similarity = np.array([[1, 0.5, 0.25], [0.5, 1, 0], [0.25, 0, 1]], np.float32)
    assert mean_pairwise_similarity(similarity) == near(0.25)  # without the diagonal
    assert np.isnan(mean_pairwise_similarity(similarity[:1, :1]))


@pytest.mark.parametrize(
    ("id", "count", "among", "ids"),
    [
        (0, 3, ALL, [6, 5, 3]),
        (4, 9, ALL, [0, 1, 2, 3, 5, 6]),  # a zero row: all cosines are 0, and order is by id
        (0, 9, np.isin(range(7), [0, 1, 2, 5]), [5, 1, 2]),
    ],
)
def test_nearest_ones_are_sorted(id: int, count: int, among: np.ndarray, ids: list[int]) -> None:
    found = nearest_neighbours(TABLE, id, count=count, among=among)
    assert found.ids.tolist() == ids
    assert_near(found.cosine, cosine_similarity(TABLE[[id]], TABLE)[0, ids])
    for unknown in (-1, 7):
        with pytest.raises(ValueError, match=rf"^id: expected 0 to 6, got {unknown}$"):
            nearest_neighbours(TABLE, unknown, count=count, among=among)


def test_pairs_by_hand() -> None:
    found = similar_pairs(TABLE, count=4, among=ALL)
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == [
        (0, 6),  # the same direction
        (0, 5),
        (5, 6),  # as near as those before
        (3, 5),
    ]
    nearer = 4 / 17**0.5
    assert_near(found.cosine, [1, nearer, nearer, 5 / 34**0.5])


@given(
    seed=st.integers(0, 99),
    rows=st.integers(2, 23),
    block=st.integers(1, 11),
    count=st.sampled_from([1, 7, 100, 400]),
)
@example(seed=1, rows=23, block=23, count=100)
@example(seed=4, rows=23, block=23, count=100)
def test_pairs_do_not_depend_on_block_size(seed: int, rows: int, block: int, count: int) -> None:
    table = np.random.default_rng(seed).standard_normal((rows, 3)).astype(np.float32)
    found = similar_pairs(table, count=count, among=np.ones(rows, bool), block=block)
    first, second = np.triu_indices(rows, 1)
    cosine = cosine_similarity(table, table)
    assert_near(found.cosine, np.sort(cosine[first, second])[::-1][:count], size=1)
    assert_near(cosine[found.first, found.second], found.cosine, size=1)
    assert (found.first < found.second).all()
    pairs = [*zip(found.first.tolist(), found.second.tolist(), strict=True)]
    assert len(set(pairs)) == len(pairs)


# On a plane


@pytest.mark.parametrize("shape", [(13, 7), (5, 11)], ids=["more rows", "more dimensions"])
def test_principal_components_match_svd(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(3).standard_normal(shape).astype(np.float32) + 5
    found = principal_components(rows)
    centred = rows.astype(float) - rows.mean(axis=0, dtype=float)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    for axis in (0, 1):
        sign = np.sign(right[axis][np.abs(right[axis]).argmax()])
        assert_near(found.points[:, axis], sign * left[:, axis] * singular[axis])
    assert_near(found.shares, singular[:2] ** 2 / (singular**2).sum())
    assert found.points.dtype == np.float32
    longest = np.linalg.norm(centred, axis=1).max()
    assert_near(centred @ found.directions, found.points, size=longest)


def test_principal_components_by_hand() -> None:
    # Around (1, 2, 0): ±4 along the second axis, ±1 along the third.
    rows = np.array([[1, 6, 0], [1, -2, 0], [1, 2, 1], [1, 2, -1]], np.float32)
    found = principal_components(rows)
    assert_near(found.points, [[4, 0], [-4, 0], [0, 1], [0, -1]])
    assert_near(found.shares, [32 / 34, 2 / 34])
    assert_near(principal_components(rows / 16).shares, found.shares)
    one_row, one_dimension = principal_components(rows[:1]), principal_components(rows[:, 1:2])
    assert (one_row.shares, one_dimension.shares) == ((0, 0), near((1, 0)))
    assert_near(one_row.points, [[0, 0]])
    assert_near(one_dimension.points, [[4, 0], [-4, 0], [0, 0], [0, 0]])


def test_rotating_undoes_rotation_and_shift_and_does_not_scale() -> None:
    rng = np.random.default_rng(5)
    onto = rng.standard_normal((13, 7))
    rotation, _ = np.linalg.qr(rng.standard_normal((7, 7)))
    assert_near(rotate_onto(onto @ rotation + 3, onto), onto - onto.mean(axis=0))
    rows, onto = rng.standard_normal((2, 11, 5)).astype(np.float32)
    turned = rotate_onto(rows, onto * 9)
    assert_near(*(np.linalg.norm(x[:, None] - x, axis=-1) for x in (turned, rows)))
    # Another turn is no closer.
    centred = onto * 9 - (onto * 9).mean(axis=0)
    other = turned @ np.linalg.qr(np.eye(5) + 0.05 * rng.standard_normal((5, 5)))[0]
    assert ((turned - centred) ** 2).sum() < ((other - centred) ** 2).sum()
    with pytest.raises(ValueError, match=r"expected as many rows.*\(3, 2\) and \(2, 2\)"):
        rotate_onto(np.zeros((3, 2), np.float32), np.zeros((2, 2), np.float32))


def test_tables_are_projected_together_on_components_of_the_frame() -> None:
    rng = np.random.default_rng(11)
    tables = list(rng.standard_normal((3, 13, 5)).astype(np.float32))
    points, plane = project_together(tables, tables[1])
    assert points.shape == (3, 13, 2)
    assert_near(points[1], plane.points)
    assert_near(points[2], rotate_onto(tables[2], tables[1]) @ plane.directions)


# Frequencies


def test_the_most_frequent_tokens_with_ties_by_id() -> None:
    counts = np.array([3, 0, 7, 3, 7])
    assert most_frequent(counts, 4).tolist() == [2, 4, 0, 3]
    assert digit_counts(np.array([0, 1, 9, 10, 99, 100, 12345])).tolist() == [0, 1, 1, 2, 2, 3, 5]
    assert sides_of_tokens(np.array([0, 5, 1, 0]), np.array([0, 0, 1, 1])).tolist() == [0, 1, 2, 3]


def test_frequency_groups_begin_at_the_rarest_token() -> None:
    group, names = frequency_groups(np.array([0, 45, 1200, 99]))
    assert names == ["never", "10 to 99 times", "100 to 999 times", "1,000 to 9,999 times"]
    assert group.tolist() == [0, 1, 3, 1]
    group, names = frequency_groups(np.array([0, 5]))
    assert (group.tolist(), names) == ([0, 1], ["never", "1 to 9 times"])
    group, names = frequency_groups(np.zeros(2, np.int64))
    assert (group.tolist(), names) == ([0, 0], ["never"])


def test_by_chance_the_nearest_of_a_table_without_meaning_is_as_near_as_it_is() -> None:
    """Rows are drawn independently; then two that are the same, which no chance would give."""
    drawn = np.random.default_rng(1).normal(size=(4_000, 48)).astype(np.float32)
    every = np.ones(len(drawn), bool)
    nearest = nearest_neighbours(drawn, 7, count=1, among=every).cosine[0]
    by_chance = nearest_by_chance(drawn, 7, among=every)
    assert by_chance == pytest.approx(nearest, abs=0.1)
    drawn[8] = drawn[7]
    assert nearest_by_chance(drawn, 7, among=every) < 0.7
    assert np.isnan(nearest_by_chance(drawn, 7, among=~every))


LENGTH, D = 17, 22
PRODUCT = {"dtype": np.float32, "size": 1, "operations": 2 * D}
"""A dot product of encodings is a sum over D of two factors that were rounded, each at most 1."""


def test_dimensions_by_hand() -> None:
    assert [divisor(d, 4) for d in range(4)] == near([1, 1, 100, 100])
    assert [divisor(d, 8) for d in (2, 7)] == near([10, 1000])
    assert [divisor(d, 4, "halves") for d in range(4)] == near([1, 100, 1, 100])
    assert wavelength(2, 8) == near(20 * math.pi)
    assert [is_cosine(d, 6) for d in range(6)] == [False, True] * 3
    assert [is_cosine(d, 6, "halves") for d in range(6)] == [False] * 3 + [True] * 3
    for dimension in (-1, 4):
        with pytest.raises(ValueError, match=rf"^dimension: expected 0 to 3, got {dimension}$"):
            wavelength(dimension, 4)


def test_sample_dimensions() -> None:
    assert sample_dimensions(192) == [0, 1, 24, 48, 96]
    assert sample_dimensions(14) == [0, 1, 2, 6]
    assert sample_dimensions(2) == [0, 1]
    assert sample_dimensions(128, "halves") == [0, 8, 16, 32, 64]
    assert sample_dimensions(14, "halves") == [0, 1, 3, 7]


def test_encodings_by_hand() -> None:
    expected = [
        [0, 1, 0, 1],
        [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)],
        [math.sin(2.5), math.cos(2.5), math.sin(0.025), math.cos(0.025)],
    ]
    assert_near(encodings([0, 1, 2.5], 4), expected)
    halves = encodings([0, 1, 2.5], 4, "halves")
    assert_near(halves, np.array(expected)[:, [0, 2, 1, 3]])


def test_the_order_of_recorded_encodings_is_found() -> None:
    for order in ("interleaved", "halves"):
        assert order_of(encodings(np.arange(5), 6, order)) == order
    assert order_of(encodings(np.arange(1, 6), 6)) is None  # they begin at another position
    assert order_of(np.zeros((5, 7), np.float32)) is None


def test_encodings_match_the_model() -> None:
    expected = sinusoidal_positions(LENGTH, D).numpy()
    encoded = encodings(np.arange(LENGTH), D)
    assert_near(encoded, expected, size=LENGTH)  # of the angles, which the model has in float32
    assert encoded.dtype == np.float32


def test_dot_product_depends_only_on_distance() -> None:
    curve = similarity_by_distance(LENGTH, D)
    encoded = encodings(np.arange(LENGTH), D)
    products = encoded.astype(float) @ encoded.T.astype(float)
    for distance in range(LENGTH):
        assert_near(np.diag(products, distance), curve[distance], **PRODUCT)
        assert_near(np.diag(products, -distance), curve[distance], **PRODUCT)
    assert curve[0] == D / 2
    assert_near(similarity_by_distance(3, 4)[2], math.cos(2) + math.cos(0.02))
    most = rounding(**PRODUCT)
    assert largest_deviation(encoded) < most
    e = float(encoded[11, 3])
    encoded[11, 3] += 0.5  # its own product grows by (e + 0.5)² - e²
    assert largest_deviation(encoded) >= abs((e + 0.5) ** 2 - e**2) - most


def test_biases_are_averaged_by_their_distance() -> None:
    bias = np.array([[[1.0, 5, 9], [2, 3, 7]], [[0, 0, 0], [0, 2, 0]]], np.float32)  # (2, 2, 3)
    allowed = np.array([[True, True, False], [True, True, True]])
    distances, means, off = bias_by_distance(bias, allowed)
    assert distances.tolist() == [-1, 0, 1]
    assert means.tolist() == [[2, 2, 6], [0, 1, 0]]
    assert off == 1


@given(seed=st.integers(0, 99), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_cosines_ignore_scale(seed: int, scale: float) -> None:
    rows = np.random.default_rng(seed).standard_normal((7, 5)).astype(np.float32)
    cosine = cosine_similarity(rows, rows)
    assert (np.abs(cosine) <= 1).all()
    assert_near(np.diag(cosine), 1)
    assert_near(cosine, cosine.T)
    assert_near(cosine_similarity(np.float32(scale) * rows, rows), cosine)


def test_pairs_are_limited_to_among() -> None:
    found = similar_pairs(TABLE, count=9, among=np.isin(range(7), [1, 2, 3, 6]))
    pairs = set(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert pairs == {(1, 2), (1, 3), (1, 6), (2, 3), (2, 6), (3, 6)}
    assert (np.diff(found.cosine) <= 0).all()
    for among in (~ALL, np.arange(7) == 3):
        assert similar_pairs(TABLE, count=3, among=among).cosine.tolist() == []


def test_the_formula_names_the_dimensions_of_each_order() -> None:
    for order, sine, cosine in (("interleaved", "2i", "2i+1"), ("halves", "i", "D/2+i")):
        first, second = encoding_formula(order).split(r"\\")
        assert rf"PE_{{(pos,\,{sine})}} &= \sin" in first
        assert rf"PE_{{(pos,\,{cosine})}} &= \cos" in second
