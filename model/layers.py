"""The parts of a model besides attention: embeddings, positions, feed-forward, residuals, norms.

Sections 3.1, 3.3, 3.4 and 3.5 of Vaswani et al. (2017). ``B`` batch, ``S`` length, ``D`` = d_model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from headwise.model.config import TransformerConfig
from headwise.model.hooks import HookPoint
from headwise.model.masks import embeddable

Sublayer = Callable[[Tensor], Tensor]


def sinusoidal_positions(
    length: int, d_model: int, *, device: torch.device | None = None
) -> Tensor:
    """Compute positional encodings (length, D), float32.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)); section 3.5.
    """
    position = torch.arange(length, dtype=torch.float32, device=device)
    rate = torch.exp(
        torch.arange(0, d_model, 2, dtype=torch.float32, device=device)
        * (-math.log(10_000.0) / d_model)
    )
    angle = position[:, None] * rate  # (length, D / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (length, D)


@lru_cache(maxsize=16)
def _positions_below(end: int, d_model: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Compute encodings of positions 0 … end - 1, (end, D), for both inference and training."""
    with torch.inference_mode(False):
        return sinusoidal_positions(end, d_model, device=device).to(dtype)


class InputEmbedding(nn.Module):
    """Adds positions to the token embeddings times √D: sections 3.4 and 3.5.

    Hook points: ``tokens`` (scaled), ``positions`` and ``output``, their sum before dropout, each
    (B, S, D).
    """

    def __init__(self, table: nn.Embedding, config: TransformerConfig) -> None:
        super().__init__()
        self.table = table
        self.scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        self.max_length = config.max_length
        self.tokens = HookPoint()
        self.positions = HookPoint()
        self.output = HookPoint()
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, *, start: int = 0) -> Tensor:
        """Embed ids (B, S), perhaps padded, whose first position is ``start`` → (B, S, D)."""
        if ids.dim() != 2:
            raise ValueError(f"ids: expected shape (batch, length), got {tuple(ids.shape)}")
        length = start + ids.shape[1]
        if length > self.max_length:
            raise ValueError(
                f"expected at most {self.max_length} tokens, got {length}; shorten the text"
            )
        ids = embeddable(ids)
        lowest, highest = map(int, ids.aminmax()) if ids.numel() else (0, 0)
        if lowest < 0 or highest >= self.table.num_embeddings:
            raise ValueError(
                f"expected ids from 0 to {self.table.num_embeddings - 1}, got {lowest} to "
                f"{highest}; is this the tokenizer of the model?"
            )
        tokens = self.tokens(self.table(ids) * self.scale)  # (B, S, D)
        end = 1 << (length - 1).bit_length()  # a power of two, so that few tables are kept
        table = _positions_below(end, tokens.shape[-1], tokens.dtype, ids.device)
        positions = table[start:length]  # (S, D)
        if self.positions.in_use:  # a copy, or an edit in place would change the table
            positions = self.positions(positions.expand_as(tokens).clone())
        return self.dropout(self.output(tokens + positions))


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂: equation 2. Hook points: ``hidden`` (B, S, d_ff), ``output``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.expand = nn.Linear(config.d_model, config.d_ff)
        self.contract = nn.Linear(config.d_ff, config.d_model)
        self.hidden = HookPoint()
        self.output = HookPoint()
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        hidden = self.hidden(self.expand(x).relu())  # (B, S, d_ff)
        if self.training:
            hidden = self.dropout(hidden)
        return self.output(self.contract(hidden))


class Norm(nn.Module):
    """A layer norm with the stream ``before`` and ``after`` it as hook points, each (B, S, D)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.before = HookPoint()
        self.norm = nn.LayerNorm(d_model)
        self.after = HookPoint()

    def forward(self, stream: Tensor) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        return self.after(self.norm(self.before(stream)))


class PostNorm(nn.Module):
    """LayerNorm(x + Sublayer(x)): post-norm, the paper's residual connection, section 3.1."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = Norm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, stream: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        change = sublayer(stream)
        return self.norm(stream + (self.dropout(change) if self.training else change))


class PreNorm(nn.Module):
    """x + Sublayer(LayerNorm(x)): pre-norm, not the paper's; it needs no long warm-up."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = Norm(config.d_model)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, stream: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        change = sublayer(self.norm(stream))
        return stream + (self.dropout(change) if self.training else change)


def residual(config: TransformerConfig) -> PreNorm | PostNorm:
    """Make the residual connection that the configuration asks for."""
    return PreNorm(config) if config.norm == "pre" else PostNorm(config)


def transpose_in_memory(module: nn.Module) -> None:
    """Store matrices transposed in memory, by which a CPU multiplies few rows twice as fast."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.weight.data = part.weight.data.t().contiguous().t()
