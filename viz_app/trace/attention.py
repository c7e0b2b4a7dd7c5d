"""Attention of a forced pass: its maps alone, and how long the vectors are that it adds.

The border from torch to NumPy. ``B`` batch, ``S`` source length, ``T`` target steps, ``L`` layers,
``H`` heads, ``Q`` and ``M`` the query and key lengths of a map, ``K`` = d_k, ``D`` = d_model, ``V``
vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Kind, Seq2SeqModel, attention_path
from headwise.model.placement import in_float32
from headwise.viz_app.records.trace import Doubles, Floats


@dataclass(frozen=True)
class AttentionTrace:
    """The maps of one teacher-forced pass are held with its target's log-probability, read-only."""

    attention: Mapping[Kind, Floats]  # (L, H, Q, M), as in a ``Trace``
    log_probability: Floats  # log-probability of each target token after ``<s>``, in nats, (T,)


@torch.inference_mode()
def run_maps(
    model: Seq2SeqModel, source: Tensor, consumed: Tensor
) -> tuple[dict[Kind, Tensor], Tensor]:
    """Run a model once, teacher-forced, on ids (B, S) and (B, T); return attention weights of each
    kind, (B, L, H, Q, M), and the decoder's output, (B, T, D).
    """
    layers = model.description.layers
    points = {
        kind: [f"{attention_path(kind, layer)}.weights" for layer in range(layers(kind))]
        for kind in KINDS
    }
    with capture(model, chain(*points.values())) as seen:
        stream = forced_stream(model, source, consumed)
    maps = {
        kind: torch.stack([seen[point][0] for point in of_kind], dim=1)
        for kind, of_kind in points.items()
    }
    return maps, stream


@torch.inference_mode()
def run_attention(
    model: Seq2SeqModel, source: Sequence[int], target: Sequence[int]
) -> AttentionTrace:
    """Run a model once, teacher-forced, on a source with ``</s>`` and a target from ``<s>`` on;
    record its attention weights only. ValueError if one is empty or too long for the model.
    """
    source_ids, target_ids = ids_tensor(model, source), _target_ids(model, target)
    maps, stream = run_maps(model, source_ids, target_ids[:, :-1])
    attention = {kind: to_numpy(weights[0]) for kind, weights in maps.items()}
    log_probability = log_probabilities(model, stream[0], target_ids[0, 1:])
    return AttentionTrace(attention, to_numpy(log_probability))


@torch.inference_mode()
def target_log_probability(
    model: Seq2SeqModel, source: Sequence[int], target: Sequence[int]
) -> Floats:
    """Compute log P of each token of a target after ``<s>``, in nats: (T,). ValueError as above."""
    target_ids = _target_ids(model, target)
    stream = forced_stream(model, ids_tensor(model, source), target_ids[:, :-1])[0]  # (T, D)
    return to_numpy(log_probabilities(model, stream, target_ids[0, 1:]))


@torch.inference_mode()
def next_log_probability(
    model: Seq2SeqModel, source: Sequence[int], prefix: Sequence[int]
) -> Floats:
    """Compute the log-probability of every token after the first ids of a target, in nats: (V,).

    ValueError if source or prefix are empty or too long.
    """
    stream = forced_stream(model, ids_tensor(model, source), ids_tensor(model, prefix))
    return to_numpy(model.unembed(stream[0, -1]).float().log_softmax(dim=-1))


def ids_tensor(model: Seq2SeqModel, ids: Sequence[int]) -> Tensor:
    """Return ids as a batch of one sequence on the model's device: (1, ·)."""
    return torch.tensor([list(ids)], dtype=torch.long, device=model.device)


def _target_ids(model: Seq2SeqModel, target: Sequence[int]) -> Tensor:
    if len(target) < 2:
        raise ValueError(f"target: expected <s> and at least one token, got {len(target)} ids")
    return ids_tensor(model, target)


def to_numpy(tensor: Tensor) -> Floats:
    """Return a tensor as a read-only float32 array, which may share its memory."""
    return read_only(tensor.detach().to("cpu", torch.float32))


def doubles(tensor: Tensor) -> Doubles:
    """Return a tensor as a read-only array in float64."""
    return read_only(tensor.detach().to("cpu", torch.float64))


def read_only(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor as a read-only array of its type."""
    array: NDArray[Any] = tensor.cpu().contiguous().numpy()
    array.flags.writeable = False
    return array


def to_tensor(array: Floats) -> Tensor:
    """Return a copy of an array as a tensor."""
    return torch.tensor(array)


def transform_values(values: Tensor, projection: Tensor) -> Tensor:
    """Compute v W_O of each head and key: (H, M, K), (H K, D) → (H, M, D). For a key a head adds α
    v W_O to a query's output, with its own rows of W_O (Kobayashi et al. 2020).
    """
    per_head = in_float32(projection).unflatten(0, (len(values), -1))  # (H, K, D)
    return in_float32(values) @ per_head


def head_sum_norms(weights: Tensor, transformed: Tensor) -> Tensor:
    """Compute ‖Σ_h α_h v_h W_O‖, summed over the heads: (H, Q, M), (H, M, D) → (Q, M). Its square
    is Σ_h Σ_g α_h α_g ⟨v_h W_O, v_g W_O⟩, which needs no vector for each query and key.
    """
    of_key = transformed.transpose(0, 1)  # (M, H, D)
    products = of_key @ of_key.mT  # (M, H, H)
    alphas = in_float32(weights).permute(2, 1, 0)  # (M, Q, H)
    squares = (alphas @ products * alphas).sum(dim=-1).T  # (Q, M)
    return squares.clamp(min=0).sqrt()  # rounding makes some squares near 0 negative
