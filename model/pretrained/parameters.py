"""Modules of ``transformers`` by their paths, and their weights as our interface gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from transformers.pytorch_utils import Conv1D

from headwise.model.interface import LinearParameters, NormParameters
from headwise.model.placement import in_float32


def find(module: nn.Module, path: str) -> Any:
    """Return the module at a path below another; None if there is none, or the path is empty."""
    try:
        return module.get_submodule(path) if path else None
    except AttributeError:
        return None


def find_first(module: nn.Module, paths: Sequence[str]) -> Any:
    """Return the first of the modules at some paths that is there; AttributeError if none is."""
    for path in paths:
        if (found := find(module, path)) is not None:
            return found
    raise AttributeError(f"{type(module).__name__} has no attribute {' or '.join(paths)}")


def linear_parameters(linear: Any) -> LinearParameters:
    """Return the weights of a linear layer, or of GPT-2's ``Conv1D``, which is one."""
    if isinstance(linear, Conv1D):
        return LinearParameters(linear.weight, linear.bias)
    return LinearParameters(linear.weight.T, linear.bias)


def for_each_head(linear: LinearParameters, heads: int, width: int) -> LinearParameters:
    """Return the weights of keys or values as if every head had its own, (D, heads · width).

    Where fewer are stored, each is for as many heads that follow each other.
    """
    weight, bias = linear
    groups = heads * width // weight.shape[1]
    if groups == 1:
        return linear
    spread = [
        None if of is None else of.unflatten(-1, (-1, width)).repeat_interleave(groups, dim=-2)
        for of in (weight, bias)
    ]
    whole, of_bias = (None if of is None else of.flatten(-2) for of in spread)
    assert whole is not None
    return LinearParameters(whole, of_bias)


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
    if hasattr(norm, "variance_epsilon"):
        return NormParameters(norm.weight, None, norm.variance_epsilon)
    return NormParameters(1 + in_float32(norm.weight), None, norm.eps)  # Gemma's are kept less 1
