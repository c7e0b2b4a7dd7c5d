"""Measures of heads as pure functions of attention maps.

``B`` batch, ``H`` heads (of one layer or of all), ``Q`` queries, ``M`` keys. Maps are weights
(B, H, Q, M) with ``allowed``, bool (B, Q, M): which keys each query may attend to, none at padding.
A row with one allowed key says nothing of a head, since its weight is 1 whatever the head does; no
measure counts such rows. (In decoder self-attention it is the first.)

Sums and counts come back, in float64, so that a corpus of any size can be added up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sum:
    """Values of all rows that count, added up by head (H,), and the number of rows."""

    total: Tensor
    count: Tensor


def telling_rows(allowed: Tensor) -> Tensor:
    """Rows with more than one allowed key: bool (B, Q)."""
    return allowed.sum(dim=-1) > 1


def _sum(values: Tensor, rows: Tensor) -> Sum:
    """Add up values (B, H, Q) of some rows (B, Q)."""
    total = values.double().masked_fill(~rows[:, None], 0.0).sum(dim=(0, 2))
    return Sum(total, rows.sum().double())


def entropy(weights: Tensor, allowed: Tensor) -> Sum:
    """−Σ w ln w of a row, divided by the logarithm of its number of allowed keys.

    0: all weight on one key; 1: the same weight on each. (Clark et al. 2019, section 3.3, without
    the division, which makes sentences of different lengths comparable.)
    """
    weights = weights.double()
    most = allowed.sum(dim=-1).clamp(min=2).double().log()  # (B, Q)
    return _sum(-torch.xlogy(weights, weights).sum(dim=-1) / most[:, None], telling_rows(allowed))


def confidence(weights: Tensor, allowed: Tensor) -> Sum:
    """The largest weight of a row.

    (Voita et al. 2019, section 4, leave out the weight on ``</s>``; here it counts like any, since
    ``end`` tells how much of it is there.)
    """
    return _sum(weights.amax(dim=-1), telling_rows(allowed))


def on_offset(weights: Tensor, allowed: Tensor, offset: int) -> Sum:
    """Weight of row q on key q + ``offset``; rows without such a key do not count.

    In self-attention −1 is the token before the consumed one and 0 this token itself. In
    cross-attention row t predicts target piece t, ``<s>`` not counted, and key t is source piece t.
    (Positional heads of Voita et al. 2019, section 5.1, Clark et al. 2019, section 3.1.)
    """
    n_queries, n_keys = weights.shape[-2:]
    keys = torch.arange(n_queries, device=weights.device) + offset
    inside = (keys >= 0) & (keys < n_keys)
    keys = keys.clamp(0, n_keys - 1)
    at = keys[None, :, None].expand(len(weights), -1, 1)  # (B, Q, 1)
    rows = telling_rows(allowed) & inside & allowed.gather(-1, at)[..., 0]
    values = weights.gather(-1, at[:, None].expand(-1, weights.shape[1], -1, -1))[..., 0]
    return _sum(values, rows)


def on_keys(weights: Tensor, allowed: Tensor, keys: Tensor) -> Sum:
    """Weight of a row on some keys, bool (B, M); rows that allow none of them do not count.

    (Clark et al. 2019, section 3.2, on special tokens and punctuation.)
    """
    here = allowed & keys[:, None]  # (B, Q, M)
    values = weights.masked_fill(~here[:, None], 0.0).sum(dim=-1)
    return _sum(values, telling_rows(allowed) & here.any(dim=-1))


def distance(weights: Tensor, others: Tensor, allowed: Tensor) -> Sum:
    """Jensen-Shannon distance between rows of two maps of the same input, from 0 to 1.

    The square root of the divergence with logarithms to base 2 (Endres and Schindelin 2003; Clark
    et al. 2019, section 6, use the divergence).
    """
    p, q = weights.double(), others.double()
    middle = (p + q) / 2
    # Where the middle is 0, both are, and add nothing.
    safe = middle.masked_fill(middle == 0, 1.0)
    divergence = (torch.xlogy(p, p / safe) + torch.xlogy(q, q / safe)).sum(dim=-1) / 2
    return _sum((divergence.clamp(min=0) / math.log(2)).sqrt(), telling_rows(allowed))
