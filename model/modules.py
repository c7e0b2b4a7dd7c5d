"""``nn.Module`` with less Python around each of the hundred calls that a pass is made of."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Module(nn.Module):
    """A module whose parts are found as other attributes are, and whose call is its ``forward``.

    PyTorch's hooks of this module run as ever; those registered for all modules at once do not.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, nn.Module):
            self.__dict__[name] = value  # else a lookup fails before it is asked for

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self.__dict__.pop(name, None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What ``forward`` gives."""
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
        ):
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)


_BATCH, _ROWS = 8, 1_024
"""Of a batch as large, with no more rows, a CPU is quicker to add the bias after the product."""


def _product(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """xWᵀ + b: (…, in) → (…, out)."""
    assert weight is not None
    if (
        len(x) < _BATCH
        or x.numel() > _ROWS * x.shape[-1]
        or bias is None
        or torch.is_grad_enabled()  # autograd would copy what an addition in place overwrites
        or not x.is_cpu
    ):
        return F.linear(x, weight, bias)
    return F.linear(x, weight).add_(bias)


class Linear(Module, nn.Linear):
    """PyTorch's linear layer."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        parameters = self._parameters
        return _product(input, parameters["weight"], parameters["bias"])

    def transpose_storage(self) -> None:
        """Store the matrix as its transpose: of few rows a CPU's product is up to twice as fast."""
        self.weight.data = self.weight.data.t().contiguous().t()


class Stack:
    """Linear layers of the same input whose matrices lie side by side: one product for all.

    Names, shapes and weights of the layers stay; each matrix becomes a part of one.
    """

    def __init__(self, *layers: Linear) -> None:
        self._wholes: dict[str, Tensor | None] = {"weight": None, "bias": None}
        self._parts: list[tuple[Linear, str, int]] = []
        for name in self._wholes:
            parameters = [p for layer in layers if (p := layer._parameters[name]) is not None]
            if not parameters:
                continue
            whole = torch.cat([p.detach().t() for p in parameters], dim=-1).t()
            for layer, parameter, part in zip(
                layers, parameters, whole.chunk(len(layers)), strict=True
            ):
                parameter.data = part
                self._parts.append((layer, name, part.data_ptr()))
            self._wholes[name] = whole

    def intact(self) -> bool:
        """Whether all are still parts of one: not copied, moved, or replaced by other weights."""
        for layer, name, address in self._parts:
            parameter = layer._parameters[name]
            if parameter is None or parameter.data_ptr() != address:
                return False
        return True

    def __call__(self, x: Tensor) -> Tensor:
        """(…, in) → (…, layers * out), what one layer gives after another."""
        return _product(x, self._wholes["weight"], self._wholes["bias"])


class Embedding(nn.Embedding):
    """PyTorch's embedding; without memory, on the device "meta", it draws no weights."""

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1)."""
        if not self.weight.is_meta:  # there a draw would load PyTorch's compiler, for 1.4 s
            super().reset_parameters()


class LayerNorm(Module, nn.LayerNorm):
    """PyTorch's layer norm."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, D) → (…, D)."""
        parameters = self._parameters
        weight, bias = parameters["weight"], parameters["bias"]
        return torch.layer_norm(input, self.normalized_shape, weight, bias, self.eps)
