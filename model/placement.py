"""Where a model computes, and the type in which its weights are held; the same for all tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Placement:
    """Where a model computes, and how precisely."""

    device: Device = "auto"
    """Device that computes; auto takes a GPU if there is one."""
    dtype: Dtype = "float32"
    """Type in which the weights are held; the shorter ones take half the memory. Attention weights
    and probabilities are computed in float32 whatever it is."""

    def __post_init__(self) -> None:
        for name, known in (("device", Device), ("dtype", Dtype)):
            if (value := getattr(self, name)) not in get_args(known):
                raise ValueError(
                    f"{name}: expected one of {', '.join(get_args(known))}; got {value!r}"
                )
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                "device: PyTorch finds no GPU that it can use here; expected auto or cpu, got cuda"
            )

    @property
    def torch_device(self) -> torch.device:
        """Return the device itself."""
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    @property
    def torch_dtype(self) -> torch.dtype:
        """Return the type itself."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    def bytes_of(self, parameters: int) -> int:
        """Return the bytes of so many weights."""
        return parameters * self.torch_dtype.itemsize


_THREADS = torch.get_num_threads()
_LARGE = 30_000_000
"""Parameters from which on a model computes with several threads, and decoding takes seconds."""


def use_one_thread() -> None:
    """Compute with one thread until ``allow_threads``: a small model gains little from several.

    Where the cores have other work they wait for each other: on two busy cores a trace of 20 tokens
    took 37 ms with one thread, 122 ms with two.
    """
    torch.set_num_threads(1)


def is_large(parameters: int) -> bool:
    """Return whether a model of so many parameters takes seconds to decode a sentence."""
    return parameters >= _LARGE


def allow_threads(parameters: int) -> None:
    """Compute with several threads from now on if a model has many parameters."""
    if is_large(parameters):
        torch.set_num_threads(_THREADS)


DEFAULT_PLACEMENT = Placement()
"""On a GPU if there is one, in float32."""


def in_float32(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float32, or as it is if its type is at least as precise."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
