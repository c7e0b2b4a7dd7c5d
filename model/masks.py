"""Padding, and boolean attention masks, True = may attend.

``B`` batch, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

PADDING = -1
"""Fills up the shorter rows of a batch. No token has this id: where a vocabulary gives padding and
the end one id, as many do, a token is not taken for padding."""


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Stack sequences of ids into a tensor (B, longest), padded on the right with ``PADDING``."""
    return pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PADDING
    )


def embeddable(ids: Tensor) -> Tensor:
    """Return ids with that of some token in place of padding, of which nothing is then read."""
    return ids.masked_fill(ids == PADDING, 0)


def padding_mask(ids: Tensor) -> Tensor:
    """Return which keys are tokens: ids (B, M) → bool (B, 1, 1, M).

    A row of padding only is a ValueError: attention to no key is undefined.
    """
    if ids.dim() != 2:
        raise ValueError(f"ids: expected shape (batch, length), got {tuple(ids.shape)}")
    allowed = ids != PADDING
    if not bool(allowed.any(dim=-1).all()):
        rows = (~allowed.any(dim=-1)).nonzero().flatten().tolist()
        raise ValueError(
            f"row {rows[0]} of the batch allows no key: expected at least one token in each row, "
            "got padding only; drop empty sentences or end each with </s>"
        )
    return allowed[:, None, None, :]


def padding_mask_if_padded(ids: Tensor) -> Tensor | None:
    """Return the padding mask, or None if nothing is padded: attention is faster without one."""
    if ids.numel() and bool((ids != PADDING).all()):
        return None
    return padding_mask(ids)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """Return the mask that hides keys after the query: bool (1, 1, Q, M).

    The queries are the last Q of the M positions; more than M would have no key.
    """
    if n_queries > n_keys:
        raise ValueError(
            f"causal mask: expected at most as many queries as keys, got {n_queries} queries and "
            f"{n_keys} keys"
        )
    allowed = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return allowed.tril(n_keys - n_queries)[None, None]
