"""Interventions: what a head does is changed in a pass, and what that changes is measured.

``model/turning.py`` turns heads and pins rows; here is what single heads, and other parts, cost,
and how much work a pass is, counted in multiply-adds before it is run.
Ablation sets the output of a head to zero before W_O; the bias of W_O, if there is one, stays,
since it belongs to all heads. (Michel et al. 2019 mask heads at the same place.) Importance, by
gradients, is to first order what ablation would cost (section 4.1 there).
Mean ablation puts the head's mean output over a corpus in place of its output (Wang et al. 2022,
section 2.1): what is lost then is what the head says of *this* sentence, where zero also takes away
what it says of every sentence, and so may push the stream to where the model has never been.

Models are in evaluation mode; a sequence that is empty or too long for one is a ValueError. Sources
are ids (B, S) with ``</s>``, consumed targets ids (B, T) from ``<s>`` on, both padded on the right.

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``D`` = d_model, ``K`` = d_k, ``S`` source
length, ``T`` steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from headwise.model.forced import forced_stream, log_probabilities, target_log_probabilities
from headwise.model.hooks import Edit, edit
from headwise.model.interface import (
    KINDS,
    Description,
    Head,
    Ids,
    Kind,
    Seq2SeqModel,
    attention_path,
)
from headwise.model.masks import PADDING
from headwise.model.readings import Sublayer

AT_A_TIME = 40_000_000_000
"""Multiply-adds of the copies that are run together where somebody may want to end it: about a
second of one processor."""
A_SECOND = 30_000_000_000
"""Multiply-adds in a second of one processor, a cautious guess."""


def encoding_work(model: Description, source: int) -> int:
    """Count the multiply-adds of the encoder on S tokens."""
    model, width = model.of("encoder"), model.n_encoder_heads * model.encoder_d_k
    a_token = 4 * model.d_model * width + _feed_forward(model, model.encoder_d_ff)
    return model.n_encoder_layers * source * (a_token + 2 * source * width)


def decoding_work(model: Description, source: int, target: int) -> int:
    """Count the multiply-adds of the decoder on T tokens together, after S, without the logits."""
    width = model.n_decoder_heads * model.decoder_d_k
    a_token = 6 * model.d_model * width + _feed_forward(model, model.decoder_d_ff)
    of_source = 2 * model.of("encoder").d_model * width  # keys and values of cross-attention
    attended = 2 * (source + target) * width
    return model.n_decoder_layers * (target * (a_token + attended) + source * of_source)


def _feed_forward(model: Description, width: int) -> int:
    return (3 if model.gated else 2) * model.d_model * width


POSITIONS_AT_A_TIME = 2048
"""Number of source and target positions that are run together under interventions."""


def passes_at_a_time(model: Description, source: int, target: int, *, encoding: bool = True) -> int:
    """Return how many passes of S and T tokens are run together, with or without encoder."""
    work = decoding_work(model, source, target) + encoding * encoding_work(model, source)
    return max(1, min(POSITIONS_AT_A_TIME // (source + target), AT_A_TIME // work))


def _replace(rows: list[int], heads: list[int] | None, means: Tensor | None) -> Edit:
    """Make an edit that puts zero, or the heads' means, (H, K), in place of parts of a batch.

    The parts are outputs of heads, (B, H, Q, K), one row of the batch for each of ``heads``; or,
    without ``heads``, all neurons of the rows, (B, T, d_ff).
    """

    def replace(x: Tensor) -> Tensor:
        x = x.clone()
        if heads is None:
            x[rows] = 0
        else:
            x[rows, heads] = 0 if means is None else means[heads][:, None].to(x)
        return x

    return replace


def head_costs(
    model: Seq2SeqModel, source: Ids, target: Ids, *, means: Mapping[Kind, Tensor] | None = None
) -> dict[Kind, Tensor]:
    """Compute the cost of ablating each head by itself: (L, H) for each kind, in nats.

    The cost is log P(target | source) of the model minus that of the ablated model; it is negative
    if the target becomes more likely. With ``means``, the mean output (L, H, K) of each head over a
    corpus, it is that of mean ablation; without them, of zero ablation. Means of another shape are
    a ValueError.
    """
    sources, targets = (torch.tensor([list(ids)], device=model.device) for ids in (source, target))
    costs = batch_head_costs(model, sources, targets, means=means)
    return {kind: of_batch[0] for kind, of_batch in costs.items()}


@torch.inference_mode()
def batch_head_costs(
    model: Seq2SeqModel,
    sources: Tensor,
    targets: Tensor,
    *,
    means: Mapping[Kind, Tensor] | None = None,
) -> dict[Kind, Tensor]:
    """Compute ``head_costs`` for a batch of ids, targets (B, T + 1): (B, L, H) for each kind."""
    heads = model.description.all_heads()
    streams = streams_without(model, sources, targets[:, :-1], heads, means=means)
    totals = target_log_probabilities(model, streams, targets)  # (heads + 1, B)
    costs = (totals[-1] - totals[:-1]).T  # (B, heads)
    shapes = model.description.shapes
    by_kind = costs.split([layers * heads for layers, heads in shapes.values()], dim=1)
    return {
        kind: cost.unflatten(1, shape)
        for (kind, shape), cost in zip(shapes.items(), by_kind, strict=True)
    }


@torch.inference_mode()
def streams_without(
    model: Seq2SeqModel,
    sources: Tensor,
    consumed: Tensor,
    parts: Sequence[Head | Sublayer],
    *,
    means: Mapping[Kind, Tensor] | None = None,
) -> Tensor:
    """Run a batch without each of some parts of the model, and once as it is.

    A part is a head, or a feed-forward, whose neurons are set to zero (its bias stays); those of
    the encoder come first. The decoder runs once on B (parts + 1) rows; parts of the decoder share
    one encoding. In place of heads' outputs stand ``means``, (L, H, K) of each kind, or zero.

    Return the decoder's outputs, (parts + 1, B, T, D); the last ones are without ablation.
    """
    if means is not None:
        expected = mean_shapes(model.description)
        found = {kind: tuple(means[kind].shape) for kind in KINDS if kind in means}
        if found != expected:
            raise ValueError(f"means of heads: expected shapes {expected}, got {found}")
    size = len(sources)
    rows: dict[str, list[int]] = defaultdict(list)
    heads: dict[str, list[int]] = defaultdict(list)
    instead: dict[str, Tensor | None] = {}
    for place, part in enumerate(parts):
        copies = range(place * size, (place + 1) * size)
        if isinstance(part, Head):
            point = f"{attention_path(part.kind, part.layer)}.heads"
            heads[point] += [part.head] * size
            instead[point] = None if means is None else means[part.kind][part.layer]
        else:
            point = f"{part.path}.hidden"
        rows[point] += copies
    edits = {
        point: _replace(off, heads.get(point), instead.get(point)) for point, off in rows.items()
    }
    of_encoder = sum(
        part.kind == "encoder_self" if isinstance(part, Head) else part.stack == "encoder"
        for part in parts
    )
    with edit(model, edits):
        return run_copies(model, sources, consumed, len(parts) + 1, of_encoder=of_encoder)


def run_copies(
    model: Seq2SeqModel, sources: Tensor, consumed: Tensor, number: int, *, of_encoder: int
) -> Tensor:
    """Run a batch some times over, under edits that change each copy otherwise.

    The first ``of_encoder`` copies have an encoding each; all others share one, of a row that no
    edit of the encoder may name. Return the decoder's outputs, (number, B, T, D).
    """
    size = len(sources)
    memory, mask = model.encode(sources.repeat(of_encoder + 1, 1))
    memory = torch.cat([memory[:-size], memory[-size:].repeat(number - of_encoder, 1, 1)])
    if mask is not None:
        mask = mask[:size].repeat(number, 1, 1, 1)
    stream = model.decode(consumed.repeat(number, 1), memory, mask)
    return stream.unflatten(0, (number, size))


def mean_shapes(model: Description) -> dict[Kind, tuple[int, int, int]]:
    """Return the shape (L, H, K) of the mean outputs of a model's heads, for each kind."""
    widths = {"encoder_self": model.encoder_d_k}
    return {
        kind: (*shape, widths.get(kind, model.decoder_d_k)) for kind, shape in model.shapes.items()
    }


def batch_head_importance(
    model: Seq2SeqModel, sources: Tensor, targets: Tensor
) -> dict[Kind, Tensor]:
    """Compute |Aᵀ ∂L/∂A| of each head for each sentence: (B, L, H) for each kind, in nats.

    Sources and targets are those of ``batch_head_costs``. A is the output of the head, as one
    vector, and L the loss −log P(target | source). Aᵀ ∂L/∂A is the derivative of L by a factor of
    A, at 1: to first order, what the loss falls by when the head is ablated. One backward pass
    gives it for all heads.
    """
    with torch.inference_mode(False), torch.enable_grad():
        factors: dict[str, Tensor] = {}  # (B, H) each, of outputs of heads, (B, H, Q, K)
        for kind in KINDS:
            for layer in range(model.description.layers(kind)):
                ones = torch.ones(len(sources), model.description.heads(kind), device=model.device)
                factors[f"{attention_path(kind, layer)}.heads"] = ones.requires_grad_()
        with edit(model, {"*.heads": lambda x, at: x * factors[at][..., None, None].to(x.dtype)}):
            stream = forced_stream(model, sources, targets[:, :-1])  # (B, T, D)
        keep = targets[:, 1:] != PADDING
        total = log_probabilities(model, stream[keep], targets[:, 1:][keep]).sum()
        derivatives = iter(torch.autograd.grad(total, list(factors.values())))
    return {
        kind: torch.stack([next(derivatives) for _ in range(layers)], dim=1).abs()
        for kind, (layers, _) in model.description.shapes.items()
    }
