"""Bounds of rounding: as the type and the size of numbers say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.floats import assert_near, near, printed, rounding


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(np.float64, 52), (torch.float32, 23), (np.float16, 10), (torch.bfloat16, 7)],
)
def test_bound_is_epsilon_by_size_by_operations(dtype: Any, bits: int) -> None:
    assert rounding(dtype, 3.0, 5) == 15 * 2.0**-bits


def test_sums_in_another_order_are_near() -> None:
    values = np.random.default_rng(0).normal(size=60).astype(np.float32)
    forward, backward = np.float32(0), np.float32(0)
    for value in values:
        forward += value
    for value in values[::-1]:
        backward += value
    assert forward == near(backward, size=float(np.abs(values).sum()))


@pytest.mark.parametrize("make", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_more_than_the_bound_is_not_near(make: type) -> None:
    expected = np.array([8.0, np.nan, -0.5], np.float32)
    step = 8 * 64 * np.finfo(np.float32).eps
    assert_near(make(expected + np.array([0.9, 0, 0.9]) * step), make(expected))
    for found, other in (
        (expected + np.array([0, 0, 1.1], np.float32) * step, expected),
        (np.ones((2, 3)), np.ones(3)),  # shapes are not stretched
        (np.array([1 + 2e-6]), np.array([1.0])),  # both are of float64
    ):
        with pytest.raises(AssertionError):
            assert_near(make(found), make(other))


@pytest.mark.parametrize(
    ("found", "expected"),
    [(0.1 + 0.2, 0.3), ([0.1 + 0.2, 5], [0.3, 5]), ({"a": 0.1 + 0.2}, {"a": 0.3})],
)
def test_numbers_lists_and_dictionaries(found: object, expected: object) -> None:
    assert found == near(expected)
    assert found != near(expected, operations=0)


def test_a_number_beside_a_tie_may_be_printed_in_two_ways() -> None:
    assert printed("{:.2f} nats", 0.1249) == ["0.12 nats"]
    assert printed("{:.2f} nats", 0.125 - 1e-15) == ["0.12 nats", "0.13 nats"]
    assert printed("{:.2f}", 0.125 - 1e-7, dtype=np.float32) == ["0.12", "0.13"]
    assert printed("{:.1f} of {:.1f}", 0.25 - 1e-9, 2.0, size=1e6) == ["0.2 of 2.0", "0.3 of 2.0"]
