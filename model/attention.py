"""Attention: section 3.2 of Vaswani et al. (2017).

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``K`` = d_k, ``D`` = d_model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from model.hooks import HookPoint
from model.modules import Linear, Module, Stack


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ/√d_k: (B, H, Q, K), (B, H, M, K) → (B, H, Q, M); equation 1, before the mask."""
    scores = torch.baddbmm(  # scales within the product
        query.new_empty(()),
        query.flatten(0, 1),
        key.flatten(0, 1).transpose(1, 2),
        beta=0,
        alpha=1 / math.sqrt(query.shape[-1]),
    )
    return scores.unflatten(0, query.shape[:2])


def attention_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the allowed keys: (B, H, Q, M) → (B, H, Q, M), exactly 0 where masked."""
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return scores.softmax(dim=-1)


def prefers_formula(query: Tensor) -> bool:
    """On a CPU the fused kernel's backward pass is slower than the formula's."""
    return query.is_cpu and query.requires_grad


@dataclass
class KeyValueCache:
    """Keys and values that one attention module has computed in this decoding.

    Self-attention appends those of each new position; cross-attention, whose keys never change
    within a sentence, computes them once (``fixed``).
    """

    fixed: bool
    key: Tensor | None = None  # (B, H, M, K)
    value: Tensor | None = None  # (B, H, M, K)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add new positions (B, H, new, K); all positions so far (B, H, M, K) come back."""
        if self.key is not None and self.value is not None:
            key = torch.cat([self.key, key], dim=2)
            value = torch.cat([self.value, value], dim=2)
        self.key, self.value = key, value
        return key, value

    def keep(self, rows: Tensor) -> None:
        """Reorder or drop batch rows: a LongTensor of the rows to go on with."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[rows], self.value[rows]


class MultiHeadAttention(Module):
    """Multi-head attention, section 3.2.2; one class for self- and cross-attention.

    Hook points: ``query``, ``key``, ``value`` (B, H, ·, K); ``scores`` before the mask and
    ``weights`` after softmax (B, H, Q, M); ``heads``, the weighted values (B, H, Q, K); ``output``
    after W_O (B, Q, D). The explicit formula runs while the calling thread uses ``scores`` or
    ``weights``, and in training on a CPU; otherwise PyTorch's fused kernel does. No dropout on the
    weights, nor in the paper.
    """

    def __init__(self, *, d_model: int, n_heads: int, d_k: int, bias: bool) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query_projection = Linear(d_model, n_heads * d_k, bias=bias)
        self.key_projection = Linear(d_model, n_heads * d_k, bias=bias)
        self.value_projection = Linear(d_model, n_heads * d_k, bias=bias)
        self.output_projection = Linear(n_heads * d_k, d_model, bias=bias)
        self._stack: Stack | None = None
        self.query = HookPoint()
        self.key = HookPoint()
        self.value = HookPoint()
        self.scores = HookPoint()
        self.weights = HookPoint()
        self.heads = HookPoint()
        self.output = HookPoint()

    def for_inference(self) -> None:
        """Lay the matrices of query, key and value side by side: one product instead of three."""
        self._stack = Stack(self.query_projection, self.key_projection, self.value_projection)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.n_heads, -1).transpose(1, 2)  # (B, H, ·, K)

    def _project(
        self, x: Tensor, y: Tensor, cache: KeyValueCache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of x, keys and values of y or from the cache: (B, H, ·, K)."""
        if x is y and self._stack is not None and self._stack.intact():
            stacked = self._stack(x).view(*x.shape[:-1], 3, self.n_heads, -1)
            query, key, value = stacked.permute(2, 0, 3, 1, 4).unbind()
        else:
            query = self._split(self.query_projection(x))
            if cache is not None and cache.fixed and cache.key is not None:
                assert cache.value is not None
                return self.query(query), cache.key, cache.value
            key = self._split(self.key_projection(y))
            value = self._split(self.value_projection(y))
        query, key, value = self.query(query), self.key(key), self.value(value)
        if cache is not None:
            key, value = cache.append(key, value)
        return query, key, value

    def forward(
        self, x: Tensor, y: Tensor, *, mask: Tensor | None, cache: KeyValueCache | None = None
    ) -> Tensor:
        """Let queries from x attend to keys and values from y.

        Args:
            x: (B, Q, D).
            y: (B, M, D); x itself for self-attention, the encoder's output for cross-attention.
            mask: boolean, broadcastable to (B, H, Q, M), True = may attend; None allows all.
            cache: earlier keys and values, to which those of y are added; a fixed one that is
                filled stands for y.

        Returns:
            (B, Q, D).
        """
        query, key, value = self._project(x, y, cache)
        if self.scores.in_use or self.weights.in_use or prefers_formula(query):
            scores = self.scores(attention_scores(query, key))
            weights = self.weights(attention_weights(scores, mask))
            heads = weights.to(value.dtype) @ value  # softmax may run in float32 under autocast
        else:
            heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        heads = self.heads(heads)  # (B, H, Q, K)
        return self.output(self.output_projection(heads.transpose(1, 2).flatten(-2)))  # (B, Q, D)
