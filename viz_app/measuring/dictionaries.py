"""What heads write: a dictionary of target tokens for the tokens that a head reads.

Where a head of cross-attention looks at a source token, it adds α v W_O to the stream of the
decoder. With the norms on the way to the output held, the logits are linear in that, so that
v W_O, taken through the output matrix, says which target tokens the head raises most for this
source token, and which it lowers. A norm centres, multiplies by its gain and divides; divisors
only scale all logits of a token, and the weight α does too, so that the order of tokens depends on
neither, and logits are given in standard deviations over the vocabulary. The value v has in it what
the encoder made of the token in its sentence; where there is no sentence, it is the mean over all
places of the token in some sentences. (Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits", the output-value circuit; Dar et al. 2023, "Analyzing Transformers in
Embedding Space".) It is the direct effect: what later layers make of it is not in it.

For the decoder's self-attention the tokens that are read are earlier target tokens. A head *copies*
if it raises the very token that it reads, as do the name movers of Wang et al. 2022
("Interpretability in the Wild", section 3), and *suppresses* if it lowers it (McDougall et al.
2023, "Copy Suppression").

``L`` layers, ``H`` heads, ``n`` tokens, ``M`` keys, ``K`` = d_k, ``V`` target vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import (
    Description,
    Head,
    Kind,
    Seq2SeqModel,
    Tokenizers,
    attention_path,
    head_name,
)
from headwise.model.placement import in_float32
from headwise.model.readings import Sublayer, logits_of_part, sublayers
from headwise.model.run_info import Counts
from headwise.model.stream import HeldNorm
from headwise.viz_app.measuring.batches import (
    EncodedPair,
    LeftOutCounts,
    PaddedIds,
    batches_by_length,
)
from headwise.viz_app.measuring.head_alignments import align_pairs
from headwise.viz_app.measuring.words import source_word_numbers, word_numbers
from headwise.viz_app.records.dictionary import (
    HeadDictionary,
    Lexicon,
    TokenValues,
    WritingScores,
)
from headwise.viz_app.records.trace import Floats

MOST_FREQUENT = 200
"""Tokens of which heads are asked what they write."""
_LEAST_LINKS = 2
"""Links from which on a pair of tokens is in the lexicon."""


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
        with capture(model, points) as seen:
            forced_stream(model, padded.source, padded.target[:, :-1])
        keys = padded.keys(kind)
        is_token = padded.is_predicted if kind == "decoder_self" else padded.is_source
        of_layers = torch.stack([in_float32(seen[point][0]) for point in points])  # (L, B, H, M, K)
        ids.append(keys[is_token])
        values.append(of_layers.permute(1, 3, 0, 2, 4)[is_token])  # (n, L, H, K)
    found = torch.cat(ids).cpu().numpy()
    array = torch.cat(values).permute(1, 2, 0, 3).cpu().numpy()
    return TokenValues(found, np.ones_like(found), array)


def mean_values(found: TokenValues) -> TokenValues:
    """Return the mean value of each token over its places, ids rising."""
    ids, place, counts = np.unique(found.ids, return_inverse=True, return_counts=True)
    sums = np.zeros((len(ids), *np.moveaxis(found.values, 2, 0).shape[1:]))
    np.add.at(sums, place, np.moveaxis(found.values, 2, 0))
    means = np.moveaxis(sums / counts[:, None, None, None], 0, 2)
    return TokenValues(ids, counts, means.astype(found.values.dtype))


def chosen_values(found: TokenValues, ids: Sequence[int]) -> TokenValues:
    """Return the values of some tokens, each of which has one, in this order."""
    places = [int(np.flatnonzero(found.ids == id)[0]) for id in ids]
    return TokenValues(found.ids[places], found.counts[places], found.values[:, :, places])


def most_frequent(
    found: TokenValues, tokenizers: Tokenizers, counts: Counts | None, kind: Kind
) -> list[int]:
    """List the tokens that are most frequent in the training data, of those that have values.

    Without its counts they are those that are most frequent among the values. Tokens that stand for
    no text are left out.
    """
    is_target = kind == "decoder_self"
    control = (tokenizers.target if is_target else tokenizers.source).control_ids
    times = found.counts
    if counts is not None:
        times = np.array(counts.target if is_target else counts.source)[found.ids]
    order = np.lexsort([found.ids, -times])
    return [int(id) for id in found.ids[order] if id not in control][:MOST_FREQUENT]


@torch.inference_mode()
def written_logits(model: Seq2SeqModel, head: Head, values: Tensor) -> Tensor:
    """Return what a head of the decoder adds to the logits for values (n, K): (n, V), float64.

    They are in standard deviations over the vocabulary, from its mean; NaN
    stands at tokens that the model never writes.
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
    model: Seq2SeqModel, head: Head, found: TokenValues, *, named: int = 5
) -> HeadDictionary:
    """Return the target tokens that a head raises most, and lowers most, for each token.

    Raises:
        ValueError: if there is no such head, or it is one of the encoder.
    """
    model.description.require_heads([head])
    if head.kind == "encoder_self":
        raise ValueError(f"expected a head of the decoder, got {head_name(head)}")
    if why := no_dictionary(model.description, head):
        raise ValueError(why)
    values = torch.tensor(found.values[head.layer, head.head])
    logits = written_logits(model, head, values)
    raised = logits.nan_to_num(-torch.inf).topk(named)
    lowered = logits.nan_to_num(torch.inf).topk(named, largest=False)
    return HeadDictionary(
        found.ids,
        found.counts,
        raised.indices.cpu().numpy(),
        raised.values.float().cpu().numpy(),
        lowered.indices.cpu().numpy(),
        lowered.values.float().cpu().numpy(),
    )


def lexicon_of(
    model: Seq2SeqModel, tokenizers: Tokenizers, pairs: Sequence[EncodedPair], head: int
) -> Lexicon:
    """Make a lexicon of the links that a head of cross-attention makes between the words of pairs.

    A source word of one token goes with the first token of the target word to which most of its
    links lead, two at least; where two target tokens have as many, it is left out.

    Args:
        model: the checkpoint that aligns.
        tokenizers: those of the run.
        pairs: sentences, with translations that are forced.
        head: the place of the head among all of cross-attention.
    """
    counts: dict[int, Counter[int]] = {}
    references = ((each.pair, set[tuple[int, int]]()) for each in pairs)
    aligned = align_pairs(
        model, tokenizers, references, rows="predicted", left_out=LeftOutCounts(), weights_of=head
    )
    for sentence, found in zip(pairs, aligned, strict=True):
        if found is None:
            continue
        sources = source_word_numbers(tokenizers, sentence.source)
        targets = word_numbers(tokenizers.target, sentence.target)
        for word, of in enumerate(found.chosen[head].tolist()):
            if sources.count(of) == 1:
                link = counts.setdefault(sentence.source[sources.index(of)], Counter())
                link[sentence.target[targets.index(word)]] += 1
    entries = []
    for source, found_for in sorted(counts.items()):
        (target, links), *others = found_for.most_common(2)
        if links >= _LEAST_LINKS and (not others or others[0][1] < links):
            entries.append((source, target, links))
    return Lexicon(*np.array(entries, np.int64).reshape(-1, 3).T)


def lexicon_precision(
    model: Seq2SeqModel, found: TokenValues, lexicon: Lexicon, *, only: Head | None = None
) -> WritingScores:
    """Return in which share of a lexicon the token that a head raises most is the translation.

    Chance is the share with the translations of the other entries in place of one's own. With
    ``only`` one head is scored, and all others are NaN.
    """
    entries = dict(zip(lexicon.source.tolist(), lexicon.target.tolist(), strict=True))
    places = [place for place, id in enumerate(found.ids.tolist()) if id in entries]
    expected = np.array([entries[id] for id in found.ids[places].tolist()], np.int64)

    def score(logits: Tensor) -> NDArray[np.float64]:
        first = logits.nan_to_num(-torch.inf).argmax(dim=-1).cpu().numpy()
        return np.asarray(first[:, None] == expected, np.float64)  # (entries, translations)

    return _scores(model, "cross", found.values[:, :, places], score, only)


def copying(model: Seq2SeqModel, found: TokenValues, *, only: Head | None = None) -> WritingScores:
    """Return how far heads of the decoder's self-attention raise the very token that they read.

    It is the share of the vocabulary whose logits the head raises less than that of the token: 1 is
    a head that copies, 0 one that suppresses what was said. Chance is the same share for the token
    where the head reads another one of these, since a head may raise frequent tokens whatever it
    reads. ``only`` is as for ``lexicon_precision``.
    """
    ids = torch.tensor(found.ids)

    def score(logits: Tensor) -> NDArray[np.float64]:
        known = logits[:, logits.isfinite().all(dim=0)].cpu()
        of_tokens = logits.cpu()[:, ids].nan_to_num(-torch.inf).contiguous()
        below = torch.searchsorted(known.sort(dim=-1).values, of_tokens)
        return np.asarray(below / (known.shape[-1] - 1), np.float64).clip(max=1)  # (read, token)

    return _scores(model, "decoder_self", found.values, score, only)


def _scores(
    model: Seq2SeqModel,
    kind: Kind,
    values: Floats,
    score: Callable[[Tensor], NDArray[np.float64]],
    only: Head | None,
) -> WritingScores:
    """Score every head of a kind, or only one.

    ``score`` gives a table of tokens that are read by tokens that are asked for: its diagonal is
    the score, what is beside it chance.
    """
    layers, heads, tokens, _ = values.shape
    values_found, chance, errors = np.full((3, layers, heads), np.nan, np.float32)
    places = np.ndindex(layers, heads) if only is None else [only[1:]]
    for layer, number in places if tokens > 1 else ():
        logits = written_logits(
            model, Head(kind, layer, number), torch.tensor(values[layer, number])
        )
        table = score(logits)
        own = table.diagonal()
        others = (table.sum(axis=0) - own) / (tokens - 1)
        values_found[layer, number], chance[layer, number] = own.mean(), others.mean()
        errors[layer, number] = (own - others).std(ddof=1) / tokens**0.5
    return WritingScores(values_found, chance, errors, tokens)
