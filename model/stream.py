"""The stream taken apart: what each sublayer writes into it is a sum, once divisors are held.

The stream that runs through a stack is a sum of what embeddings and sublayers wrote into it. An
attention writes one vector for each head and each token that it reads, and biases. A norm on the
way is linear once its divisor, the standard deviation (of an RMS norm, the root mean square) of
what it was given, is held at what it was in this pass: vectors are centred (not by an RMS norm),
divided by it and multiplied by the gain. (Kobayashi, Kuribayashi, Yokoi and Inui 2021,
"Incorporating Residual and Normalization Layers into Analysis of Masked Language Models",
section 3.)

``B`` batch, ``H`` heads, ``Q`` and ``M`` the query and key lengths of a map, ``K`` = d_k,
``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.model.interface import (
    KINDS,
    Kind,
    LinearParameters,
    NormParameters,
    Rotation,
    Seq2SeqModel,
    attention_path,
)
from headwise.model.placement import in_float32

_POINTS = (".weights", ".value", ".output", "_residual.norm.before")
"""Hook points from which an attention is taken apart, after its path."""
_OF_OUTPUT_NORM = ("_residual.output_norm.before", "_residual.output_norm.after")


@dataclass(frozen=True)
class HeldNorm:
    """A norm whose divisors are held, and which is linear so: x ↦ (x − mean x) · gain / divisor."""

    gain: Tensor
    """(D,)."""
    rate: Tensor
    """1 / divisor of each position, (…, 1)."""
    centres: bool
    """Whether it subtracts the mean over D, as an RMS norm does not."""

    @classmethod
    def at(cls, model: Seq2SeqModel, norm: NormParameters, before: Tensor) -> HeldNorm:
        """Return a norm of a model with the divisors of what it was given, (…, D)."""
        centres = model.description.norm_kind != "rms"
        centred = _centred(before) if centres else before
        rate = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + norm.epsilon)
        return cls(in_float32(norm.gain), rate, centres)

    @classmethod
    def seen(
        cls, model: Seq2SeqModel, norm: NormParameters, before: Tensor, after: Tensor
    ) -> HeldNorm:
        """Return a norm with the divisors that it had between what was seen around it, (…, D).

        So a sum stays exact for norms that compute their divisor in another type, as T5's do.
        """
        centres = model.description.norm_kind != "rms"
        held = cls(in_float32(norm.gain), torch.ones_like(before[..., :1]), centres)
        undivided = held.direction(before)
        made = after if norm.bias is None else after - norm.bias
        size = undivided.square().sum(-1, keepdim=True).clamp(min=torch.finfo(before.dtype).tiny)
        rate = (made * undivided).sum(-1, keepdim=True) / size
        return replace(held, rate=rate)

    def direction(self, x: Tensor) -> Tensor:
        """Return vectors (…, D) as the norm centres and scales them, but undivided."""
        return (_centred(x) if self.centres else x) * self.gain

    def __call__(self, x: Tensor) -> Tensor:
        """Return what the norm makes of a part of its input, (…, D), without its bias."""
        return self.direction(x) * self.rate

    def direction_before(self, reading: Tensor) -> Tensor:
        """Return r′ (…, D) for which r′ · x = r · direction(x)."""
        scaled = reading * self.gain
        return _centred(scaled) if self.centres else scaled


def normed_for_each_head(
    model: Seq2SeqModel, projection: str, whole: Tensor, parts: Mapping[str, Tensor]
) -> Mapping[str, Tensor]:
    """Norm parts of what a projection makes, (…, K), if it is, with the divisors of the whole."""
    if (norm := model.head_norm(projection)) is None:
        return parts
    mean_square = whole.square().mean(dim=-1, keepdim=True)
    factor = norm.gain.to(whole.dtype) * torch.rsqrt(mean_square + norm.epsilon)
    return {name: part * factor for name, part in parts.items()}


def turned_by_position(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn vectors of the positions of a rotation: (…, n, K) → (…, n, K)."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = (part.to(x.dtype) for part in rotation)
    turned: Tensor = x * cos + torch.cat((-second, first), dim=-1) * sin
    return turned


def capped(scores: Tensor, cap: float | None) -> Tensor:
    """Return c tanh(x / c) of scores or logits; as they are without a cap."""
    return scores if cap is None else cap * torch.tanh(scores / cap)


@dataclass(frozen=True)
class HeldTransform:
    """A linear layer and an activation function f whose factors f(z) / z are held: x ↦ x M + b.

    As for the divisor of a norm, a sum of inputs becomes a sum of outputs that adds up to what the
    layer gave. (Achtibat et al. 2024, "AttnLRP", has the same of relevance: its identity rule for
    elementwise functions.)
    """

    matrix: Tensor
    """(D, D)."""
    bias: Tensor
    """(D,)."""

    @classmethod
    def seen(cls, linear: LinearParameters, given: Tensor, made: Tensor) -> HeldTransform:
        """Return a layer with the factors of one position, of what was seen around it, (D,)."""
        weight = linear.weight.to(given.dtype)
        bias = torch.zeros_like(given) if linear.bias is None else linear.bias.to(given.dtype)
        z = given @ weight + bias
        factor = torch.where(z == 0, 0.0, made / z)
        return cls(weight * factor, bias * factor + (made - z * factor))


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(dim=-1, keepdim=True)


@dataclass(frozen=True)
class AttentionSum:
    """An attention with its residual: y_i = Σ_j Σ_h weights_hij value_hj projection_h + residual_i.

    To this the biases are added: of the output, of values (with pre-norm also what the norm's bias
    adds to these), and of a norm after the sum.
    """

    weights: Tensor
    """(B, H, Q, M); with post-norm, divided by the norm's divisors."""
    value: Tensor
    """(B, H, M, K), without biases."""
    projection: Tensor
    """(H, K, D)."""
    residual: Tensor
    """(B, Q, D)."""
    y: Tensor
    """With the biases, (B, Q, D)."""


def points_of_attention(model: Seq2SeqModel) -> list[str]:
    """Return the hook points from which ``attention_as_sum`` takes all attentions apart."""
    paths = (
        attention_path(kind, layer)
        for kind in KINDS
        for layer in range(model.description.layers(kind))
    )
    points = (*_POINTS, *_OF_OUTPUT_NORM) if model.description.output_norms else _POINTS
    return [f"{path}{point}" for path in paths for point in points]


def attention_as_sum(
    model: Seq2SeqModel, seen: Mapping[str, list[Tensor]], kind: Kind, layer: int
) -> AttentionSum:
    """Take an attention apart, with its residual and, where it follows, its norm.

    ``seen`` is what ``capture`` saw at ``points_of_attention`` in one pass; layers count from 0.
    """
    path = attention_path(kind, layer)
    weights, value, change, before = (in_float32(seen[f"{path}{point}"][0]) for point in _POINTS)
    heads, d_k = value.shape[1], value.shape[-1]
    projection = in_float32(model.linear(f"{path}.output_projection").weight)  # (H K, D)
    if (norm := model.output_norm(path)) is not None:
        given, change = (in_float32(seen[f"{path}{point}"][0]) for point in _OF_OUTPUT_NORM)
        held = HeldNorm.seen(model, norm, given, change)
        projection = held.direction(projection)
        weights = weights * held.rate[:, None]
    if model.description.of(kind).norm == "pre":
        residual, y = before, before + change
    else:
        norm = model.norm(path)
        held = HeldNorm.at(model, norm, before)
        residual, y = held(before - change), held(before)
        if norm.bias is not None:
            y = y + in_float32(norm.bias)
        projection = held.direction(projection)
        weights = weights * held.rate[:, None]
    offset = _value_offset(model, kind, path).view(heads, 1, d_k)
    return AttentionSum(weights, value - offset, projection.view(heads, d_k, -1), residual, y)


def _value_offset(model: Seq2SeqModel, kind: Kind, path: str) -> Tensor:
    """Compute what biases add to the values of every token: (H K,)."""
    weight, bias = model.linear(f"{path}.value_projection")
    offset = torch.zeros_like(weight[0]) if bias is None else bias
    # In cross-attention the values are made from the memory, whose norm belongs to the encoder.
    if model.description.of(kind).norm == "pre" and kind != "cross":
        of_norm = model.norm(path).bias
        if of_norm is not None:
            offset = offset + of_norm @ weight
    return in_float32(offset)
