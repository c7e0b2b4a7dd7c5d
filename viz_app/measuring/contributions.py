"""How much each source token, and each token of the target so far, contributes to a prediction.

This is ALTI+ (Ferrando, Gállego, Alastruey, Escolano and Costa-jussà 2022, "Towards Opening the
Black Box of Neural Machine Translation", section 3), which needs one pass and no gradients. (Voita,
Sennrich and Titov 2021, "Analyzing the Source and Target Contributions to Predictions in Neural
Machine Translation", ask the same.)

1. An attention with its residual connection is a sum of one vector for each token that it reads,
   and of biases: y_i = Σ_j T_i(x_j) + biases. T_i(x_j) is what the heads bring from token j,
   Σ_h α_hij x_j W_V W_O; in self-attention T_i(x_i) has the residual x_i besides. In
   cross-attention the tokens are those of the encoder's output, and the residual, the stream of
   the target, is one more vector. A norm after the sum (post-norm) is linear once its divisor is
   held. A norm before the attention (pre-norm) belongs to x_j.
2. Token j contributes to y_i what it brings y_i nearer: c_ij = max(0, ‖y_i‖₁ − ‖y_i − T_i(x_j)‖₁),
   and rows are divided by their sum (Ferrando, Gállego and Costa-jussà 2022, "Measuring the Mixing
   of Contextual Information in the Transformer", section 3).
3. These maps are multiplied from layer to layer, through the encoder, and then through the decoder,
   whose cross-attention reads what the encoder mixed. All else acts on each token by itself.

Biases are nobody's share, also those of values (b_V, and with pre-norm the norm's bias times W_V),
which the authors' program counts to tokens: they reach y_i whatever the weights are. A row in which
every c_ij is 0, which the papers leave undefined, is given to its residual.

``B`` batch, ``S`` source length, ``T`` target steps, ``L`` layers, ``H`` heads, ``Q`` and ``M`` the
query and key lengths of a map, ``K`` = d_k, ``D`` = d_model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Kind, Seq2SeqModel
from headwise.model.stream import attention_as_sum, points_of_attention
from headwise.viz_app.core.batches import PaddedIds, captured
from headwise.viz_app.records.trace import Floats

_CELLS = 2**20
"""Most numbers, 4 MB, that one tensor of vectors holds, or all tensors that are captured of a pass.
A sentence or a key with more is alone."""


@dataclass(frozen=True)
class Contributions:
    """The shares of a batch's predictions, float32. Row t is of the token that step t predicts.

    The shares of source and prefix of a prediction sum to 1; they are 0 at padding.
    """

    source: Tensor  # share of each source token, (B, T, S)
    prefix: Tensor  # share of each consumed token, (B, T, T): those after step t have 0
    source_contribution: Tensor  # share of the whole source, (B, T); 0 at padding
    source_entropy: Tensor
    """How evenly the source's share is spread over its tokens, (B, T).

    It is −Σ p ln p, in which p are the shares divided by their sum, divided by the logarithm of the
    number of tokens: 0 if one has all, 1 if all have the same. NaN where there is one token only,
    where the share is 0, and at padding."""
    prefix_entropy: Tensor
    """The same of the tokens consumed so far, (B, T); NaN at the first step, too."""


@torch.inference_mode()
def contributions(model: Seq2SeqModel, ids: PaddedIds) -> Contributions:
    """Compute the contributions to all predictions of a batch, its targets forced."""
    size = _sentences_at_once(model, ids)
    parts = [
        _relevance(model, ids.source[start : start + size], ids.target[start : start + size, :-1])
        for start in range(0, len(ids.source), size)
    ]
    relevance = torch.cat(parts).masked_fill(~ids.is_predicted[..., None], 0.0)  # (B, T, S + T)
    n_sources = ids.source.shape[1]
    source, prefix = relevance[..., :n_sources], relevance[..., n_sources:]
    return Contributions(
        source=source,
        prefix=prefix,
        source_contribution=source.sum(dim=-1),
        source_entropy=_entropy(source, ids.allowed("cross")),
        prefix_entropy=_entropy(prefix, ids.allowed("decoder_self")),
    )


@dataclass(frozen=True)
class MixedTokens:
    """How the tokens of one sentence are mixed up to each layer, as rollout asks it, by ALTI+."""

    maps: Mapping[Kind, Floats]
    """What a position has of each input after each layer. In the encoder (L, S, S), rows sum to 1;
    after a layer of the decoder of the source, (L, T, S), under ``cross``, and of the tokens
    consumed so far, (L, T, T), under ``decoder_self``: together rows sum to 1."""
    kept: Mapping[Kind, Floats]
    """What a position keeps of itself in each layer's attention, the mean over positions, (L,).
    That of cross-attention is the part of its residual, those of self-attention have the
    position's own value besides."""


@torch.inference_mode()
def mixed_tokens(model: Seq2SeqModel, ids: PaddedIds) -> MixedTokens:
    """Compute how the tokens of a sentence, the only one of a batch, are mixed up to each layer."""
    passed: list[tuple[Kind, Tensor, Tensor]] = []
    _relevance(
        model, ids.source, ids.target[:, :-1], note=lambda *of_layer: passed.append(of_layer)
    )
    n_sources = ids.source.shape[1]
    layers = {kind: [each for each in passed if each[0] == kind] for kind in KINDS}
    own: dict[Kind, list[Tensor]] = {
        "encoder_self": [found[0] for *_, found in layers["encoder_self"]],
        "decoder_self": [found[0, :, n_sources:] for *_, found in layers["cross"]],
        "cross": [found[0, :, :n_sources] for *_, found in layers["cross"]],
    }
    kept: dict[Kind, list[Tensor]] = {
        kind: [
            (each[0, :, -1] if kind == "cross" else each[0].diagonal()).mean()
            for _, each, _ in of_kind
        ]
        for kind, of_kind in layers.items()
    }
    return MixedTokens(
        maps={kind: torch.stack(own[kind]).float().cpu().numpy() for kind in KINDS},
        kept={kind: torch.stack(kept[kind]).float().cpu().numpy() for kind in KINDS},
    )


@torch.inference_mode()
def residual_norm_maps(model: Seq2SeqModel, ids: PaddedIds) -> dict[Kind, Floats]:
    """Compute ‖T_i(x_j)‖₂ as shares of the row in each attention of one sentence: ATB-ResLN.

    These are the norms of Kobayashi, Kuribayashi, Yokoi and Inui (2021, "Incorporating Residual and
    Normalization Layers into Analysis of Masked Language Models", section 3): all heads are added,
    the residual belongs to the query's own token, and a norm after the sum (post-norm) is applied
    with the divisor that it had. Biases are nobody's, also those of values. Returns (L, Q, M) for
    each kind; of cross-attention (L, Q, M + 1), with the residual in the last column.
    """
    seen = captured(model, ids, points_of_attention(model))

    def norms(kind: Kind, layer: int) -> Tensor:
        is_half = model.description.merged_attention and kind != "encoder_self"
        of = "decoder_self" if is_half else kind
        found = _map(model, seen, of, layer, lambda vectors, _: vectors.norm(dim=-1))
        return _halves(found, found.shape[1])[kind == "cross"] if is_half else found

    return {
        kind: torch.cat([norms(kind, layer) for layer in range(model.description.layers(kind))])
        .float()
        .cpu()
        .numpy()
        for kind in KINDS
    }


def _sentences_at_once(model: Seq2SeqModel, ids: PaddedIds) -> int:
    """Return of how many sentences ``_CELLS`` can hold what is captured."""
    longest, width = max(ids.source.shape[1], ids.target.shape[1]), model.description.d_model
    cells = sum(
        layers * longest * (3 * width + heads * longest)
        for layers, heads in model.description.shapes.values()
    )
    return max(1, _CELLS // cells)


def _relevance(
    model: Seq2SeqModel,
    source: Tensor,
    consumed: Tensor,
    note: Callable[[Kind, Tensor, Tensor], object] = lambda kind, layer, so_far: None,
) -> Tensor:
    """Multiply the maps of all layers: ids (B, S), (B, T) → (B, T, S + T), rows sum to 1.

    A row of the result says what a decoder position has of each source and each consumed token.
    ``note`` is told the kind and the map of each attention, and the product up to it.
    """
    layers = model.description.layers
    with capture(model, points_of_attention(model)) as seen:
        forced_stream(model, source, consumed)
    n_sources, n_consumed = source.shape[1], consumed.shape[1]
    encoded = torch.eye(n_sources, device=source.device).expand(len(source), -1, -1)
    for layer in range(layers("encoder_self")):
        own = _map(model, seen, "encoder_self", layer)
        encoded = own @ encoded  # (B, S, S)
        note("encoder_self", own, encoded)
    start = torch.eye(n_sources + n_consumed, device=source.device)[n_sources:]
    relevance = start.expand(len(source), -1, -1)  # (B, T, S + T)
    for layer in range(layers("decoder_self")):
        own = _map(model, seen, "decoder_self", layer)
        if model.description.merged_attention:
            own, cross = _halves(own, n_consumed)
            relevance = own @ relevance
            note("decoder_self", own, relevance)
        else:
            relevance = own @ relevance
            note("decoder_self", own, relevance)
            cross = _map(model, seen, "cross", layer)  # (B, T, S + 1)
            relevance = relevance * cross[..., -1:]
        relevance[..., :n_sources] += cross[..., :-1] @ encoded
        note("cross", cross, relevance)
    return relevance


def _halves(whole: Tensor, n_consumed: int) -> tuple[Tensor, Tensor]:
    """Split the map of a merged attention, (B, T, T + S), whose rows sum to 1, into what is of the
    target, (B, T, T), and of the source, (B, T, S + 1), with the target's sum in the last
    column.
    """
    own, of_source = whole[..., :n_consumed], whole[..., n_consumed:]
    return own, torch.cat([of_source, own.sum(dim=-1, keepdim=True)], dim=-1)


def _map(
    model: Seq2SeqModel,
    seen: Mapping[str, list[Tensor]],
    kind: Kind,
    layer: int,
    size_of: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Compute the contributions in one attention, (B, Q, M), whose rows sum to 1.

    Cross-attention has the residual in a further column, (B, Q, M + 1). Of a merged attention, as
    ``decoder_self``, it is that of both halves, (B, T, T + S), the residual with the target's.
    ``size_of`` makes of T_i(x_j) and y_i, (…, D), how much a token contributes; by ALTI if None.
    """
    parts = attention_as_sum(model, seen, kind, layer)
    if model.description.merged_attention and kind == "decoder_self":
        of_source = attention_as_sum(model, seen, "cross", layer)
        weights = torch.cat([parts.weights, of_source.weights], dim=-1)
        value = torch.cat([parts.value, of_source.value], dim=-2)
        parts = replace(parts, weights=weights, value=value)
    (batch, heads, n_queries, n_keys), width = parts.weights.shape, parts.y.shape[-1]
    size = max(1, _CELLS // (batch * width * max(n_queries, heads)))
    columns, size_of = [], size_of or _contribution
    for start in range(0, n_keys, size):
        keys = slice(start, start + size)
        values = torch.einsum("bhmk,hkd->bmhd", parts.value[:, :, keys], parts.projection)
        vectors = torch.einsum("bhqm,bmhd->bmqd", parts.weights[..., keys], values)
        if kind != "cross":
            own = vectors.diagonal(start, dim1=1, dim2=2)  # (B, D, m), a view
            own += parts.residual[:, keys].transpose(1, 2)[..., : own.shape[-1]]
        columns.append(size_of(vectors, parts.y[:, None]))  # (B, m, Q)
    if kind == "cross":
        columns.append(size_of(parts.residual, parts.y)[:, None])
    found = torch.cat(columns, dim=1).transpose(1, 2)
    of_residual = found[..., -1] if kind == "cross" else found.diagonal(dim1=1, dim2=2)
    of_residual += found.sum(dim=-1) == 0
    return found / found.sum(dim=-1, keepdim=True)


def _contribution(vectors: Tensor, y: Tensor) -> Tensor:
    """Compute max(0, ‖y‖₁ − ‖y − T‖₁) over the last axis, exactly 0 for T = 0."""
    return (y.abs() - (y - vectors).abs()).sum(dim=-1).clamp(min=0)


def _entropy(shares: Tensor, allowed: Tensor) -> Tensor:
    """Compute the entropy of rows, from 0 to 1: (B, T, M), bool (B, T, M) → (B, T)."""
    n_keys = allowed.sum(dim=-1)
    shares = shares.double() / shares.double().sum(dim=-1, keepdim=True)
    entropy = -torch.xlogy(shares, shares).sum(dim=-1) / n_keys.clamp(min=2).double().log()
    return entropy.masked_fill(n_keys < 2, math.nan).float()
