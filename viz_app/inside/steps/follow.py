"""A layer computed step by step, as in sections 3.1 to 3.3 of Vaswani et al. (2017).

Everything is computed in float64 from the input and the weights of a sublayer, never from tensors
captured from the model; ``deviations`` compares the two. ``H`` heads, ``K`` = d_k, ``D`` = d_model,
``M`` keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headwise.model.ties import descending
from headwise.viz_app.records.model import (
    AttentionSublayer,
    FeedForwardSublayer,
    LayerTrace,
    LinearWeights,
    NormWeights,
    Sublayer,
)
from headwise.viz_app.records.trace import Floats

Doubles = NDArray[np.float64]


def _gelu_by_tanh(x: Doubles) -> Doubles:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


ACTIVATIONS: dict[str, Callable[[Doubles], Doubles]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "gelu_new": _gelu_by_tanh,
    "gelu_pytorch_tanh": _gelu_by_tanh,
    **dict.fromkeys(("swish", "silu"), lambda x: x / (1 + np.exp(-x))),
    "tanh": np.tanh,
}
"""The activation functions by their names in configurations: ReLU, GELU (Hendrycks & Gimpel 2016)
exactly and by its approximation, swish (Ramachandran et al. 2017), tanh."""


@dataclass(frozen=True)
class HeadSteps:
    """One head is computed for one query row in these steps, in the order of equation 1."""

    query: Doubles  # the query vector, (K,)
    keys: Doubles  # the key vectors, (M, K)
    products: Doubles  # the dot products q·k, (M,)
    scaled: Doubles  # divided by √K, (M,); as they are in a model that does not scale
    position_bias: Doubles | None  # of relative positions, (M,); None where they are embedded
    scores: Doubles  # the scaled products plus the position bias, (M,)
    capped: Doubles | None  # c tanh(score / c) of the scores, (M,); None without a cap c
    masked: Doubles  # the scores, after any cap, −∞ where the query may not attend, (M,)
    weights: Doubles  # the softmax of ``masked``, (M,), over the keys of another half too
    values: Doubles  # the value vectors, (M, K)
    weighted: Doubles  # each value times its weight, (M, K)
    output: Doubles  # the sum of the weighted values, (K,)


@dataclass(frozen=True)
class HeadShares:
    """The output of multi-head attention at one row is split into the parts of its heads."""

    parts: Doubles  # each head's output times its rows of W_O, (H, D)
    bias: Doubles  # the bias of the output projection, (D,); 0 if it has none
    output: Doubles  # the sum of all parts and the bias, (D,)
    shares: Doubles  # of each head in the output, and of the bias, (H + 1,)


@dataclass(frozen=True)
class ResidualSteps:
    """A residual connection and its norm are computed for one row in these steps, each (D,)."""

    stream: Doubles  # the input of the residual connection
    read: Doubles  # the input of the sublayer
    output: Doubles  # the output of the sublayer, after a norm of its own if it has one
    total: Doubles  # ``stream`` + ``output``
    result: Doubles  # the output of the residual connection, after the norm in post-norm


@dataclass(frozen=True)
class FeedForwardSteps:
    """The feed-forward is computed for one row in these steps."""

    before: Doubles  # before the activation function, xW₁ + b₁, (d_ff,)
    gate: Doubles | None  # what the activated units are multiplied by, (d_ff,); None without a gate
    hidden: Doubles  # after the activation function and the gate, (d_ff,)
    output: Doubles  # the output, (D,)


def _require(name: str, value: int, size: int) -> None:
    if not 0 <= value < size:
        raise ValueError(f"{name}: expected 0 to {size - 1}, got {value}")


def _apply(linear: LinearWeights, x: ArrayLike, columns: slice = slice(None)) -> Doubles:
    """Apply some columns of a linear layer: (…, inputs) → (…, columns)."""
    y: Doubles = np.asarray(x, np.float64) @ linear.weight[:, columns].astype(np.float64)
    return y if linear.bias is None else y + linear.bias[columns]


def _turned(x: Doubles, cos: Floats, sin: Floats) -> Doubles:
    """Turn vectors by their positions, (…, K): x cos + (−x₂, x₁) sin of the halves x₁, x₂ of x."""
    first, second = np.split(x, 2, axis=-1)
    turned: Doubles = x * cos + np.concatenate([-second, first], axis=-1) * sin
    return turned


def _columns(attention: AttentionSublayer, head: int) -> slice:
    d_k = attention.output_projection.weight.shape[0] // attention.n_heads
    return slice(head * d_k, (head + 1) * d_k)


def follow_head(attention: AttentionSublayer, head: int, row: int) -> HeadSteps:
    """Compute one head for one query row: the projections of section 3.2.2, then equation 1.

    The sum of the softmax is over the keys of the other half, too, where there is one.
    """
    steps = _follow_scores(attention, head, row)
    if attention.other is None:
        return steps
    of_other = _follow_scores(attention.other, head, row)
    both = [steps.masked, of_other.masked]
    largest = max(masked.max() for masked in both)
    total = sum(np.exp(masked - largest).sum() for masked in both)
    weights = np.exp(steps.masked - largest) / total
    weighted = weights[:, None] * steps.values
    return replace(steps, weights=weights, weighted=weighted, output=weighted.sum(axis=0))


def _follow_scores(attention: AttentionSublayer, head: int, row: int) -> HeadSteps:
    """Compute one head for one query row, as if no other half were in its softmax."""
    _require("head", head, attention.n_heads)
    _require("row", row, len(attention.read))
    columns = _columns(attention, head)  # of its K dimensions among the H K of the layer
    query = _apply(attention.query_projection, attention.read[row], columns)  # (K,)
    keys = _apply(attention.key_projection, attention.memory, columns)  # (M, K)
    if attention.query_norm is not None:
        query = apply_norm(query, attention.query_norm)
    if attention.key_norm is not None:
        keys = apply_norm(keys, attention.key_norm)
    if attention.rotation is not None:
        cos, sin = attention.rotation
        query = _turned(query, cos[row], sin[row])
        keys = _turned(keys, cos, sin) if attention.turns_keys else keys
    values = _apply(attention.value_projection, attention.memory, columns)  # (M, K)
    products = keys @ query  # (M,)
    scaled = products * attention.scale
    bias, scores = None, scaled
    if attention.position_bias is not None:
        bias = attention.position_bias[head, row].astype(np.float64)  # (M,)
        scores = scaled + bias
    cap = attention.cap
    limited = scores if cap is None else cap * np.tanh(scores / cap)
    masked = np.where(attention.allowed[row], limited, -np.inf)
    exponentials = np.exp(masked - masked.max())
    weights = exponentials / exponentials.sum()
    weighted = weights[:, None] * values  # (M, K)
    return HeadSteps(
        query=query,
        keys=keys,
        products=products,
        scaled=scaled,
        position_bias=bias,
        scores=scores,
        capped=None if cap is None else limited,
        masked=masked,
        weights=weights,
        values=values,
        weighted=weighted,
        output=weighted.sum(axis=0),
    )


def head_shares(attention: AttentionSublayer, row: int) -> HeadShares:
    """Split Concat(head_1, …, head_h) W_O (section 3.2.2) at one row into a sum over heads.

    A share is part · output / ‖output‖²: shares sum to 1, and one below 0 points against the
    output. All are 0 if that is 0. No head is ablated here, even if it was in the trace.
    """
    heads = range(attention.n_heads)
    projection = attention.output_projection
    outputs = [follow_head(attention, head, row).output for head in heads]
    parts = np.stack(
        [outputs[head] @ projection.weight[_columns(attention, head)] for head in heads]
    )
    bias = np.zeros(parts.shape[1]) + (0 if projection.bias is None else projection.bias)
    output = parts.sum(axis=0) + bias
    along = np.vstack([parts, bias]) @ output  # (H + 1,)
    square = output @ output
    return HeadShares(parts, bias, output, along / square if square > 0 else np.zeros_like(along))


def apply_norm(x: ArrayLike, norm: NormWeights) -> Doubles:
    """Apply a norm, (…, D) → (…, D): Ba et al. (2016), equation 4, with the mean square as
    variance, as in PyTorch; without a bias by the root mean square (Zhang & Sennrich 2019, equation
    4).
    """
    x = np.asarray(x, np.float64)
    if norm.bias is None:
        scaled: Doubles = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + norm.epsilon)
        return scaled * norm.gain
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    standard: Doubles = centred / np.sqrt(variance + norm.epsilon)
    return standard * norm.gain + norm.bias


def follow_residual(sublayer: Sublayer, output: ArrayLike, row: int) -> ResidualSteps:
    """Compute the residual connection and its norm at one row, from the sublayer's output, (D,).

    LayerNorm(x + Sublayer(x)) (3.1), pre-norm x + Sublayer(LayerNorm(x)); halves are added.
    """
    _require("row", row, len(sublayer.stream))
    stream = sublayer.stream[row].astype(np.float64)
    output = np.asarray(output, np.float64)
    if isinstance(sublayer, AttentionSublayer) and sublayer.other is not None:
        output = output + head_shares(sublayer.other, row).output
    if sublayer.output_norm is not None:
        output = apply_norm(output, sublayer.output_norm)
    total = stream + output
    if sublayer.norm_first:
        return ResidualSteps(stream, apply_norm(stream, sublayer.norm), output, total, total)
    return ResidualSteps(stream, stream, output, total, apply_norm(total, sublayer.norm))


def follow_feed_forward(feed_forward: FeedForwardSublayer, row: int) -> FeedForwardSteps:
    """Compute the feed-forward at one row: f(xW₁ + b₁)W₂ + b₂, equation 2 for f = ReLU, gated as
    Shazeer (2020) does. ValueError if f is not in ``ACTIVATIONS``.
    """
    _require("row", row, len(feed_forward.read))
    name, known = feed_forward.activation, ", ".join(ACTIVATIONS)
    if name not in ACTIVATIONS:
        raise ValueError(f"the activation function {name!r} is not known here; known are {known}")
    before = _apply(feed_forward.expand, feed_forward.read[row])  # (d_ff,)
    hidden, gate = ACTIVATIONS[name](before), None
    if feed_forward.gate is not None:
        gate = _apply(feed_forward.gate, feed_forward.read[row])  # (d_ff,)
        hidden = hidden * gate
    return FeedForwardSteps(before, gate, hidden, _apply(feed_forward.contract, hidden))


def largest_positive(values: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return the indices of the ``count`` largest positive values of (n,), largest first.

    Equal values stay in order. If fewer values are positive, fewer indices are returned.
    """
    values = np.asarray(values)
    positive = np.flatnonzero(values > 0)
    return positive[descending(values[positive])[:count]]


def deviations(layer: LayerTrace, head: int, row: int) -> dict[str, float]:
    """Return how far each step, in order, is at most from the tensor captured from the model.

    No head is ablated here: if one was in the model, the steps from the head output on deviate.
    """
    attention, feed_forward = layer.attention, layer.feed_forward
    steps = follow_head(attention, head, row)
    output = head_shares(attention, row).output
    after_attention = follow_residual(attention, output, row).result
    hidden = follow_feed_forward(feed_forward, row)
    after_all = follow_residual(feed_forward, hidden.output, row).result
    pairs = {
        "query": (steps.query, attention.query[head, row]),
        "keys": (steps.keys, attention.key[head]),
        "scores": (
            steps.scores if steps.capped is None else steps.capped,
            attention.scores[head, row],
        ),
        "weights": (steps.weights, attention.weights[head, row]),
        "head output": (steps.output, attention.heads[head, row]),
        "layer output": (output, attention.output[row]),
        "stream after attention": (after_attention, attention.result[row]),
        "hidden units": (hidden.hidden, feed_forward.hidden[row]),
        "stream after the feed-forward": (after_all, feed_forward.result[row]),
    }
    return {name: float(np.abs(ours - theirs).max()) for name, (ours, theirs) in pairs.items()}
