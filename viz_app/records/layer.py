"""One layer as it ran: its input, its weights, and every tensor that the model computed.

A ``Trace`` has no weights and few tensors from inside a layer; these records have both, for one
kind of attention in one layer and for the feed-forward of that layer. ``H`` heads, ``K`` = d_k,
``D`` = d_model, ``Q`` and ``M`` the query and key lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Kind
from headwise.viz_app.records.trace import Floats


@dataclass(frozen=True)
class LinearWeights:
    """A linear layer has these weights, as the paper writes it: y = x ``weight`` + ``bias``."""

    weight: Floats
    """(inputs, outputs)."""
    bias: Floats | None
    """(outputs,); None where the layer has none."""


@dataclass(frozen=True)
class NormWeights:
    """A norm has these weights; it standardises the last axis, then scales and shifts it.

    y = ``gain`` · (x − mean) / √(variance + ``epsilon``) + ``bias`` (Ba et al. 2016, equation 4).
    Without a bias it divides by the root mean square (Zhang & Sennrich 2019):
    y = ``gain`` · x / √(mean square + ``epsilon``).
    """

    gain: Floats
    """(D,)."""
    bias: Floats | None
    """(D,); None for a norm that divides by the root mean square."""
    epsilon: float
    """Added to the variance before the square root."""


@dataclass(frozen=True)
class AttentionSublayer:
    """One multi-head attention with its residual connection is recorded as read-only float32.

    ``query`` to ``result`` are captured from the model; they can be computed again from the fields
    before them.
    """

    kind: Kind
    layer: int
    """From 0."""
    n_heads: int
    norm_first: bool
    """True for pre-norm: norm before the sublayer. False for post-norm: norm after the sum."""
    norm: NormWeights
    query_projection: LinearWeights
    """(D, H K), like key and value; head h uses columns h K to (h + 1) K."""
    key_projection: LinearWeights
    value_projection: LinearWeights
    output_projection: LinearWeights
    """W_O, (H K, D); head h uses rows h K to (h + 1) K."""
    allowed: NDArray[np.bool_]
    """The mask (Q, M), True = may attend."""
    stream: Floats
    """The input of the residual connection, (Q, D)."""
    read: Floats
    """The input of the query projection, (Q, D): the normed stream in pre-norm, else the stream."""
    memory: Floats
    """The input of the key and value projections, (M, D): the encoder's output for
    cross-attention, else ``read``."""
    query: Floats
    """(H, Q, K)."""
    key: Floats
    """(H, M, K)."""
    value: Floats
    """(H, M, K)."""
    position_bias: Floats | None
    """What relative positions add to the scores, (H, Q, M); None where positions are embedded."""
    scale: float
    """Factor of the products q·k: 1/√K, or 1 in a model that does not scale."""
    scores: Floats
    """The scaled products plus the position bias, before the mask is applied, (H, Q, M)."""
    weights: Floats
    """(H, Q, M); rows sum to 1."""
    heads: Floats
    """Weighted values, (H, Q, K); 0 for a head that is switched off."""
    output: Floats
    """The sublayer's output, after W_O, (Q, D)."""
    result: Floats
    """The stream after the residual connection (and its norm, in post-norm), (Q, D)."""


@dataclass(frozen=True)
class FeedForwardSublayer:
    """One feed-forward with its residual connection is recorded as read-only float32 arrays.

    ``hidden``, ``output`` and ``result`` are captured from the model.
    """

    norm_first: bool
    """True for pre-norm, False for post-norm."""
    norm: NormWeights
    activation: str
    """Name of the activation function."""
    expand: LinearWeights
    """W₁ and b₁, (D, d_ff)."""
    gate: LinearWeights | None
    """A second projection (D, d_ff) that the hidden units are multiplied by; None without one."""
    contract: LinearWeights
    """W₂ and b₂, (d_ff, D)."""
    stream: Floats
    """The input of the residual connection, (Q, D)."""
    read: Floats
    """The input of the feed-forward, (Q, D): the normed stream in pre-norm, else the stream."""
    hidden: Floats
    """The hidden units after the activation function and the gate, (Q, d_ff)."""
    output: Floats
    """The sublayer's output, after W₂, (Q, D)."""
    result: Floats
    """The stream after the layer, (Q, D)."""


@dataclass(frozen=True)
class LayerTrace:
    """One attention of a layer is recorded together with the feed-forward that ends the layer.

    A decoder layer has cross-attention between self-attention and feed-forward: the feed-forward's
    ``stream`` is then the ``result`` of cross-attention, even if ``attention`` is self-attention.
    """

    attention: AttentionSublayer
    feed_forward: FeedForwardSublayer
