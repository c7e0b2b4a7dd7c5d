"""How near two computations of one thing must be: a bound from the type and the size of numbers.

Processors add in different orders and round different intermediate results, so that the last bits
of a float are not the same everywhere. An operation is off by at most half an epsilon of its type,
relative to its result; a sum of n terms, in any order, by at most n halves, relative to the sum of
the terms' magnitudes (Higham 2002, *Accuracy and Stability of Numerical Algorithms*, section 4.2).
Two computations, each with ``operations`` roundings in a row on numbers of at most ``size``, differ
by at most ``operations`` · epsilon · ``size``.

What passes through a whole model is better compared in float64, where the same bound is 5e8 times
smaller and no fault hides below it.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import DTypeLike

OPERATIONS = 64
"""Roundings in a row: one formula on a few dozen numbers, as most functions here are."""
PASS = 1024
"""Roundings in a row of a pass through a tiny model: some 16 sublayers of one or two sums each."""


def rounding(dtype: DTypeLike | torch.dtype, size: float, operations: int = OPERATIONS) -> float:
    """Return how far two computations in a type may be apart, as the module says.

    Args:
        dtype: the least precise type that the numbers went through.
        size: the largest magnitude that is added or multiplied on the way.
        operations: roundings in a row.
    """
    epsilon = torch.finfo(dtype).eps if isinstance(dtype, torch.dtype) else np.finfo(dtype).eps
    return float(operations * epsilon * size)


def near(
    expected: Any,
    *,
    dtype: DTypeLike | torch.dtype | None = None,
    size: float | None = None,
    operations: int = OPERATIONS,
) -> Any:
    """Make an object that equals what is near enough, for ``assert found == near(expected)``.

    Args:
        expected: a number, an array, or a list or dictionary of numbers.
        dtype: as for ``rounding``; that of an array if left out, float64 for Python's numbers.
        size: as for ``rounding``; the largest magnitude in ``expected`` if left out.
        operations: as for ``rounding``.
    """
    if isinstance(expected, torch.Tensor):
        expected = expected.detach().cpu().numpy()
    dtype = dtype or _type_of(expected)
    size = _largest(expected) if size is None else size
    return pytest.approx(expected, rel=0, abs=rounding(dtype, size, operations), nan_ok=True)


def assert_near(
    found: Any,
    expected: Any,
    *,
    dtype: DTypeLike | torch.dtype | None = None,
    size: float | None = None,
    operations: int = OPERATIONS,
) -> None:
    """Compare two arrays or tensors of one shape, or an array and a number for all its cells.

    The arguments are as for ``near``; the type is that of the less precise of both if left out.
    """
    found, expected = _array(found), _array(expected)
    if dtype is None:
        dtype = max((_type_of(found), _type_of(expected)), key=lambda each: np.finfo(each).eps)
    size = _largest(expected) if size is None else size
    if expected.ndim:
        assert found.shape == expected.shape
    np.testing.assert_allclose(
        found.astype(np.float64),
        expected.astype(np.float64),
        rtol=0,
        atol=rounding(dtype, size, operations),
    )


def printed(
    template: str,
    *numbers: float,
    dtype: DTypeLike | torch.dtype = np.float64,
    size: float | None = None,
    operations: int = OPERATIONS,
) -> list[str]:
    """Return the texts that numbers near to these may be written as: one, or a few at a tie.

    Args:
        template: with a field for each number, such as "{:.2f} nats".
        numbers: as they are found here; what is written may have been found in another way. Their
            bounds must be smaller than a unit of the last digit that is written.
        dtype: the least precise type that the numbers went through.
        size: as for ``rounding``; of each number its own magnitude if left out.
        operations: as for ``rounding``.
    """
    ends = []
    for number in map(float, numbers):
        off = rounding(dtype, abs(number) if size is None else size, operations)
        ends.append((number - off, number, number + off))
    return list(dict.fromkeys(template.format(*each) for each in product(*ends)))


def _array(values: Any) -> Any:
    return np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)


def _type_of(values: Any) -> np.dtype[Any]:
    kind = getattr(values, "dtype", np.dtype(np.float64))
    return np.dtype(kind) if np.issubdtype(kind, np.floating) else np.dtype(np.float64)


def _largest(values: Any) -> float:
    """Return the largest finite magnitude among numbers, however they are nested."""
    if isinstance(values, dict):
        values = list(values.values())
    numbers = np.abs(np.asarray(values, np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0.0))
