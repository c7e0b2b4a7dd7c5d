"""Attention alone, of one pass: what a film of many checkpoints needs, without the rest of a trace.

The border from torch to NumPy. ``L`` layers, ``H`` heads, ``Q`` and ``M`` the query and key lengths
of a map, ``T`` target steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.ablation import ATTENTIONS
from model.hooks import capture
from model.transformer import Transformer
from viz_app.records import KINDS, Floats, Kind
from viz_app.trace import to_numpy


@dataclass(frozen=True)
class AttentionTrace:
    """Maps of one teacher-forced pass, and how likely its target was; read-only."""

    attention: Mapping[Kind, Floats]
    """(L, H, Q, M), as in a ``Trace``."""
    log_probability: Floats
    """Of each piece after ``<s>``, natural, (T,)."""


@torch.inference_mode()
def run_attention(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> AttentionTrace:
    """Run source and target through a model in evaluation mode once, and keep the weights only.

    Args:
        model: in evaluation mode.
        source: ids.
        target: ids from ``<s>`` on.

    Raises:
        ValueError: on an empty source or target, or one longer than the model allows.
    """
    layers = range(model.config.n_layers)
    names = {kind: [f"{ATTENTIONS[kind].format(i)}.weights" for i in layers] for kind in KINDS}
    with capture(model, [name for kind in KINDS for name in names[kind]]) as seen:
        log_probability = _log_probability(model, source, target)
    attention = {kind: torch.cat([seen[name][0] for name in names[kind]]) for kind in KINDS}
    return AttentionTrace(
        {kind: to_numpy(weights) for kind, weights in attention.items()}, to_numpy(log_probability)
    )


@torch.inference_mode()
def target_log_probability(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> Floats:
    """Of each piece of a target after ``<s>``, natural: (T,).

    Raises:
        ValueError: as ``run_attention``.
    """
    return to_numpy(_log_probability(model, source, target))


def _log_probability(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Tensor:
    if len(target) < 2:
        raise ValueError(f"target: expected <s> and at least one piece, got {len(target)} ids")
    source_ids, target_ids = (
        torch.tensor([list(ids)], dtype=torch.long, device=model.device) for ids in (source, target)
    )
    logits = model(source_ids, target_ids[:, :-1])[0]  # (T, V)
    return logits.log_softmax(dim=-1).gather(-1, target_ids[0, 1:, None])[:, 0]
