"""Heads switched off: what a head adds to the stream is set to zero, the rest stays as it is.

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` = d_k, ``T`` steps, ``V`` vocabulary.

A head that is off hands zeros to W_O; the bias of W_O, where there is one, belongs to all heads and
stays. (Michel et al. 2019 mask heads at the same place.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from model.config import PAD
from model.hooks import Edit, edit
from model.scoring import log_probabilities
from model.transformer import Transformer

Kind = Literal["encoder_self", "decoder_self", "cross"]

ATTENTIONS: Mapping[Kind, str] = MappingProxyType(
    {
        "encoder_self": "encoder.layers.{}.self_attention",
        "decoder_self": "decoder.layers.{}.self_attention",
        "cross": "decoder.layers.{}.cross_attention",
    }
)
"""Module paths of the three kinds of attention, by layer."""


class Head(NamedTuple):
    """A head of the model; layer and head count from 0."""

    kind: Kind
    layer: int
    head: int


def all_heads(model: Transformer) -> list[Head]:
    """Every head, kind by kind, layer by layer."""
    layers, heads = range(model.config.n_layers), range(model.config.n_heads)
    return [Head(kind, layer, head) for kind in ATTENTIONS for layer in layers for head in heads]


def _zero(rows: Sequence[int] | None, heads: Sequence[int]) -> Edit:
    """Set the output of heads to zero, (B, H, Q, K): in all rows, or the first head in the first
    of ``rows`` and so on."""

    def function(x: Tensor) -> Tensor:
        x = x.clone()
        if rows is None:
            x[:, list(heads)] = 0
        else:
            x[list(rows), list(heads)] = 0
        return x

    return function


@contextmanager
def switch_off(model: Transformer, heads: Collection[Head]) -> Iterator[None]:
    """Let the calling thread run the model without some heads, decoding included.

    Raises:
        ValueError: on a head that the model does not have.
    """
    known = set(all_heads(model))
    by_module: dict[str, list[int]] = defaultdict(list)
    for head in heads:
        if head not in known:
            config = model.config
            raise ValueError(
                f"no head {tuple(head)}: expected one of {', '.join(ATTENTIONS)}, a layer below "
                f"{config.n_layers} and a head below {config.n_heads}"
            )
        by_module[ATTENTIONS[head.kind].format(head.layer)].append(head.head)
    edits = {f"{name}.heads": _zero(None, off) for name, off in by_module.items()}
    with edit(model, edits):
        yield


def head_costs(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> dict[Kind, Tensor]:
    """What switching off each head, alone, costs a target: kind → (L, H) in nats.

    The cost is log P(target | source) of the whole model minus that without the head; below zero
    where the target becomes likelier.

    Args:
        model: in evaluation mode.
        source: ids, ``</s>`` included.
        target: ids from ``<s>`` on.

    Raises:
        ValueError: on sequences that are empty or too long for the model.
    """
    sources, targets = (torch.tensor([list(ids)], device=model.device) for ids in (source, target))
    return {kind: costs[0] for kind, costs in batch_head_costs(model, sources, targets).items()}


@torch.inference_mode()
def batch_head_costs(model: Transformer, sources: Tensor, targets: Tensor) -> dict[Kind, Tensor]:
    """The costs of ``head_costs`` for each sentence of a batch: kind → (B, L, H) in nats.

    All heads go through the decoder in one batch of B (heads + 1) rows; each is off in B of them.
    The encoder's output is the same for all heads but its own, and is computed once for these.

    Args:
        model: in evaluation mode.
        sources: ids (B, S), ``</s>`` included, padded on the right.
        targets: ids (B, T + 1) from ``<s>`` on, padded on the right.

    Raises:
        ValueError: as ``head_costs`` does.
    """
    heads, size = all_heads(model), len(sources)
    by_module: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for place, head in enumerate(heads):
        by_module[ATTENTIONS[head.kind].format(head.layer)] += [
            (place * size + sentence, head.head) for sentence in range(size)
        ]
    edits = {
        f"{name}.heads": _zero([row for row, _ in off], [head for _, head in off])
        for name, off in by_module.items()
    }
    copies = len(heads) + 1  # in the last nothing is off
    of_encoder = sum(head.kind == "encoder_self" for head in heads)  # they come first
    consumed, predicted = targets[:, :-1], targets[:, 1:].repeat(copies, 1)
    with edit(model, edits):
        memory, mask = model.encode(sources.repeat(of_encoder + 1, 1))
        rest = copies - of_encoder
        memory = torch.cat([memory[:-size], memory[-size:].repeat(rest, 1, 1)])
        if mask is not None:
            mask = mask[:size].repeat(copies, 1, 1, 1)
        stream = model.decode(consumed.repeat(copies, 1), memory, mask)  # (B copies, T, D)
    keep = predicted != PAD
    found = stream.new_zeros(predicted.shape)
    found[keep] = log_probabilities(model, stream[keep], predicted[keep])
    totals = found.sum(dim=-1).view(copies, size)
    costs = (totals[-1] - totals[:-1]).T  # (B, heads)
    costs = costs.reshape(size, len(ATTENTIONS), model.config.n_layers, -1)
    return dict(zip(ATTENTIONS, costs.unbind(dim=1), strict=True))
