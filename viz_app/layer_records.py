"""One layer as it ran: what entered it, its weights, and what the model computed with them.

A ``Trace`` keeps no weights and little of the inside of a layer; these records hold both, for one
kind of attention in one layer and for the feed-forward of that layer. ``H`` heads, ``K`` = d_k,
``D`` = d_model, ``Q`` and ``M`` the query and key lengths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viz_app.records import Floats, Kind


@dataclass(frozen=True)
class Linear:
    """y = x ``weight`` + ``bias``, with the weight as the paper writes it."""

    weight: Floats
    """(inputs, outputs)."""
    bias: Floats | None
    """(outputs,); None where the layer has none."""


@dataclass(frozen=True)
class Norm:
    """A layer norm: standardised over the last axis, times ``gain``, plus ``bias``."""

    gain: Floats
    """(D,)."""
    bias: Floats
    """(D,)."""
    epsilon: float
    """Added to the variance before its root is taken."""


@dataclass(frozen=True)
class AttentionSublayer:
    """One multi-head attention and the residual connection around it; read-only float32 arrays.

    ``query`` to ``result`` are captured from the model; all of them follow from what stands above.
    """

    kind: Kind
    layer: int
    """From 0."""
    n_heads: int
    norm_first: bool
    """Whether the norm stands before the sublayer (pre-norm), or after the sum as in the paper."""
    norm: Norm
    query_projection: Linear
    """(D, H K), like the next two; head h has the columns from h K on."""
    key_projection: Linear
    value_projection: Linear
    output_projection: Linear
    """W_O, (H K, D); head h has the rows from h K on."""
    allowed: NDArray[np.bool_]
    """The mask (Q, M), True = may attend."""
    stream: Floats
    """What enters the residual connection, (Q, D)."""
    read: Floats
    """What queries are made of, (Q, D): the normed stream in pre-norm, else the stream itself."""
    memory: Floats
    """What keys and values are made of, (M, D): for cross-attention the encoder's output, else
    ``read``."""
    query: Floats
    """(H, Q, K)."""
    key: Floats
    """(H, M, K)."""
    value: Floats
    """(H, M, K)."""
    scores: Floats
    """q·k / √K before the mask, (H, Q, M)."""
    weights: Floats
    """(H, Q, M); rows sum to 1."""
    heads: Floats
    """Weighted values, (H, Q, K); 0 for a head that is switched off."""
    output: Floats
    """After W_O, (Q, D)."""
    result: Floats
    """The stream after the residual connection (and its norm, in post-norm), (Q, D)."""


@dataclass(frozen=True)
class FeedForwardSublayer:
    """The feed-forward and the residual connection around it; read-only float32 arrays.

    ``hidden``, ``output`` and ``result`` are captured from the model.
    """

    norm_first: bool
    """As in ``AttentionSublayer``."""
    norm: Norm
    expand: Linear
    """W₁ and b₁, (D, d_ff)."""
    contract: Linear
    """W₂ and b₂, (d_ff, D)."""
    stream: Floats
    """What enters the residual connection, (Q, D)."""
    read: Floats
    """What the feed-forward is given, (Q, D): the normed stream in pre-norm, else the stream."""
    hidden: Floats
    """After the ReLU, (Q, d_ff)."""
    output: Floats
    """(Q, D)."""
    result: Floats
    """The stream after the layer, (Q, D)."""


@dataclass(frozen=True)
class LayerTrace:
    """One attention of a layer, and the feed-forward at the end of the same layer.

    In a decoder layer cross-attention stands between self-attention and feed-forward: there the
    feed-forward's ``stream`` is the ``result`` of cross-attention, whichever of the two is shown.
    """

    attention: AttentionSublayer
    feed_forward: FeedForwardSublayer
