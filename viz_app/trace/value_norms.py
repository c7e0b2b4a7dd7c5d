"""Computes how long the vectors are that attention adds to a query's output for each key.

For a key a head adds α v W_O: its weight α, times the key's value v, times those rows W_O of the
output projection that belong to the head (Kobayashi et al. 2020).

``H`` heads of a layer, ``Q`` queries, ``M`` keys, ``K`` = d_k, ``D`` = d_model.
"""

from __future__ import annotations

from torch import Tensor

from headwise.model.placement import in_float32


def transform_values(values: Tensor, projection: Tensor) -> Tensor:
    """Compute v W_O of each head and key: (H, M, K), (H K, D) → (H, M, D)."""
    per_head = in_float32(projection).unflatten(0, (len(values), -1))  # (H, K, D)
    return in_float32(values) @ per_head


def head_sum_norms(weights: Tensor, transformed: Tensor) -> Tensor:
    """Compute ‖Σ_h α_h v_h W_O‖, summed over the heads: (H, Q, M), (H, M, D) → (Q, M).

    Its square is Σ_h Σ_g α_h α_g ⟨v_h W_O, v_g W_O⟩, which needs no vector for each query and key.
    """
    of_key = transformed.transpose(0, 1)  # (M, H, D)
    products = of_key @ of_key.mT  # (M, H, H)
    alphas = in_float32(weights).permute(2, 1, 0)  # (M, Q, H)
    squares = (alphas @ products * alphas).sum(dim=-1).T  # (Q, M)
    return squares.clamp(min=0).sqrt()  # rounding makes some squares near 0 negative
