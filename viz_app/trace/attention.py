"""Attention maps alone, without the rest of a trace, for pages that show many checkpoints.

The border from torch to NumPy. ``L`` layers, ``H`` heads, ``Q`` and ``M`` the query and key lengths
of a map, ``T`` target steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Kind, Seq2SeqModel, attention_path
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.sentence import to_numpy


@dataclass(frozen=True)
class AttentionTrace:
    """The maps of one teacher-forced pass are held with its target's log-probability, read-only."""

    attention: Mapping[Kind, Floats]
    """(L, H, Q, M), as in a ``Trace``."""
    log_probability: Floats
    """Log-probability of each target token after ``<s>``, in nats, (T,)."""


def weight_points(model: Seq2SeqModel) -> dict[Kind, list[str]]:
    """Return the hook points of a model's attention weights for each kind, layer by layer."""
    return {
        kind: [
            f"{attention_path(kind, layer)}.weights"
            for layer in range(model.description.layers(kind))
        ]
        for kind in KINDS
    }


@torch.inference_mode()
def run_attention(
    model: Seq2SeqModel, source: Sequence[int], target: Sequence[int]
) -> AttentionTrace:
    """Run a model once, teacher-forced, and record its attention weights only.

    Args:
        model: the model, in evaluation mode.
        source: ids of the source, ``</s>`` included.
        target: ids of the target, from ``<s>`` on.

    Raises:
        ValueError: if the source or the target is empty or too long for the model.
    """
    points = weight_points(model)
    with capture(model, chain(*points.values())) as seen:
        log_probability = _log_probability(model, source, target)
    attention = {
        kind: to_numpy(torch.cat([seen[point][0] for point in of_kind]))
        for kind, of_kind in points.items()
    }
    return AttentionTrace(attention, to_numpy(log_probability))


@torch.inference_mode()
def target_log_probability(
    model: Seq2SeqModel, source: Sequence[int], target: Sequence[int]
) -> Floats:
    """Compute the log-probability of each token of a target after ``<s>``, in nats: (T,).

    Raises:
        ValueError: as ``run_attention``.
    """
    return to_numpy(_log_probability(model, source, target))


@torch.inference_mode()
def next_log_probability(
    model: Seq2SeqModel, source: Sequence[int], prefix: Sequence[int]
) -> Floats:
    """Compute the log-probability of every token after the first ids of a target, in nats: (V,).

    Raises:
        ValueError: if source or prefix are empty or too long.
    """
    source_ids, prefix_ids = (
        torch.tensor([list(ids)], dtype=torch.long, device=model.device) for ids in (source, prefix)
    )
    stream = forced_stream(model, source_ids, prefix_ids)[0, -1]  # (D,)
    return to_numpy(model.unembed(stream).float().log_softmax(dim=-1))


def _log_probability(model: Seq2SeqModel, source: Sequence[int], target: Sequence[int]) -> Tensor:
    if len(target) < 2:
        raise ValueError(f"target: expected <s> and at least one token, got {len(target)} ids")
    source_ids, target_ids = (
        torch.tensor([list(ids)], dtype=torch.long, device=model.device) for ids in (source, target)
    )
    stream = forced_stream(model, source_ids, target_ids[:, :-1])[0]  # (T, D)
    return log_probabilities(model, stream, target_ids[0, 1:])
