"""Attention: section 3.2 of Vaswani et al. (2017).

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``K`` = d_k, ``D`` = d_model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headwise.model.hooks import HookPoint


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Compute QKᵀ/√d_k: (B, H, Q, K), (B, H, M, K) → (B, H, Q, M); equation 1, before the mask."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def attention_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Apply softmax over the allowed keys: (B, H, Q, M) → (B, H, Q, M), exactly 0 where masked.

    It is computed in float32, or float64, whatever the type of the scores.
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def trains_on_cpu(query: Tensor) -> bool:
    """Return whether gradients are computed on a CPU, where the explicit formula is faster."""
    return query.is_cpu and query.requires_grad


@dataclass
class KeyValueCache:
    """Keeps keys and values of one attention between the steps of decoding.

    Self-attention appends those of each new position; cross-attention computes its own once
    (``fixed``).
    """

    fixed: bool
    key: Tensor | None = None  # (B, H, M, K)
    value: Tensor | None = None  # (B, H, M, K)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values of new positions, (B, H, new, K); return all, (B, H, M, K)."""
        if self.key is not None and self.value is not None:
            key = torch.cat([self.key, key], dim=2)
            value = torch.cat([self.value, value], dim=2)
        self.key, self.value = key, value
        return key, value

    def keep(self, rows: Tensor) -> None:
        """Select and reorder the rows of the batch: ``rows`` is a LongTensor of row indices."""
        if self.key is not None and self.value is not None:
            self.key, self.value = self.key[rows], self.value[rows]


class MultiHeadAttention(nn.Module):
    """Multi-head attention, section 3.2.2; one class for self- and cross-attention.

    Hook points: ``query``, ``key``, ``value`` (B, H, ·, K); ``scores`` before the mask and
    ``weights`` after softmax (B, H, Q, M); ``heads``, the weighted values (B, H, Q, K); ``output``
    after W_O (B, Q, D). The explicit formula runs while ``scores`` or ``weights`` is in use, and in
    training on a CPU; otherwise PyTorch's fused kernel does. As in the paper, there is no dropout
    on the weights.
    """

    def __init__(self, *, d_model: int, n_heads: int, d_k: int, bias: bool) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, n_heads * d_k, bias=bias)
        self.key_projection = nn.Linear(d_model, n_heads * d_k, bias=bias)
        self.value_projection = nn.Linear(d_model, n_heads * d_k, bias=bias)
        self.output_projection = nn.Linear(n_heads * d_k, d_model, bias=bias)
        self.query = HookPoint()
        self.key = HookPoint()
        self.value = HookPoint()
        self.scores = HookPoint()
        self.weights = HookPoint()
        self.heads = HookPoint()
        self.output = HookPoint()

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.n_heads, -1).transpose(1, 2)  # (B, H, ·, K)

    def _keys_and_values(self, y: Tensor, cache: KeyValueCache | None) -> tuple[Tensor, Tensor]:
        if cache is not None and cache.fixed and cache.key is not None and cache.value is not None:
            return cache.key, cache.value
        key = self.key(self._split(self.key_projection(y)))
        value = self.value(self._split(self.value_projection(y)))
        return cache.append(key, value) if cache is not None else (key, value)

    def forward(
        self, x: Tensor, y: Tensor, *, mask: Tensor | None, cache: KeyValueCache | None = None
    ) -> Tensor:
        """Let queries from x (B, Q, D) attend to keys and values from y (B, M, D) → (B, Q, D).

        For self-attention y is x, for cross-attention the encoder's output. The mask is boolean,
        broadcastable to (B, H, Q, M), True = may attend; None allows all. Keys and values of y are
        appended to those in the cache; a filled ``fixed`` cache is used instead of y.
        """
        query = self.query(self._split(self.query_projection(x)))  # (B, H, Q, K)
        key, value = self._keys_and_values(y, cache)  # (B, H, M, K)
        if self.scores.in_use or self.weights.in_use or trains_on_cpu(query):
            scores = self.scores(attention_scores(query, key))  # (B, H, Q, M)
            weights = self.weights(attention_weights(scores, mask))
            heads = weights.to(value.dtype) @ value
        else:
            heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        heads = self.heads(heads)  # (B, H, Q, K)
        return self.output(self.output_projection(heads.transpose(1, 2).flatten(-2)))  # (B, Q, D)
