"""Measures of heads: of attention maps, and of the heads' own weights without a forward pass.

A measure of maps takes ``weights`` (B, H, Q, M) and ``allowed``, bool (B, Q, M): which keys each
query may attend to, none at padding. Rows with one allowed key, whose weight is always 1, do not
count. It returns sums and counts of each sentence in float64, to be added up and resampled.

``B`` batch, ``L`` layers, ``H`` heads (of one layer or of all), ``Q`` queries, ``M`` keys, ``D`` =
d_model, ``K`` = d_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.model.interface import Kind, Seq2SeqModel, attention_path
from headwise.model.ties import rounding_of


@dataclass(frozen=True)
class HeadSum:
    """A measure summed over the rows of each sentence; a mean is all totals over all counts."""

    total: Tensor  # sum over rows for each sentence and head, (B, H)
    count: Tensor  # of rows of each sentence, (B,), or what stands for it, (B, H)


def rows_with_several_keys(allowed: Tensor) -> Tensor:
    """Return which rows have more than one allowed key: bool (B, Q)."""
    return allowed.sum(dim=-1) > 1


def sum_rows(values: Tensor, rows: Tensor) -> HeadSum:
    """Sum values (B, H, Q) over the rows that count, bool (B, Q)."""
    total = values.double().masked_fill(~rows[:, None], 0.0).sum(dim=-1)
    return HeadSum(total, rows.sum(dim=-1).double())


RowMeasure = Callable[[Tensor, Tensor], Tensor]
"""A measure of a person's own: from ``weights`` and ``allowed`` to a value of each row, (B, H, Q).
What it returns for a row with only one allowed key is not used. It gets and returns tensors of the
CPU, wherever the model computes, as ``torch.arange`` makes them."""


def measure_rows(name: str, measure: RowMeasure, weights: Tensor, allowed: Tensor) -> HeadSum:
    """Compute a measure of a person's own, and sum it over the rows that count.

    ValueError if it does not return a finite number for each row that counts.
    """
    given = weights.device
    weights, allowed = weights.cpu(), allowed.cpu()
    values = measure(weights, allowed)
    expected = tuple(weights.shape[:3])
    got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
    if got != expected:
        raise ValueError(
            f"measure {name!r}: expected a tensor with a value for each sentence, head and row, of "
            f"shape {expected}, got {got}"
        )
    rows = rows_with_several_keys(allowed)
    if not bool(values.detach()[rows[:, None].expand_as(values)].isfinite().all()):
        raise ValueError(f"measure {name!r}: expected finite values, got others")
    return sum_rows(values.to(given), rows.to(given))


def entropy(weights: Tensor, allowed: Tensor) -> HeadSum:
    """Sum over rows −Σ w ln w over the logarithm of the number of allowed keys: 0 on one key, 1 if
    even. (Clark et al. 2019, section 3.3, do not divide, so that lengths of sentences count.)
    """
    weights = weights.double()
    most = allowed.sum(dim=-1).clamp(min=2).double().log()  # (B, Q)
    values = -torch.xlogy(weights, weights).sum(dim=-1) / most[:, None]
    return sum_rows(values, rows_with_several_keys(allowed))


def confidence(weights: Tensor, allowed: Tensor) -> HeadSum:
    """Sum the largest weight of each row. (Voita et al. 2019, section 4, leave out the weight on
    ``</s>``, of which there is a measure here.)
    """
    return sum_rows(weights.amax(dim=-1), rows_with_several_keys(allowed))


def on_offset(weights: Tensor, allowed: Tensor, offset: int) -> HeadSum:
    """Sum the weight of each row q on key q + ``offset``, 0 in a row without such a key.

    In self-attention offset −1 is the token before the consumed one. In cross-attention row t
    predicts target token t, not counting ``<s>``, and key t is source token t. All rows count, so
    that shares of different offsets add up to at most 1. (Voita et al. 2019, section 5.1, Clark et
    al. 2019, section 3.1.)
    """
    n_queries, n_keys = weights.shape[-2:]
    keys = torch.arange(n_queries, device=weights.device) + offset
    inside = (keys >= 0) & (keys < n_keys)
    at = keys.clamp(0, n_keys - 1)[None, :, None].expand(len(weights), -1, 1)  # (B, Q, 1)
    there = inside & allowed.gather(-1, at)[..., 0]  # (B, Q)
    values = weights.gather(-1, at[:, None].expand(-1, weights.shape[1], -1, -1))[..., 0]
    return sum_rows(values.masked_fill(~there[:, None], 0.0), rows_with_several_keys(allowed))


def on_keys(weights: Tensor, allowed: Tensor, keys: Tensor) -> HeadSum:
    """Sum the weight of each row on ``keys``, bool (B, M), 0 where there are none. All rows count,
    so that shares add up to at most 1. (Clark et al. 2019, section 3.2.)
    """
    here = allowed & keys[:, None]  # (B, Q, M)
    values = weights.masked_fill(~here[:, None], 0.0).sum(dim=-1)
    return sum_rows(values, rows_with_several_keys(allowed))


def on_rarest(weights: Tensor, allowed: Tensor, occurrences: Tensor) -> HeadSum:
    """Count the rows whose largest weight is on the rarest token that they may attend to.

    ``occurrences`` in the training data are (B, M), −1 for special tokens, which never are. Of
    several largest weights the share there counts. (Voita et al. 2019, section 5.3.)
    """
    candidates = allowed & (occurrences >= 0)[:, None]  # (B, Q, M)
    most = torch.iinfo(occurrences.dtype).max
    counts = occurrences[:, None].expand_as(allowed).masked_fill(~candidates, most)
    rarest = candidates & (counts == counts.amin(dim=-1, keepdim=True))
    weights = weights.masked_fill(~allowed[:, None], -1.0)
    largest = weights >= weights.amax(dim=-1, keepdim=True) - rounding_of(weights)  # (B, H, Q, M)
    hits = (largest & rarest[:, None]).sum(dim=-1).double() / largest.sum(dim=-1)
    return sum_rows(hits, rows_with_several_keys(allowed) & (candidates.sum(dim=-1) > 1))


def distance(weights: Tensor, others: Tensor, allowed: Tensor) -> HeadSum:
    """Sum the Jensen-Shannon distances, from 0 to 1, between the rows of two maps of one input.

    (Endres and Schindelin 2003; Clark et al. 2019, section 6, use the divergence.)
    """
    p, q = weights.double(), others.double()
    middle = (p + q) / 2
    # Where the middle is 0, both are, and add nothing.
    safe = middle.masked_fill(middle == 0, 1.0)
    divergence = (torch.xlogy(p, p / safe) + torch.xlogy(q, q / safe)).sum(dim=-1) / 2
    return sum_rows((divergence.clamp(min=0) / math.log(2)).sqrt(), rows_with_several_keys(allowed))


# --- of the weights of a model --------------------------------------------------------------------

_PROJECTIONS = ("query", "key", "value", "output")


def singular_values(left: Tensor, right: Tensor) -> Tensor:
    """Return the singular values of the products left rightᵀ: (…, D, K), (…, D, K) → (…, K).

    Those of R_l R_rᵀ, their triangular factors, are the same: no D × D matrix is made.
    """
    triangles = (torch.linalg.qr(side.double(), mode="r").R for side in (left, right))
    first, second = triangles
    return torch.linalg.svdvals(first @ second.mT)


def effective_rank(values: Tensor) -> Tensor:
    """Return the exponential of the entropy of singular values as shares (Roy and Vetterli 2007):
    (…, K) → (…), from 1, if one alone is above 0, to K, if all are equal; NaN if all are 0.
    """
    shares = values / values.sum(dim=-1, keepdim=True)
    return (-torch.xlogy(shares, shares).sum(dim=-1)).exp()


def singular_values_of(model: Seq2SeqModel, kind: Kind) -> tuple[Tensor, Tensor]:
    """Return the singular values of W_Q W_Kᵀ, scaled as scores are, and of W_V W_O: (L, H, K)."""
    layers, heads = model.description.shapes[kind]
    scores, copies = [], []
    for path in (attention_path(kind, layer) for layer in range(layers)):
        weights = {n: model.linear(f"{path}.{n}_projection").weight for n in _PROJECTIONS}
        query, key, value = (
            weights[name].unflatten(-1, (heads, -1)).transpose(0, 1) for name in _PROJECTIONS[:3]
        )  # (H, D, K)
        output = weights["output"].unflatten(0, (heads, -1))  # (H, K, D)
        scale = model.description.of(kind).score_scale(query.shape[-1])
        scores.append(singular_values(query, key) * scale)
        copies.append(singular_values(value, output.mT))
    return torch.stack(scores), torch.stack(copies)
