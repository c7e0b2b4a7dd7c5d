"""The example sentences under a checkpoint: where heads are strongest, and its translations.

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``T`` target steps, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from headwise.model.decoding.greedy import greedy
from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.interface import KINDS, Head, Seq2SeqModel, SpecialIds, Tokenizers
from headwise.model.masks import embeddable
from headwise.model.ties import first_largest_of
from headwise.viz_app.core.batches import (
    EncodedPair,
    PaddedIds,
    attention_maps,
    require_memory_of_maps,
)
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.measuring.heads import rows_with_several_keys
from headwise.viz_app.records.measures import Example, TranslatedSentence

EXAMPLES_PER_HEAD = 8  # most examples of a head


def largest_weights(
    weights: Tensor, allowed: Tensor, keys: Tensor, special: SpecialIds
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the largest weight of each map on a key that is neither ``<s>`` nor ``</s>``.

    Maps are (B, H, Q, M), what is allowed (B, Q, M), the ids at the columns ``keys`` (B, M). Rows
    with one allowed key are ignored. Returns weight, −1 without such a key, query and key: (B, H).
    """
    counts = allowed & rows_with_several_keys(allowed)[..., None]
    counts = counts & ((keys != special.start) & (keys != special.end))[:, None]
    cells = weights.masked_fill(~counts[:, None], -1.0).flatten(-2)  # (B, H, Q · M)
    at = first_largest_of(cells)
    best = cells.gather(-1, at[..., None])[..., 0]
    n_keys = weights.shape[-1]
    return best, at.div(n_keys, rounding_mode="floor"), at % n_keys


def examples_in_batch(
    model: Seq2SeqModel, sentences: Sequence[EncodedPair]
) -> dict[int, list[Example]]:
    """Find the largest weight of each head on each sentence of a batch, with the reference forced.

    By sentence number, an example of each head in the order of ``all_heads``, of weight −1 if there
    is none.
    """
    ids = PaddedIds.of_pairs(sentences, model)
    maps, _ = attention_maps(model, ids)
    found = [
        largest_weights(maps[kind], ids.allowed(kind), ids.keys(kind), ids.special)
        for kind in KINDS
    ]
    # All kinds side by side, their heads layer by layer: (B, heads).
    weights, queries, keys = (torch.cat(side, dim=1).tolist() for side in zip(*found, strict=True))
    return {
        sentence.number: [
            Example(sentence.number, *place)
            for place in zip(queries[row], keys[row], weights[row], strict=True)
        ]
        for row, sentence in enumerate(sentences)
    }


def strongest_examples(
    model: Seq2SeqModel, found: Iterable[Sequence[Example]]
) -> dict[Head, tuple[Example, ...]]:
    """Choose the ``EXAMPLES_PER_HEAD`` strongest examples of each head, largest weight first.

    For each sentence one example of each head was found, in the order of ``all_heads``.
    """
    rows, best = list(found), {}
    for place, head in enumerate(model.description.all_heads()):
        there = (row[place] for row in rows if row[place].weight >= 0)
        order = sorted(there, key=lambda e: (-round(e.weight, 5), e.sentence))
        best[head] = tuple(order[:EXAMPLES_PER_HEAD])
    return best


@torch.inference_mode()
def translate_batch(
    model: Seq2SeqModel, tokenizers: Tokenizers, sentences: Sequence[EncodedPair]
) -> dict[int, TranslatedSentence]:
    """Translate a batch greedily, and compute by what each translation, by number, may have failed.

    ``log_probability`` is the mean over its tokens in nats, ``</s>`` included, and
    ``source_contribution`` the mean over them of the source's share by ALTI+.
    """
    from sacrebleu import CHRF  # imported late: a page that looks for a word needs none of it

    targets = greedy(model, [sentence.source for sentence in sentences], tokenizers.prefix)
    forced = [replace(s, target=target) for s, target in zip(sentences, targets, strict=True)]
    ids = PaddedIds.of_pairs(forced, model)
    require_memory_of_maps(model, ids)  # which the contributions have, too
    stream = forced_stream(model, ids.source, ids.target[:, :-1])
    predicted = embeddable(ids.predicted)  # (B, T); what is found at padding means nothing
    scores = log_probabilities(model, stream.flatten(0, 1), predicted.flatten()).view_as(predicted)
    shares = contributions(model, ids).source_contribution.sum(dim=-1)  # 0 at padding
    found = {}
    for row, sentence in enumerate(forced):
        n = len(sentence.target) - 1
        text = tokenizers.target.decode(sentence.target)
        found[sentence.number] = TranslatedSentence(
            text,
            {
                "log_probability": float(scores[row, :n].sum()) / n,
                "source_contribution": float(shares[row]) / n,
            },
            chrf=CHRF().sentence_score(text, [sentence.pair.target]).score,
        )
    return found
