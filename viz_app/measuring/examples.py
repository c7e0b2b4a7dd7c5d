"""Example sentences: where each head's weight is largest, how a checkpoint translates them.

``B`` batch, ``H`` heads, ``Q`` queries, ``M`` keys, ``S`` source length, ``T`` target steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from model.ablation import all_heads
from model.config import BOS, EOS
from model.decoding import greedy
from model.scoring import log_probabilities
from model.tokenizer import TokenizerPair
from model.transformer import Transformer
from viz_app.measure_records import Example, Translated
from viz_app.measuring.batches import Encoded, Ids, attention_maps
from viz_app.measuring.heads import telling_rows
from viz_app.measuring.words import word_numbers
from viz_app.records import KINDS, Head

KEPT = 8
"""Examples of each head."""

# --- strongest -----------------------------------------------------------------------------------


def largest(weights: Tensor, allowed: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The largest weight of each map on a key that is neither ``<s>`` nor ``</s>``.

    Rows with one allowed key do not count.

    Args:
        weights: (B, H, Q, M).
        allowed: bool (B, Q, M).
        keys: ids (B, M).

    Returns:
        Weight, query and key, (B, H) each; the weight is −1 where no key counts.
    """
    counts = allowed & telling_rows(allowed)[..., None]
    counts = counts & ((keys != BOS) & (keys != EOS))[:, None]
    best, at = weights.masked_fill(~counts[:, None], -1.0).flatten(-2).max(dim=-1)
    n_keys = weights.shape[-1]
    return best, at.div(n_keys, rounding_mode="floor"), at % n_keys


def examples_of(model: Transformer, sentences: Sequence[Encoded]) -> dict[int, list[Example]]:
    """The largest weight of each head on each sentence of a batch, the reference being the target.

    Returns:
        Number of the sentence → an example a head, in the order of ``all_heads``; of weight −1
        where there is none.
    """
    ids = Ids.of([s.source for s in sentences], [s.target for s in sentences], model.device)
    maps, _ = attention_maps(model, ids)
    found = [largest(maps[kind], ids.allowed(kind), ids.keys(kind)) for kind in KINDS]
    # All kinds side by side, their heads layer by layer: (B, heads).
    weights, queries, keys = (torch.cat(side, dim=1).tolist() for side in zip(*found, strict=True))
    return {
        sentence.number: [
            Example(sentence.number, *place)
            for place in zip(queries[row], keys[row], weights[row], strict=True)
        ]
        for row, sentence in enumerate(sentences)
    }


def strongest(
    model: Transformer, found: Iterable[Sequence[Example]]
) -> dict[Head, tuple[Example, ...]]:
    """The ``KEPT`` strongest examples of each head, largest weight first."""
    rows = list(found)
    best: dict[Head, tuple[Example, ...]] = {}
    for place, head in enumerate(all_heads(model)):
        there = (row[place] for row in rows if row[place].weight >= 0)
        most = heapq.nlargest(KEPT, there, key=lambda e: (round(e.weight, 5), -e.sentence))
        best[head.kind, head.layer, head.head] = tuple(most)
    return best


# --- failures ------------------------------------------------------------------------------------


def coverage(cross: Tensor, words: Sequence[int]) -> float:
    """Mean over source words of min(1, weight of all steps on the word).

    (The penalty of Wu et al. 2016, equation 14, sums the logarithms of the same minima.)

    Args:
        cross: weights (T, S) of one map.
        words: the word of each source piece, from 0; pieces beyond these (``</s>``) do not count.
    """
    by_word = cross.new_zeros(words[-1] + 1)
    by_word.index_add_(0, torch.tensor(words, device=cross.device), cross[:, : len(words)].sum(0))
    return float(by_word.clamp(max=1).mean())


def repetition(words: Sequence[str]) -> float:
    """Share of the pairs of neighbouring words that stood there before; 0 without pairs."""
    pairs = list(pairwise(words))
    return 1 - len(set(pairs)) / len(pairs) if pairs else 0.0


@torch.inference_mode()
def translated(
    model: Transformer, tokenizers: TokenizerPair, sentences: Sequence[Encoded]
) -> dict[int, Translated]:
    """Greedy translations of a batch and figures of how they may have failed.

    ``coverage`` and ``end``, the mean weight of a step on the source's ``</s>``, are of the mean of
    the last layer's cross-attention heads over all steps, that which ends the translation too;
    ``repetition`` is that of the translation's words; ``log_probability`` the mean of a piece in
    nats, ``</s>`` included.

    Returns:
        Number of the sentence → its translation.
    """
    targets = greedy(model, [sentence.source for sentence in sentences])
    ids = Ids.of([sentence.source for sentence in sentences], targets, model.device)
    maps, stream = attention_maps(model, ids)
    cross = maps["cross"][:, -model.config.n_heads :].mean(dim=1)  # (B, T, S)
    found = {}
    for row, (sentence, target) in enumerate(zip(sentences, targets, strict=True)):
        steps, source_length = len(target) - 1, len(sentence.source)
        there = cross[row, :steps, :source_length]
        text_ids = [id for id in target if id not in (BOS, EOS)]
        words = [
            tokenizers.target.decode(text_ids[word.start : word.stop]).strip()
            for word in tokenizers.target.words(text_ids)
        ]
        log_probability = log_probabilities(model, stream[row, :steps], ids.predicted[row, :steps])
        figures = {
            "coverage": coverage(there, word_numbers(tokenizers.source, sentence.source[:-1])),
            "repetition": repetition(words),
            "end": float(there[:, -1].mean()),
            "log_probability": float(log_probability.mean()),
        }
        found[sentence.number] = Translated(tokenizers.target.decode(target), figures)
    return found
