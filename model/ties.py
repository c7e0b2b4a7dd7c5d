"""The order of numbers where it must not hang on their last bits, which differ between processors.

There is one rule: values that are nearer to the largest than rounding, ``NEAR`` times the largest
finite magnitude among all that are compared, count as equal to it. Of equal ones the first goes
first: the lowest token id, place, or head in the order of the model. An order of many repeats this
with the largest of the rest. Not-a-number counts as −∞, and numbers below ``MASKED`` say nothing of
how the others are rounded.

Pages and analyses use this module without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from torch import Tensor

NEAR = 2.0**-18
"""32 epsilons of float32, through which nearly all values here have come."""
MASKED = -1e3
"""A logit below it stands for −∞: some models give −10,000 to tokens that they must never write."""


def rounding(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return how near values are that count as equal: (…, n) → (…, 1)."""
    size = _largest_magnitude(values)
    if not (size < -MASKED).all():  # slower, and seldom needed
        counted = (values > MASKED) & (values < np.inf)
        size = _largest_magnitude(np.where(counted, values, 0))
    return np.asarray(NEAR * size)


def _largest_magnitude(values: NDArray[np.floating]) -> NDArray[np.floating]:
    most = values.max(axis=-1, keepdims=True, initial=0)
    return np.asarray(np.maximum(most, -values.min(axis=-1, keepdims=True, initial=0)))


def near_largest(values: ArrayLike) -> NDArray[np.bool_]:
    """Return which values count as equal to the largest along the last axis: (…, n)."""
    values = np.asarray(values)
    near: NDArray[np.floating] = rounding(values)
    largest = values.max(axis=-1, keepdims=True)
    if np.isnan(largest).any():
        values = np.where(np.isnan(values), -np.inf, values)
        largest = values.max(axis=-1, keepdims=True)
    return np.asarray(values >= largest - near)


def first_largest(values: ArrayLike) -> NDArray[np.int64]:
    """Return the place of the first value that counts as the largest: (…, n) → (…)."""
    return np.asarray(near_largest(values).argmax(axis=-1))


def descending(values: ArrayLike, near: float | None = None) -> NDArray[np.int64]:
    """Order values (n,), the largest first; return their places.

    Values within ``near``, by default ``rounding`` of the values, count as equal.
    """
    values = np.asarray(values)
    values = np.where(np.isnan(values), -np.inf, values)
    near = float(rounding(values)[0]) if near is None else near
    order = np.argsort(-values)
    rising = -values[order]
    places = np.flatnonzero(rising[1:] <= rising[:-1] + near)
    stops = np.searchsorted(rising, rising[places] + near, side="right")
    last = 0  # where those that count as equal to an earlier one end
    for place, stop in zip(places.tolist(), stops.tolist(), strict=True):
        if place >= last:
            order[place:stop].sort()
            last = stop
    return order


def rounding_of(values: Tensor) -> Tensor:
    """Return the same as ``rounding`` for a tensor: (…, n) → (…, 1)."""
    # PyTorch's aminmax takes twenty times as long as these two.
    size = values.amax(dim=-1, keepdim=True).maximum(-values.amin(dim=-1, keepdim=True))
    if not (size < -MASKED).all():  # slower, and seldom needed
        counted = (values > MASKED) & (values < np.inf)
        size = values.masked_fill(~counted, 0.0).abs().amax(dim=-1, keepdim=True)
    return NEAR * size


def first_largest_of(values: Tensor) -> Tensor:
    """Return the same as ``first_largest`` for a tensor: (…, n) → (…)."""
    near, largest = rounding_of(values), values.amax(dim=-1, keepdim=True)
    if largest.isnan().any():
        values = values.nan_to_num(-np.inf, np.inf, -np.inf)
        largest = values.amax(dim=-1, keepdim=True)
    return (values >= largest - near).byte().argmax(dim=-1)  # of ones PyTorch takes the first


def top_k(values: Tensor, k: int) -> Tensor:
    """Return the first k places of ``descending`` for each row of a tensor: (…, n) → (…, k)."""
    near = rounding_of(values)
    top = values.topk(min(k + 1, values.shape[-1]))
    if top.values.isnan().any():
        return top_k(values.nan_to_num(-np.inf, np.inf, -np.inf), k)
    found = top.indices[..., :k].clone()
    # PyTorch's order is right but in the few rows where two of these are near.
    unsure = (top.values[..., :-1] <= top.values[..., 1:] + near).any(dim=-1)
    for row in map(tuple, unsure.nonzero().tolist()):
        places = (values[row] >= top.values[row][k - 1] - near[row]).nonzero()[:, 0]
        order = descending(values[row][places].numpy(force=True), float(near[row]))[:k]
        found[row] = places[order.tolist()]
    return found
