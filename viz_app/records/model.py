"""A model from inside: the tree of its modules, and one layer as it ran.

A ``Trace`` has no weights and few tensors from inside a layer. Records of a layer have both, and
its input, for one kind of attention and for the feed-forward of that layer. ``H`` heads, ``K`` =
d_k, ``D`` = d_model, ``Q`` and ``M`` the query and key lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Kind
from headwise.viz_app.records.trace import Floats, HookSummary


@dataclass(frozen=True)
class LinearWeights:
    """A linear layer has these weights, as the paper writes it: y = x ``weight`` + ``bias``."""

    weight: Floats  # (inputs, outputs)
    bias: Floats | None  # (outputs,); None where the layer has none


@dataclass(frozen=True)
class NormWeights:
    """A norm has these weights; it standardises the last axis, then scales and shifts it.

    y = ``gain`` · (x − mean) / √(variance + ``epsilon``) + ``bias`` (Ba et al. 2016, equation 4).
    Without a bias it divides by the root mean square (Zhang & Sennrich 2019): y = ``gain`` · x /
    √(mean square + ``epsilon``).
    """

    gain: Floats  # (D,)
    bias: Floats | None  # (D,); None for a norm that divides by the root mean square
    epsilon: float  # added to the variance before the square root


@dataclass(frozen=True)
class Sublayer:
    """A sublayer with its residual connection is recorded as read-only float32 arrays."""

    norm_first: bool  # pre-norm: norm before the sublayer; else after the sum
    norm: NormWeights
    stream: Floats  # the input of the residual connection, (Q, D)
    read: Floats  # what it reads, the query projection of attention: (Q, D), normed in pre-norm
    output: Floats  # the sublayer's output, after W_O or W₂, (Q, D); captured from the model
    result: Floats  # the stream after the residual connection and any norm, (Q, D); captured
    output_norm: NormWeights | None  # before it is added to the stream, if any


@dataclass(frozen=True)
class AttentionSublayer(Sublayer):
    """One multi-head attention; ``query`` to ``heads`` are captured from the model too.

    What is captured can be computed again from the other fields.
    """

    kind: Kind
    layer: int  # from 0
    n_heads: int
    query_projection: LinearWeights  # (D, H K), as key, value; head h has h K to (h + 1) K
    key_projection: LinearWeights
    value_projection: LinearWeights
    output_projection: LinearWeights  # W_O, (H K, D); head h uses rows h K to (h + 1) K
    allowed: NDArray[np.bool_]  # the mask (Q, M), True = may attend
    memory: Floats  # input of keys and values, (M, D): the encoder's output, or ``read``
    query: Floats  # (H, Q, K)
    key: Floats  # (H, M, K)
    value: Floats  # (H, M, K)
    query_norm: NormWeights | None  # of each head's, before they are turned, if any
    key_norm: NormWeights | None
    rotation: tuple[Floats, Floats] | None  # cosines and sines that turn queries, (Q, K)
    turns_keys: bool  # whether keys are turned as queries are
    position_bias: Floats | None  # added to scores, (H, Q, M); None if embedded
    scale: float  # factor of the products q·k: 1/√K, or 1 in a model that does not scale
    cap: float | None  # c of c tanh(score / c), which is before the mask; None without
    key_heads: int  # with keys and values of their own, each for as many heads
    scores: Floats  # with bias and cap, before the mask, (H, Q, M)
    weights: Floats  # (H, Q, M); rows sum to 1, with those of ``other`` if there is one
    heads: Floats  # weighted values, (H, Q, K); 0 for a head that is switched off
    other: AttentionSublayer | None
    """The other half of a merged attention, whose scores go into the same softmax, and whose output
    is added to this one's before any norm; None for an attention of its own."""


@dataclass(frozen=True)
class FeedForwardSublayer(Sublayer):
    """One feed-forward; ``hidden`` is captured from the model too."""

    activation: str  # name of the activation function
    expand: LinearWeights  # W₁ and b₁, (D, d_ff)
    gate: LinearWeights | None  # (D, d_ff), by which hidden units are multiplied, if any
    contract: LinearWeights  # W₂ and b₂, (d_ff, D)
    hidden: Floats  # the hidden units after the activation function and the gate, (Q, d_ff)


@dataclass(frozen=True)
class LayerTrace:
    """One attention of a layer is recorded together with the feed-forward that ends the layer,
    whose ``stream`` in the decoder is the ``result`` of cross-attention, whatever ``attention``
    is.
    """

    attention: AttentionSublayer
    feed_forward: FeedForwardSublayer


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model has a full name; a tied tensor is listed once for each name."""

    name: str
    shape: tuple[int, ...]
    shared_with: str | None = None  # first name of a tied tensor; None there

    @property
    def count(self) -> int:
        """Number of scalars; 0 for a tied tensor except at its first name."""
        return 0 if self.shared_with is not None else math.prod(self.shape)


@dataclass(frozen=True)
class HookPointNode:
    """A hook point is a leaf of the tree: what its tensor means, and a summary for one sentence."""

    summary: HookSummary
    meaning: str

    @property
    def path(self) -> str:
        return self.summary.name


@dataclass(frozen=True)
class ModuleNode:
    """A module is an inner node of the tree: texts about it, its parameters and its children."""

    path: str
    title: str
    what: str  # what the module does, in a few words
    formula: str
    parameters: tuple[Parameter, ...]  # directly, not of a child
    children: tuple[ModuleNode | HookPointNode, ...]  # in the model's order

    @property
    def own(self) -> int:
        return sum(parameter.count for parameter in self.parameters)

    @property
    def total(self) -> int:
        """Number of scalars in the parameters of this module and all modules below."""
        return self.own + sum(part.total for part in self.parts)

    @property
    def parts(self) -> tuple[ModuleNode, ...]:
        return tuple(child for child in self.children if isinstance(child, ModuleNode))

    def walk(self) -> Iterator[ModuleNode | HookPointNode]:
        """Yield this node and all nodes below it, parents before children."""
        yield self
        for child in self.children:
            if isinstance(child, ModuleNode):
                yield from child.walk()
            else:
                yield child
