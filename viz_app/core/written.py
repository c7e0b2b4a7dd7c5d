"""What a head writes: a dictionary of target tokens for the tokens that it reads.

Where a head of cross-attention looks at a source token, it adds α v W_O to the decoder's stream.
With the norms on the way to the output held, logits are linear in that: v W_O, taken through the
output matrix, says which target tokens the head raises most for this source token, and which it
lowers. Divisors of norms and α scale all logits of a token alike, so logits are in standard
deviations over the vocabulary. The value v has in it what the encoder made of the token in its
sentence. (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", the output-value
circuit; Dar et al. 2023, "Analyzing Transformers in Embedding Space".) This is the direct effect,
without what later layers make of it. The decoder's self-attention reads earlier target tokens.

``L`` layers, ``H`` heads, ``n`` tokens, ``k`` named tokens, ``M`` keys, ``K`` = d_k, ``V`` target
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import (
    Description,
    Head,
    Kind,
    Seq2SeqModel,
    Tokenizers,
    Vocabulary,
    attention_path,
    head_name,
)
from headwise.model.placement import in_float32
from headwise.model.readings import Sublayer, logits_of_part, sublayers
from headwise.model.stream import HeldNorm
from headwise.model.training.data import Pair
from headwise.viz_app.analysis.labels import vocabulary_labels
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, batches_by_length, captured
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.core.record import Record
from headwise.viz_app.records.trace import Floats, Trace

Numbers = NDArray[np.int64]
Names = NDArray[np.str_]


@dataclass(frozen=True)
class TokenValues(Record):
    """The values that the heads of a kind of attention make of tokens."""

    kind: Kind
    ids: Annotated[Numbers, "n"]  # of the source for cross-attention, else of the target
    counts: Annotated[Numbers, "n"]  # over how many places each value is the mean
    values: Annotated[Floats, "L H n K"]  # with the biases of values, before W_O

    def of(self, ids: Sequence[int]) -> TokenValues:
        """Return those of some tokens that have values, the first of each, in this order."""
        places = [int(np.flatnonzero(self.ids == id)[0]) for id in ids]
        return TokenValues(
            self.kind, self.ids[places], self.counts[places], self.values[:, :, places]
        )


@dataclass(frozen=True)
class HeadDictionary(Record):
    """The target tokens that a head raises, and lowers, most for tokens, by standardised logits."""

    rows = "n"

    ids: Numbers  # ids of the tokens that are read, (n,); files have names alone
    raised: Numbers  # ids of target tokens, most raised first, (n, k)
    lowered: Numbers  # most lowered first, (n, k)
    token: Annotated[Names, "n"]  # names of ``ids``
    places: Annotated[Numbers, "n"]  # over how many places the value of each is the mean
    raises: Annotated[Names, "n k"]  # names of ``raised``
    raised_by: Annotated[Floats, "n k"]  # their logits
    lowers: Annotated[Names, "n k"]  # names of ``lowered``
    lowered_by: Annotated[Floats, "n k"]

    @property
    def said(self) -> str:
        """Of how many tokens it is, in words."""
        return f"{len(self.ids):,} tokens"


@torch.inference_mode()
def values_in(model: Seq2SeqModel, pairs: Sequence[EncodedPair], kind: Kind) -> TokenValues:
    """Return the values of a kind of attention at every place of some pairs, targets forced."""
    points = [
        f"{attention_path(kind, layer)}.value" for layer in range(model.description.layers(kind))
    ]
    ids: list[Tensor] = []
    values: list[Tensor] = []
    for batch in batches_by_length(pairs):
        padded = PaddedIds.of_pairs(batch, model)
        seen = captured(model, padded, points)
        keys = padded.keys(kind)
        is_token = padded.is_predicted if kind == "decoder_self" else padded.is_source
        of_layers = torch.stack([in_float32(seen[point][0]) for point in points])  # (L, B, H, M, K)
        ids.append(keys[is_token])
        values.append(of_layers.permute(1, 3, 0, 2, 4)[is_token])  # (n, L, H, K)
    found = torch.cat(ids).cpu().numpy()
    array = torch.cat(values).permute(1, 2, 0, 3).cpu().numpy()
    return TokenValues(kind, found, np.ones_like(found), array)


@of_trace("values of a sentence")
def values_here(model: Seq2SeqModel, trace: Trace, kind: Kind) -> TokenValues:
    """Return the values of a kind of attention at every place of a traced sentence."""
    pair = EncodedPair(0, Pair("", ""), list(trace.source.ids), list(trace.target_ids))
    return values_in(model, [pair], kind)


@torch.inference_mode()
def written_logits(model: Seq2SeqModel, head: Head, values: Tensor) -> Tensor:
    """Return what a head of the decoder adds to the logits for values (n, K): (n, V), float64, in
    standard deviations over the vocabulary from its mean; NaN at tokens that are never written.
    """
    kind, layer, number = head
    path = attention_path(kind, layer)
    projection = model.linear(f"{path}.output_projection").weight
    rows = projection.unflatten(0, (model.description.heads(kind), -1))[number]  # (K, D)
    written = in_float32(values.to(rows.device)) @ in_float32(rows)
    for norm in _norms_after(model, Sublayer("decoder", layer, kind)):
        written = norm.direction(written)
    logits = logits_of_part(model, written).double()
    special = model.special_ids
    never = list(special.never_generated)
    if special.padding not in (None, special.end, special.unknown):
        never.append(special.padding)
    logits[:, never] = torch.nan
    known = logits[:, logits.isfinite().all(dim=0)]
    deviation = known.std(dim=-1, correction=0, keepdim=True)
    return (logits - known.mean(dim=-1, keepdim=True)) / deviation.clamp(min=1e-30)


def written_bytes(model: Description, tokens: int) -> int:
    """Estimate ``written_logits`` and what is made of them, for n tokens, in bytes."""
    return 4 * 8 * tokens * model.target_vocab_size


def _norms_after(model: Seq2SeqModel, sublayer: Sublayer) -> list[HeldNorm]:
    """Return the norms that what a sublayer of the decoder writes goes through, divisors left out.

    What the encoder writes reaches no logit but through heads of the decoder.
    """
    norms = [model.final_norm("target")]
    if model.description.norm == "post":
        later = sublayers(model, "decoder")
        norms = [*(model.norm(sub.path) for sub in later[later.index(sublayer) :]), *norms]
    norms = [model.output_norm(sublayer.path), *norms]
    centres = model.description.norm_kind != "rms"
    return [
        HeldNorm(in_float32(norm.gain), torch.ones(1, device=norm.gain.device), centres)
        for norm in norms
        if norm is not None
    ]


def no_dictionary(model: Description, head: Head) -> str:
    """Say why what a head writes cannot be read as words; "" where it can."""
    if head.kind == "encoder_self":
        return (
            "A head of the encoder writes no target tokens: what it adds to the stream is read by "
            "other heads. Choose one of cross-attention or of the decoder."
        )
    if model.output_transform:
        return (
            "What a head of this model writes has no words of its own: a layer with an activation "
            "function comes before the unembedding, and what it makes of a part of the stream "
            "depends on the rest. Why has the part of each head in a given word."
        )
    return ""


def head_dictionary(
    model: Seq2SeqModel, tokenizers: Tokenizers, head: Head, found: TokenValues, *, named: int = 5
) -> HeadDictionary:
    """Return at most ``named`` target tokens that a head raises, and lowers, most, for each token.

    ValueError without such a head, or words of what it writes, or any to be named.
    """
    model.description.require_heads([head])
    if head.kind == "encoder_self":
        raise ValueError(f"expected a head of the decoder, got {head_name(head)}")
    if why := no_dictionary(model.description, head):
        raise ValueError(why)
    if named < 1:
        raise ValueError(f"named: expected 1 token or more, got {named}")
    logits = written_logits(model, head, torch.tensor(found.values[head.layer, head.head]))
    most = min(named, int(logits.isfinite().all(dim=0).sum()))
    raised = logits.nan_to_num(-torch.inf).topk(most)
    lowered = logits.nan_to_num(torch.inf).topk(most, largest=False)
    ids = [each.indices.cpu().numpy() for each in (raised, lowered)]
    read = tokenizers.source if found.kind == "cross" else tokenizers.target
    return HeadDictionary(
        ids=found.ids,
        raised=ids[0],
        lowered=ids[1],
        token=_names(read, found.ids),
        places=found.counts,
        raises=_names(tokenizers.target, ids[0]),
        raised_by=raised.values.float().cpu().numpy(),
        lowers=_names(tokenizers.target, ids[1]),
        lowered_by=lowered.values.float().cpu().numpy(),
    )


def _names(vocabulary: Vocabulary, ids: Numbers) -> Names:
    """Name tokens as a vocabulary is listed, in the shape of their ids."""
    tokens = vocabulary.tokens(ids.ravel().tolist())
    labels = vocabulary_labels(tokens, spaced=vocabulary.kind == "bpe")
    return np.array(labels, np.str_).reshape(ids.shape)
