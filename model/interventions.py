"""Interventions: what a head does is changed in a pass, and what that changes is measured.

Ablation sets the output of a head to zero before W_O; the bias of W_O, if there is one, stays,
since it belongs to all heads. (Michel et al. 2019 mask heads at the same place.) Importance, by
gradients, is to first order what ablation would cost (section 4.1 there).

Models are in evaluation mode; a sequence that is empty or too long for one is a ValueError.

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` = d_k, ``T`` steps, ``V`` vocabulary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import Edit, edit
from headwise.model.interface import KINDS, Head, Kind, Seq2SeqModel, attention_path


def _set_to_zero(rows: slice | list[int], heads: list[int]) -> Edit:
    """Make an edit that sets outputs of heads, (B, H, Q, K), to zero.

    ``rows`` has one row of the batch for each of ``heads``, or is a slice of rows for all of them.
    """

    def set_to_zero(x: Tensor) -> Tensor:
        x = x.clone()
        x[rows, heads] = 0
        return x

    return set_to_zero


def _multiply(factor: Tensor) -> Edit:
    """Make an edit that multiplies outputs of heads, (B, H, Q, K), by a factor for each, (B, H)."""
    return lambda heads: heads * factor[:, :, None, None].to(heads.dtype)


@contextmanager
def ablate(model: Seq2SeqModel, heads: Collection[Head]) -> Iterator[None]:
    """Ablate heads while the calling thread runs the model, also in cached decoding.

    A head that the model does not have is a ValueError.
    """
    known = set(model.description.all_heads())
    by_module: dict[str, list[int]] = defaultdict(list)
    for head in heads:
        if head not in known:
            shapes = model.description.shapes.items()
            sizes = ", ".join(f"{layers} and {heads} ({kind})" for kind, (layers, heads) in shapes)
            raise ValueError(
                f"no head {tuple(head)}: expected one of {', '.join(KINDS)}, with a layer and a "
                f"head below {sizes}"
            )
        by_module[attention_path(head.kind, head.layer)].append(head.head)
    edits = {f"{name}.heads": _set_to_zero(slice(None), off) for name, off in by_module.items()}
    with edit(model, edits):
        yield


def head_costs(
    model: Seq2SeqModel, source: Sequence[int], target: Sequence[int]
) -> dict[Kind, Tensor]:
    """Compute the cost of ablating each head by itself: (L, H) for each kind, in nats.

    The cost is log P(target | source) of the model minus that of the ablated model; it is negative
    if the target becomes more likely. The ids of the source include ``</s>``, those of the target
    begin with ``<s>``.
    """
    sources, targets = (torch.tensor([list(ids)], device=model.device) for ids in (source, target))
    return {kind: costs[0] for kind, costs in batch_head_costs(model, sources, targets).items()}


@torch.inference_mode()
def batch_head_costs(model: Seq2SeqModel, sources: Tensor, targets: Tensor) -> dict[Kind, Tensor]:
    """Compute ``head_costs`` for each sentence of a batch: (B, L, H) for each kind, in nats.

    Sources are ids (B, S), targets ids (B, T + 1), both padded on the right. The decoder runs once
    on B (heads + 1) rows: a copy of the batch for each head, ablated there, and one without
    ablation. Heads of the decoder share one encoding.
    """
    heads, size = model.description.all_heads(), len(sources)
    by_module: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, head in enumerate(heads):
        by_module[attention_path(head.kind, head.layer)] += [
            (place * size + sentence, head.head) for sentence in range(size)
        ]
    edits = {
        f"{name}.heads": _set_to_zero([row for row, _ in off], [head for _, head in off])
        for name, off in by_module.items()
    }
    copies = len(heads) + 1  # the last one is not ablated
    of_encoder = sum(head.kind == "encoder_self" for head in heads)  # they come first
    consumed, predicted = targets[:, :-1], targets[:, 1:].repeat(copies, 1)
    with edit(model, edits):
        memory, mask = model.encode(sources.repeat(of_encoder + 1, 1))
        rest = copies - of_encoder
        memory = torch.cat([memory[:-size], memory[-size:].repeat(rest, 1, 1)])
        if mask is not None:
            mask = mask[:size].repeat(copies, 1, 1, 1)
        stream = model.decode(consumed.repeat(copies, 1), memory, mask)  # (B copies, T, D)
    keep = predicted != model.special_ids.padding
    scores = log_probabilities(model, stream[keep], predicted[keep])
    found = scores.new_zeros(predicted.shape)
    found[keep] = scores
    totals = found.sum(dim=-1).view(copies, size)
    costs = (totals[-1] - totals[:-1]).T  # (B, heads)
    shapes = model.description.shapes
    by_kind = costs.split([layers * heads for layers, heads in shapes.values()], dim=1)
    return {
        kind: cost.unflatten(1, shape)
        for (kind, shape), cost in zip(shapes.items(), by_kind, strict=True)
    }


def batch_head_importance(
    model: Seq2SeqModel, sources: Tensor, targets: Tensor
) -> dict[Kind, Tensor]:
    """Compute |Aᵀ ∂L/∂A| of each head for each sentence: (B, L, H) for each kind, in nats.

    Sources and targets are those of ``batch_head_costs``.

    A is the output of the head, all its rows and columns as one vector, and L the loss
    −log P(target | source). Aᵀ ∂L/∂A is the derivative of L by a factor of A, at 1: to first order,
    what the loss falls by when the head is ablated. One backward pass gives it for all heads.
    """
    with torch.inference_mode(False), torch.enable_grad():
        factors: dict[str, Tensor] = {}
        for kind in KINDS:
            for layer in range(model.description.layers(kind)):
                ones = torch.ones(len(sources), model.description.heads(kind), device=model.device)
                factors[f"{attention_path(kind, layer)}.heads"] = ones.requires_grad_()
        with edit(model, {point: _multiply(factor) for point, factor in factors.items()}):
            stream = forced_stream(model, sources, targets[:, :-1])  # (B, T, D)
        keep = targets[:, 1:] != model.special_ids.padding
        total = log_probabilities(model, stream[keep], targets[:, 1:][keep]).sum()
        derivatives = iter(torch.autograd.grad(total, list(factors.values())))
    return {
        kind: torch.stack([next(derivatives) for _ in range(layers)], dim=1).abs()
        for kind, (layers, _) in model.description.shapes.items()
    }
