"""Boolean attention masks, True = may attend. ``B`` batch, ``Q`` queries, ``M`` keys."""

from __future__ import annotations

import torch
from torch import Tensor

from model.config import PAD


def padding_mask(ids: Tensor) -> Tensor:
    """Which keys are pieces and not padding: ids (B, M) → (B, 1, 1, M).

    Raises:
        ValueError: if a sentence has nothing but padding; attention to no key is undefined.
    """
    if ids.dim() != 2:
        raise ValueError(f"ids: expected shape (batch, length), got {tuple(ids.shape)}")
    allowed = ids != PAD
    if not bool(allowed.any(dim=-1).all()):
        rows = (~allowed.any(dim=-1)).nonzero().flatten().tolist()
        raise ValueError(
            f"row {rows[0]} of the batch allows no key: expected at least one piece in each row, "
            "got padding only; drop empty sentences or end each with </s>"
        )
    return allowed[:, None, None, :]


def padding_mask_if_padded(ids: Tensor) -> Tensor | None:
    """The same where something is padded, else None: to allow every key takes time for nothing."""
    if ids.numel() and bool((ids != PAD).all()):
        return None
    return padding_mask(ids)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """No key after its query: (1, 1, Q, M), the queries being the last Q of the M positions.

    Raises:
        ValueError: if there are more queries than keys; the first would have no key.
    """
    if n_queries > n_keys:
        raise ValueError(
            f"causal mask: expected at most as many queries as keys, got {n_queries} queries and "
            f"{n_keys} keys"
        )
    allowed = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return allowed.tril(n_keys - n_queries)[None, None]
