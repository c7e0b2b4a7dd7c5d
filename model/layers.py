"""What surrounds attention: embeddings, positions, feed-forward, residual connections and norms.

Sections 3.1, 3.3, 3.4 and 3.5 of Vaswani et al. (2017). ``B`` batch, ``S`` length, ``D`` = d_model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import TransformerConfig
from model.hooks import HookPoint
from model.modules import LayerNorm, Linear, Module

Sublayer = Callable[[Tensor], Tensor]


def sinusoidal_positions(
    length: int, d_model: int, *, start: int = 0, device: torch.device | None = None
) -> Tensor:
    """Positional encodings (length, D) in float32 of positions start … start + length - 1.

    PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D)); section 3.5.
    """
    position = torch.arange(start, start + length, dtype=torch.float32, device=device)
    rate = torch.exp(
        torch.arange(0, d_model, 2, dtype=torch.float32, device=device)
        * (-math.log(10_000.0) / d_model)
    )
    angle = position[:, None] * rate  # (length, D / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)  # (length, D)


class Dropout(nn.Dropout):
    """In evaluation it is not there, and costs nothing."""

    def __call__(self, x: Tensor) -> Any:
        """x, in training with some of it zero."""
        return super().__call__(x) if self.training else x


@lru_cache(maxsize=16)
def _positions_below(end: int, d_model: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Those of positions 0 … end - 1; an ordinary tensor even where no gradients are wanted."""
    with torch.inference_mode(False):
        return sinusoidal_positions(end, d_model, device=device).to(dtype)


class InputEmbedding(Module):
    """Token embeddings times √D, plus positions: sections 3.4 and 3.5.

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
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, *, start: int = 0) -> Tensor:
        """Embed ids (B, S), the first of them at position ``start`` → (B, S, D).

        Raises:
            ValueError: on a wrong shape, too many pieces, or ids outside the vocabulary.
        """
        if ids.dim() != 2:
            raise ValueError(f"ids: expected shape (batch, length), got {tuple(ids.shape)}")
        length = start + ids.shape[1]
        if length > self.max_length:
            raise ValueError(
                f"expected at most {self.max_length} pieces, got {length}; shorten the text"
            )
        tokens = self._look_up(ids)
        enough = 1 << (length - 1).bit_length()  # few sizes to keep
        positions = _positions_below(enough, tokens.shape[-1], tokens.dtype, ids.device)
        positions = positions.narrow(0, start, ids.shape[1])
        if self.tokens.in_use or self.positions.in_use:
            # A copy, or an edit in place would change the table of positions.
            positions = self.positions(positions.expand_as(tokens).clone())
            x = self.tokens(tokens * self.scale) + positions
        else:
            x = torch.add(positions, tokens, alpha=self.scale)
        return self.dropout(self.output(x))

    def _look_up(self, ids: Tensor) -> Tensor:
        if not ids.is_cpu and ids.numel() and int(ids.max()) >= self.table.num_embeddings:
            raise self._out_of_range(ids)  # there the kernel would end the process
        try:
            return F.embedding(ids, self.table.weight)
        except IndexError as error:
            raise self._out_of_range(ids) from error

    def _out_of_range(self, ids: Tensor) -> ValueError:
        return ValueError(
            f"expected ids below {self.table.num_embeddings}, got {int(ids.max())}; "
            "is this the tokenizer of the model?"
        )


class FeedForward(Module):
    """max(0, xW₁ + b₁)W₂ + b₂: equation 2. Hook points: ``hidden`` (B, S, d_ff), ``output``."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.expand = Linear(config.d_model, config.d_ff)
        self.contract = Linear(config.d_ff, config.d_model)
        self.hidden = HookPoint()
        self.output = HookPoint()
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        return self.output(self.contract(self.dropout(self.hidden(self.expand(x).relu()))))


class Norm(Module):
    """A layer norm with the stream ``before`` and ``after`` it as hook points, each (B, S, D)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.before = HookPoint()
        self.norm = LayerNorm(d_model)
        self.after = HookPoint()

    def forward(self, stream: Tensor) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        return self.after(self.norm(self.before(stream)))


class PostNorm(Module):
    """LayerNorm(x + Sublayer(x)): the paper's residual connection, section 3.1."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = Norm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, stream: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        return self.norm(stream + self.dropout(sublayer(stream)))


class PreNorm(Module):
    """x + Sublayer(LayerNorm(x)): not the paper's order; trains without a long warm-up."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm = Norm(config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, stream: Tensor, sublayer: Sublayer) -> Tensor:
        """(B, S, D) → (B, S, D)."""
        return stream + self.dropout(sublayer(self.norm(stream)))


def residual(config: TransformerConfig) -> PreNorm | PostNorm:
    """The residual connection that the configuration asks for."""
    return PreNorm(config) if config.norm == "pre" else PostNorm(config)
