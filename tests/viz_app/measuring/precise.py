"""What a measure makes for itself, such as an identity matrix, in float64, as the model is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def float64_by_default() -> Iterator[None]:
    """Make new tensors float64, so that measures can be taken of a model in float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
