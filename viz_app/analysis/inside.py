"""A head, its layer and what follows, step by step: sections 3.1 to 3.3 of Vaswani et al. (2017).

All is computed in float64 from what enters a sublayer and its weights, never from what the model
was seen to compute; ``deviations`` compares the two. ``H`` heads, ``K`` = d_k, ``D`` = d_model,
``M`` keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viz_app.layer_records import (
    AttentionSublayer,
    FeedForwardSublayer,
    LayerTrace,
    Linear,
    Norm,
)

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class HeadSteps:
    """One head at one query row, in the order of equation 1."""

    query: Doubles
    """(K,)."""
    keys: Doubles
    """(M, K)."""
    products: Doubles
    """q·k of each key, (M,)."""
    scaled: Doubles
    """Divided by √K, (M,)."""
    masked: Doubles
    """-inf where the query may not attend, (M,)."""
    weights: Doubles
    """After softmax, (M,)."""
    values: Doubles
    """(M, K)."""
    weighted: Doubles
    """Each value times its weight, (M, K)."""
    output: Doubles
    """Their sum, (K,)."""


@dataclass(frozen=True)
class Shares:
    """The output of multi-head attention at one row, taken apart by heads."""

    parts: Doubles
    """Each head's output times its rows of W_O, (H, D)."""
    bias: Doubles
    """Of W_O, (D,); 0 where it has none."""
    output: Doubles
    """The sum of all parts and the bias, (D,)."""
    shares: Doubles
    """How much of the output points along each head's part, the last along the bias, (H + 1,)."""


@dataclass(frozen=True)
class ResidualSteps:
    """A residual connection at one row, each (D,)."""

    stream: Doubles
    read: Doubles
    """What the sublayer is given."""
    output: Doubles
    """What the sublayer gives."""
    total: Doubles
    """stream + output."""
    result: Doubles
    """What goes on."""


@dataclass(frozen=True)
class FeedForwardSteps:
    """The feed-forward at one row."""

    before: Doubles
    """xW₁ + b₁, (d_ff,)."""
    hidden: Doubles
    """max(0, before), (d_ff,)."""
    output: Doubles
    """(D,)."""


def _require(name: str, value: int, size: int) -> None:
    if not 0 <= value < size:
        raise ValueError(f"{name}: expected 0 to {size - 1}, got {value}")


def _apply(linear: Linear, x: ArrayLike, columns: slice = slice(None)) -> Doubles:
    """Some columns of a linear layer: (…, inputs) → (…, columns)."""
    y: Doubles = np.asarray(x, np.float64) @ linear.weight[:, columns].astype(np.float64)
    return y if linear.bias is None else y + linear.bias[columns]


def _columns(attention: AttentionSublayer, head: int) -> slice:
    """Where a head's K numbers stand among the H K of its layer."""
    d_k = attention.output_projection.weight.shape[0] // attention.n_heads
    return slice(head * d_k, (head + 1) * d_k)


def follow_head(attention: AttentionSublayer, head: int, row: int) -> HeadSteps:
    """softmax(qKᵀ/√d_k)V step by step; equation 1, after the projections of section 3.2.2.

    Raises:
        ValueError: on a head or a row that is not there.
    """
    _require("head", head, attention.n_heads)
    _require("row", row, len(attention.read))
    columns = _columns(attention, head)
    query = _apply(attention.query_projection, attention.read[row], columns)  # (K,)
    keys = _apply(attention.key_projection, attention.memory, columns)  # (M, K)
    values = _apply(attention.value_projection, attention.memory, columns)  # (M, K)
    products = keys @ query  # (M,)
    scaled = products / math.sqrt(len(query))
    masked = np.where(attention.allowed[row], scaled, -np.inf)
    exponentials = np.exp(masked - masked.max())
    weights = exponentials / exponentials.sum()
    weighted = weights[:, None] * values  # (M, K)
    return HeadSteps(
        query=query,
        keys=keys,
        products=products,
        scaled=scaled,
        masked=masked,
        weights=weights,
        values=values,
        weighted=weighted,
        output=weighted.sum(axis=0),
    )


def head_shares(attention: AttentionSublayer, row: int) -> Shares:
    """Concat(head_1, …, head_h) W_O as a sum over heads; section 3.2.2.

    A share is part · output / ‖output‖²: the length of the part along the output, in units of the
    output's own. Shares sum to 1; one is negative where a head pulls the other way. All are 0 where
    the output is. Heads count as on, whatever was switched off in the trace.

    Raises:
        ValueError: on a row that is not there.
    """
    heads = range(attention.n_heads)
    projection = attention.output_projection
    outputs = [follow_head(attention, head, row).output for head in heads]
    parts = np.stack(
        [outputs[head] @ projection.weight[_columns(attention, head)] for head in heads]
    )
    bias = np.zeros(parts.shape[1])
    if projection.bias is not None:
        bias += projection.bias
    output = parts.sum(axis=0) + bias
    along = np.vstack([parts, bias]) @ output  # (H + 1,)
    square = output @ output
    return Shares(parts, bias, output, along / square if square > 0 else np.zeros_like(along))


def layer_norm(x: ArrayLike, norm: Norm) -> Doubles:
    """(…, D) → (…, D): standardised, with ε added to the variance; Ba et al. (2016), equation 4.

    The variance is the mean square (over D, not D - 1), as in PyTorch.
    """
    x = np.asarray(x, np.float64)
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    standard: Doubles = centred / np.sqrt(variance + norm.epsilon)
    return standard * norm.gain + norm.bias


def follow_residual(
    sublayer: AttentionSublayer | FeedForwardSublayer, output: ArrayLike, row: int
) -> ResidualSteps:
    """The residual connection and its norm around what a sublayer gave at a row, (D,).

    LayerNorm(x + Sublayer(x)) in post-norm, section 3.1; x + Sublayer(LayerNorm(x)) in pre-norm.

    Raises:
        ValueError: on a row that is not there.
    """
    _require("row", row, len(sublayer.stream))
    stream = sublayer.stream[row].astype(np.float64)
    output = np.asarray(output, np.float64)
    total = stream + output
    if sublayer.norm_first:
        return ResidualSteps(stream, layer_norm(stream, sublayer.norm), output, total, total)
    return ResidualSteps(stream, stream, output, total, layer_norm(total, sublayer.norm))


def follow_feed_forward(feed_forward: FeedForwardSublayer, row: int) -> FeedForwardSteps:
    """max(0, xW₁ + b₁)W₂ + b₂ step by step; equation 2.

    Raises:
        ValueError: on a row that is not there.
    """
    _require("row", row, len(feed_forward.read))
    before = _apply(feed_forward.expand, feed_forward.read[row])  # (d_ff,)
    hidden = np.maximum(before, 0)
    return FeedForwardSteps(before, hidden, _apply(feed_forward.contract, hidden))


def strongest(values: ArrayLike, count: int) -> NDArray[np.int64]:
    """Indices of the ``count`` largest of (n,) values above 0, the largest first.

    Of equal values the earlier comes first; fewer indices come back if fewer values are above 0.
    """
    values = np.asarray(values)
    order = np.argsort(-values, kind="stable")[:count]
    return order[values[order] > 0]


def deviations(layer: LayerTrace, head: int, row: int) -> dict[str, float]:
    """How far what is computed here is from what the model computed, step by step, in order.

    Of each step the largest absolute difference at a head and a row. The steps of a layer with
    switched-off heads deviate from the head output on: here all heads count as on.

    Raises:
        ValueError: on a head or a row that is not there.
    """
    attention, feed_forward = layer.attention, layer.feed_forward
    steps = follow_head(attention, head, row)
    output = head_shares(attention, row).output
    hidden = follow_feed_forward(feed_forward, row)
    pairs = {
        "query": (steps.query, attention.query[head, row]),
        "keys": (steps.keys, attention.key[head]),
        "scores": (steps.scaled, attention.scores[head, row]),
        "weights": (steps.weights, attention.weights[head, row]),
        "head output": (steps.output, attention.heads[head, row]),
        "layer output": (output, attention.output[row]),
        "stream after attention": (
            follow_residual(attention, output, row).result,
            attention.result[row],
        ),
        "hidden units": (hidden.hidden, feed_forward.hidden[row]),
        "stream after the feed-forward": (
            follow_residual(feed_forward, hidden.output, row).result,
            feed_forward.result[row],
        ),
    }
    return {name: float(np.abs(ours - theirs).max()) for name, (ours, theirs) in pairs.items()}
