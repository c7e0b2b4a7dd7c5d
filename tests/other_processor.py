"""Have the tests computed as another processor might: the last bits of PyTorch's results differ.

    .venv/bin/python -m pytest -p tests.other_processor --ignore tests/browser

Makes of processors add in different orders. No setting of one machine shows all that others do; so
this plugin of pytest flips the last bit of about half of what products, norms and softmaxes give.
Which ones follows from the bits and the shape of a result: a computation that is repeated gives the
same again, as on any one machine, and one of another shape does not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_INTEGERS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}
_FUNCTIONS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (F, ("linear", "layer_norm", "rms_norm", "scaled_dot_product_attention")),
    (F, ("softmax", "log_softmax", "gelu", "cross_entropy")),
    (torch, ("matmul", "bmm", "mm", "einsum", "softmax", "log_softmax")),
    (Tensor, ("__matmul__", "matmul", "bmm", "mm", "softmax", "log_softmax", "mean", "norm")),
)


def _differing(compute: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(compute)
    def differ(*args: Any, **settings: Any) -> Any:
        result = compute(*args, **settings)
        return result if "out" in settings else with_other_last_bits(result)

    return differ


def with_other_last_bits(result: Any) -> Any:
    """Return a tensor with other last bits; 0, 1 and what is not finite are exact everywhere."""
    if not isinstance(result, Tensor) or result.dtype not in _INTEGERS or not result.numel():
        return result
    values = result.detach().contiguous()
    bits = values.view(_INTEGERS[values.dtype])
    salt = sum(place * length for place, length in enumerate(values.shape, 1))
    flip = ((bits >> 2) ^ (bits >> 5) ^ (bits >> 9) ^ salt) & 1
    exact = (values == 0) | (values.abs() == 1) | ~values.isfinite()
    changed = torch.where(exact, bits, bits ^ flip).view(values.dtype)
    return result + torch.where(exact, 0, changed - values)  # gradients pass


for _place, _names in _FUNCTIONS:
    for _name in _names:
        setattr(_place, _name, _differing(getattr(_place, _name)))
