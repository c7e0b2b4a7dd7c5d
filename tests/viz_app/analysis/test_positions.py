from __future__ import annotations

import math

import numpy as np
import pytest

from headwise.model.layers import sinusoidal_positions
from headwise.viz_app.analysis.positions import (
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


def test_the_formula_names_the_dimensions_of_each_order() -> None:
    for order, sine, cosine in (("interleaved", "2i", "2i+1"), ("halves", "i", "D/2+i")):
        first, second = encoding_formula(order).split(r"\\")
        assert rf"PE_{{(pos,\,{sine})}} &= \sin" in first
        assert rf"PE_{{(pos,\,{cosine})}} &= \cos" in second


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
