"""Importance of heads by gradients (Michel et al. 2019, section 4.1).

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` = d_k, ``T`` steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from model.decoding.scoring import log_probabilities
from model.hooks import Edit, edit
from model.interface import KINDS, Kind, Seq2SeqModel, attention_path


def batch_head_importance(
    model: Seq2SeqModel, sources: Tensor, targets: Tensor
) -> dict[Kind, Tensor]:
    """Compute |Aᵀ ∂L/∂A| of each head for each sentence: (B, L, H) for each kind, in nats.

    A is the output of the head, all its rows and columns as one vector, and L the loss
    −log P(target | source). Aᵀ ∂L/∂A is the derivative of L by a factor of A, at 1: to first order,
    what the loss falls by when the head is ablated. One backward pass gives it for all heads.

    Args:
        model: the model, in evaluation mode.
        sources: ids (B, S), ``</s>`` included, padded on the right.
        targets: ids (B, T + 1) from ``<s>`` on, padded on the right.

    Raises:
        ValueError: if a sequence is empty or too long for the model.
    """
    with torch.inference_mode(False), torch.enable_grad():
        factors: dict[str, Tensor] = {}
        for kind in KINDS:
            for layer in range(model.description.layers(kind)):
                ones = torch.ones(len(sources), model.description.heads(kind), device=model.device)
                factors[f"{attention_path(kind, layer)}.heads"] = ones.requires_grad_()
        with edit(model, {point: _multiply(factor) for point, factor in factors.items()}):
            memory, mask = model.encode(sources)
            stream = model.decode(targets[:, :-1], memory, mask)  # (B, T, D)
        keep = targets[:, 1:] != model.special_ids.padding
        total = log_probabilities(model, stream[keep], targets[:, 1:][keep]).sum()
        derivatives = iter(torch.autograd.grad(total, list(factors.values())))
    return {
        kind: torch.stack([next(derivatives) for _ in range(layers)], dim=1).abs()
        for kind, (layers, _) in model.description.shapes.items()
    }


def _multiply(factor: Tensor) -> Edit:
    """Make an edit that multiplies outputs of heads, (B, H, Q, K), by a factor for each, (B, H)."""
    return lambda heads: heads * factor[:, :, None, None].to(heads.dtype)
