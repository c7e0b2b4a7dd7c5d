"""Strongest examples of each head, and failures of a checkpoint's translations.

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``S`` source length, ``T`` target steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from model.decoding.greedy import greedy
from model.decoding.scoring import log_probabilities
from model.interface import KINDS, Head, Seq2SeqModel, SpecialIds, Tokenizers
from viz_app.measuring.batches import EncodedPair, PaddedIds, attention_maps
from viz_app.measuring.heads import rows_with_several_keys
from viz_app.measuring.words import word_numbers
from viz_app.records.measures import Example, TranslatedSentence

EXAMPLES_PER_HEAD = 8
"""Most examples of a head."""

# --- strongest -----------------------------------------------------------------------------------


def largest_weights(
    weights: Tensor, allowed: Tensor, keys: Tensor, special: SpecialIds
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the largest weight of each map on a key that is neither ``<s>`` nor ``</s>``.

    Rows with only one allowed key are ignored.

    Args:
        weights: attention maps, (B, H, Q, M).
        allowed: which keys each query may attend to, bool (B, Q, M).
        keys: ids at the columns, (B, M).
        special: ids of the model's special tokens.

    Returns:
        Weight, query and key, each (B, H); the weight is −1 for a map without such a key.
    """
    counts = allowed & rows_with_several_keys(allowed)[..., None]
    counts = counts & ((keys != special.start) & (keys != special.end))[:, None]
    best, at = weights.masked_fill(~counts[:, None], -1.0).flatten(-2).max(dim=-1)
    n_keys = weights.shape[-1]
    return best, at.div(n_keys, rounding_mode="floor"), at % n_keys


def examples_in_batch(
    model: Seq2SeqModel, sentences: Sequence[EncodedPair]
) -> dict[int, list[Example]]:
    """Find the largest weight of each head on each sentence of a batch, with the reference forced.

    Returns:
        For each sentence number one example of each head, in the order of ``all_heads``; its weight
        is −1 if the sentence has no example.
    """
    ids = PaddedIds.of([s.source for s in sentences], [s.target for s in sentences], model)
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

    Args:
        model: whose heads they are.
        found: for each sentence one example of each head, in the order of ``all_heads``.
    """
    rows = list(found)
    best: dict[Head, tuple[Example, ...]] = {}
    for place, head in enumerate(model.description.all_heads()):
        there = (row[place] for row in rows if row[place].weight >= 0)
        most = heapq.nlargest(
            EXAMPLES_PER_HEAD, there, key=lambda e: (round(e.weight, 5), -e.sentence)
        )
        best[head] = tuple(most)
    return best


# --- failures ------------------------------------------------------------------------------------


def coverage(cross: Tensor, words: Sequence[int]) -> float:
    """Return the mean over source words of min(1, weight of all steps on the word), from 0 to 1.

    (The penalty of Wu et al. 2016, equation 14, sums the logarithms of the same minima.)

    Args:
        cross: one cross-attention map, (T, S).
        words: word number of each source token, from 0; -1 for one that stands for no text.
    """
    by_word = cross.new_zeros(max(words) + 2)  # the first is of tokens without a word
    by_word.index_add_(0, torch.tensor(words, device=cross.device) + 1, cross.sum(0))
    by_word = by_word[1:]
    return float(by_word.clamp(max=1).mean())


def repetition(words: Sequence[str]) -> float:
    """Return the share of pairs of neighbouring words that occurred before; 0 without pairs."""
    pairs = list(pairwise(words))
    return 1 - len(set(pairs)) / len(pairs) if pairs else 0.0


@torch.inference_mode()
def translate_batch(
    model: Seq2SeqModel, tokenizers: Tokenizers, sentences: Sequence[EncodedPair]
) -> dict[int, TranslatedSentence]:
    """Translate a batch greedily and compute figures of how the translations may have failed.

    ``coverage``, and ``end``, the mean weight of a step on the source's ``</s>``, are computed from
    the mean of the last layer's cross-attention heads, over all steps including the one that
    predicts ``</s>``; ``repetition`` from the translation's words; ``log_probability`` is the mean
    over tokens in nats, ``</s>`` included.

    Returns:
        The translation of each sentence number.
    """
    targets = greedy(model, [sentence.source for sentence in sentences], tokenizers.prefix)
    ids = PaddedIds.of([sentence.source for sentence in sentences], targets, model)
    maps, stream = attention_maps(model, ids)
    cross = maps["cross"][:, -model.description.heads("cross") :].mean(dim=1)  # (B, T, S)
    found = {}
    for row, (sentence, target) in enumerate(zip(sentences, targets, strict=True)):
        steps, source_length = len(target) - 1, len(sentence.source)
        there = cross[row, :steps, :source_length]
        text_ids = [id for id in target[len(tokenizers.prefix) :] if id != ids.special.end]
        words = [
            tokenizers.target.decode(text_ids[word.start : word.stop]).strip()
            for word in tokenizers.target.words(text_ids)
        ]
        log_probability = log_probabilities(model, stream[row, :steps], ids.predicted[row, :steps])
        figures = {
            "coverage": coverage(there, word_numbers(tokenizers.source, sentence.source)),
            "repetition": repetition(words),
            "end": float(there[:, sentence.source.index(ids.special.end)].mean()),
            "log_probability": float(log_probability.mean()),
        }
        found[sentence.number] = TranslatedSentence(tokenizers.target.decode(target), figures)
    return found
