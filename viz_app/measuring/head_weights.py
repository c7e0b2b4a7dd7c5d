"""Measures of heads that need their weights only, no forward pass.

``L`` layers, ``H`` heads, ``D`` = d_model, ``K`` = d_k.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.model.interface import KINDS, Kind, Seq2SeqModel, attention_path


def singular_values(left: Tensor, right: Tensor) -> Tensor:
    """Return the singular values of the products left rightᵀ: (…, D, K), (…, D, K) → (…, K).

    They are those of R_l R_rᵀ, with the triangular factors of the two sides, since orthonormal
    columns do not change them: no D × D matrix is made.
    """
    triangles = (torch.linalg.qr(side.double(), mode="r").R for side in (left, right))
    first, second = triangles
    return torch.linalg.svdvals(first @ second.mT)


def effective_rank(values: Tensor) -> Tensor:
    """Return the exponential of the entropy of singular values taken as shares: (…, K) → (…).

    It is from 1, if one value alone is above 0, to K, if all are equal; NaN if all are 0. (Roy and
    Vetterli 2007.)
    """
    shares = values / values.sum(dim=-1, keepdim=True)
    return (-torch.xlogy(shares, shares).sum(dim=-1)).exp()


@torch.no_grad()
def weight_measures(model: Seq2SeqModel) -> dict[str, dict[Kind, Tensor]]:
    """Measure the heads of a model by their weights: name → kind → (L, H).

    ``qk_norm`` is the spectral norm of W_Q W_Kᵀ, divided by √K where the model scales its scores:
    the largest singular value of the matrix between two vectors whose product is a score, which
    bounds how sharp a head can be (Zhai et al. 2023). ``qk_rank`` is the effective rank of that
    matrix, ``ov_rank`` that of W_V W_O. Biases and the gains of norms are left out.
    """
    found: dict[str, dict[Kind, Tensor]] = {"qk_norm": {}, "qk_rank": {}, "ov_rank": {}}
    for kind in KINDS:
        layers, heads = model.description.shapes[kind]
        of_layers = [_singular_values(model, kind, layer, heads) for layer in range(layers)]
        qk, ov = (torch.stack(side) for side in zip(*of_layers, strict=True))  # (L, H, K)
        found["qk_norm"][kind] = qk[..., 0]
        found["qk_rank"][kind] = effective_rank(qk)
        found["ov_rank"][kind] = effective_rank(ov)
    return found


def _singular_values(
    model: Seq2SeqModel, kind: Kind, layer: int, heads: int
) -> tuple[Tensor, Tensor]:
    """Return the singular values of W_Q W_Kᵀ, scaled, and of W_V W_O of a layer: each (H, K)."""
    path = attention_path(kind, layer)
    query, key, value = (
        model.linear(f"{path}.{name}_projection").weight.unflatten(-1, (heads, -1)).transpose(0, 1)
        for name in ("query", "key", "value")
    )  # (H, D, K)
    output = model.linear(f"{path}.output_projection").weight.unflatten(0, (heads, -1))  # (H, K, D)
    scale = query.shape[-1] ** -0.5 if model.description.scale_scores else 1.0
    return singular_values(query, key) * scale, singular_values(value, output.mT)
