"""Modules of ``transformers`` by their paths, and their weights as our interface gives them."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from headwise.model.interface import LinearParameters, NormParameters


def find(module: nn.Module, path: str) -> Any:
    """Return the module at a path below another; None if there is none, or the path is empty."""
    try:
        return module.get_submodule(path) if path else None
    except AttributeError:
        return None


def linear_parameters(linear: Any) -> LinearParameters:
    """Return the weights of a linear layer, or of GPT-2's ``Conv1D``, which is one."""
    if isinstance(linear, Conv1D):
        return LinearParameters(linear.weight, linear.bias)
    return LinearParameters(linear.weight.T, linear.bias)


def part_of(linear: LinearParameters, place: int, count: int) -> LinearParameters:
    """Return the weights of one of ``count`` layers that are stored beside each other in one."""
    weight, bias = linear
    return LinearParameters(
        weight.chunk(count, dim=-1)[place], None if bias is None else bias.chunk(count)[place]
    )


def norm_parameters(norm: Any) -> NormParameters:
    """Return the weights of a norm."""
    if isinstance(norm, nn.LayerNorm):
        return NormParameters(norm.weight, norm.bias, norm.eps)
    return NormParameters(norm.weight, None, norm.variance_epsilon)
