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

from model.hooks import Edit, edit
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

_ROWS_AT_A_TIME = 8
"""Rows whose logits (T, V) are in memory together."""


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


@torch.inference_mode()
def head_costs(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> dict[Kind, Tensor]:
    """What switching off each head, alone, costs a target: kind → (L, H) in nats.

    The cost is log P(target | source) of the whole model minus that without the head; below zero
    where the target becomes likelier. All heads go through the model in one batch, each off in a
    row of its own.

    Args:
        model: in evaluation mode.
        source: ids, ``</s>`` included.
        target: ids from ``<s>`` on.

    Raises:
        ValueError: on sequences that are empty or too long for the model.
    """
    heads = all_heads(model)
    by_module: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, head in enumerate(heads):
        by_module[ATTENTIONS[head.kind].format(head.layer)].append((row, head.head))
    edits = {
        f"{name}.heads": _zero([row for row, _ in off], [head for _, head in off])
        for name, off in by_module.items()
    }
    size = len(heads) + 1  # in the last row nothing is off
    sources = torch.tensor([list(source)] * size, device=model.device)
    consumed = torch.tensor([list(target[:-1])] * size, device=model.device)
    predicted = torch.tensor(list(target[1:]), device=model.device)
    with edit(model, edits):
        memory, mask = model.encode(sources)
        stream = model.decode(consumed, memory, mask)  # (B, T, D)
    totals = []
    for rows in stream.split(_ROWS_AT_A_TIME):
        log_probability = model.unembed(rows).log_softmax(dim=-1)  # (rows, T, V)
        actual = log_probability.gather(-1, predicted.expand(len(rows), -1)[..., None])
        totals.append(actual.sum(dim=(1, 2)))
    total = torch.cat(totals)
    costs = (total[-1] - total[:-1]).view(len(ATTENTIONS), model.config.n_layers, -1)
    return dict(zip(ATTENTIONS, costs, strict=True))
