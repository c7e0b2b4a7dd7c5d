"""Modules of ``transformers`` by their paths, and their weights as our interface gives them."""

from __future__ import annotations

from typing import Any

from torch import nn

from headwise.model.interface import LinearParameters, NormParameters


def find(module: nn.Module, path: str) -> Any:
    """Return the module at a path below another; None if there is none, or the path is empty."""
    try:
        return module.get_submodule(path) if path else None
    except AttributeError:
        return None


def linear_parameters(linear: Any) -> LinearParameters:
    """Return the weights of a linear layer."""
    return LinearParameters(linear.weight.T, linear.bias)


def norm_parameters(norm: Any) -> NormParameters:
    """Return the weights of a norm."""
    if isinstance(norm, nn.LayerNorm):
        return NormParameters(norm.weight, norm.bias, norm.eps)
    return NormParameters(norm.weight, None, norm.variance_epsilon)
