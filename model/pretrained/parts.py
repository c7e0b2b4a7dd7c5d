"""Modules of a Hugging Face model by their paths, and their weights as our interface gives them.

``D`` = d_model, ``V`` vocabulary size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.pytorch_utils import Conv1D

from headwise.model.interface import LinearParameters, NormParameters, Stack
from headwise.model.placement import in_float32
from headwise.model.pretrained.families import Family, SublayerPaths
from headwise.model.stream import capped


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

    def spread(stored: Tensor) -> Tensor:
        each = stored.unflatten(-1, (-1, width))
        return each.repeat_interleave(groups, dim=-2).flatten(-2)

    return LinearParameters(spread(weight), None if bias is None else spread(bias))


def part_of(linear: LinearParameters, place: int, count: int) -> LinearParameters:
    """Return the weights of one of ``count`` layers that are stored beside each other in one."""
    weight, bias = linear
    return LinearParameters(
        weight.chunk(count, dim=-1)[place], None if bias is None else bias.chunk(count)[place]
    )


def norm_parameters(norm: Any) -> NormParameters:
    if isinstance(norm, nn.LayerNorm):
        return NormParameters(norm.weight, norm.bias, norm.eps)
    if hasattr(norm, "variance_epsilon"):
        return NormParameters(norm.weight, None, norm.variance_epsilon)
    return NormParameters(1 + in_float32(norm.weight), None, norm.eps)  # Gemma's are kept less 1


class Part(NamedTuple):
    """The encoder or the decoder in ``transformers``, and the record of its family."""

    stack: Stack
    module: Any
    family: Family

    def find(self, path: str) -> Any:
        """Return the module at a path; None if there is none."""
        return find(self.module, path)

    def layers(self) -> Any:
        """Return the list of layers."""
        return self.module.get_submodule(self.family.layers)

    def feed_forward(self) -> nn.Module:
        """Return the module that holds the linear layers of the first feed-forward."""
        paths: SublayerPaths = getattr(self.family, f"{self.stack}_feed_forward")
        return self.layers()[0].get_submodule(paths.module)

    def embedding(self) -> nn.Embedding:
        """Return the module of the embeddings of tokens."""
        return self.module.get_input_embeddings()

    def open_mask(self, ids: Tensor, before: int = 0) -> Tensor | None:
        """Return a mask that hides nothing, (B, n), for a family that is to be given one."""
        if not self.family.hides_padding:
            return None
        return ids.new_ones(len(ids), before + ids.shape[1])

    def position_ids(self, ids: Tensor, before: int = 0) -> dict[str, Tensor]:
        """Return the numbers of positions, (B, n), of a family that is to be given them."""
        if not self.family.numbers_positions:
            return {}
        numbers = torch.arange(before, before + ids.shape[1], device=ids.device)
        return {"position_ids": numbers.expand(len(ids), -1)}


class Output:
    """The layers between the decoder's last layer and the logits.

    Some models have a norm at the end of the decoder; BERT and RoBERTa have what their masked
    language models have, a linear layer, an activation function and a norm (Devlin et al. 2019).
    """

    def __init__(self, inner: Any, decoder: Any, family: Family) -> None:
        self._inner = inner
        self._unembedding: Any = inner.get_output_embeddings()
        self._width: int = decoder.get_input_embeddings().embedding_dim
        self.is_scaled = bool(getattr(decoder.config, family.scale_output, False))
        """Whether the decoder's output is multiplied by 1/√D."""
        self._cap: float | None = getattr(decoder.config, "final_logit_softcapping", None)
        self.final_norm = find(decoder, family.final_norm)
        """The last norm before the unembedding; None if there is none."""
        self._dense: Any = None
        if family.transform is not None:
            dense, norm, activation = family.transform
            self._dense = inner.decoder.get_submodule(dense)
            self.final_norm = inner.decoder.get_submodule(norm)
            self._activation = ACT2FN[activation or decoder.config.hidden_act]

    @property
    def has_transform(self) -> bool:
        """Return whether a linear layer and an activation function come before that norm."""
        return self._dense is not None

    @property
    def transform(self) -> LinearParameters:
        """Return the weights of that linear layer."""
        return linear_parameters(self._dense)

    @property
    def unembedding(self) -> LinearParameters:
        """Return the weights that give the logits: (D, V) and (V,)."""
        weight, own = linear_parameters(self._unembedding)
        biases = (own, *getattr(self._inner, "final_logits_bias", ()))
        given = [bias for bias in biases if bias is not None]
        return LinearParameters(weight, sum(given[1:], given[0]) if given else None)

    def is_tied_to(self, table: Tensor) -> bool:
        """Return whether the unembedding has the weights of a table of embeddings."""
        return self._unembedding.weight is table

    def transformed(self, stream: Tensor) -> Tensor:
        """Return the decoder's output (…, D), of what its module in ``transformers`` gives."""
        if not self.has_transform:
            return stream
        return self.final_norm(self._activation(self._dense(stream)))

    def of_last_layer(self, stream: Tensor) -> Tensor:
        """Return the decoder's output (…, D), of what its last layer gives."""
        if self.has_transform or self.final_norm is None:
            return self.transformed(stream)
        return self.final_norm(stream)

    def logits(self, stream: Tensor) -> Tensor:
        """Compute the logits (…, V) of the decoder's output (…, D)."""
        if self.is_scaled:
            stream = stream * self._width**-0.5
        logits = self._unembedding(stream)
        if hasattr(self._inner, "final_logits_bias"):
            logits += self._inner.final_logits_bias[0]  # in place: logits may be large
        return capped(logits, self._cap)
