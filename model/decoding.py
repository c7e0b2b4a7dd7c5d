"""Greedy decoding with a key/value cache, batched. ``B`` batch, ``S`` source length."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from model.config import BOS, EOS
from model.data import pad, sorted_batches
from model.tokenizer import TokenizerPair
from model.transformer import DecoderCache, Transformer


def longest_target(source_length: int, max_length: int) -> int:
    """Most pieces generated for a source of so many pieces, so that untrained models stop too."""
    return min(2 * source_length + 10, max_length)


@torch.inference_mode()
def greedy(model: Transformer, sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """The likeliest piece at every step, for a batch of sources at once.

    Args:
        model: in evaluation mode.
        sources: ids of each source, ``</s>`` included.

    Returns:
        For each source its target: ``<s>``, the pieces and ``</s>``, this last missing where the
        limit of ``longest_target`` was reached first. Rows that have ended leave the batch.

    Raises:
        ValueError: on an empty batch or source, or one that is too long for the model.
    """
    if not sources:
        raise ValueError("expected at least one source, got an empty batch")
    max_length = model.config.max_length
    memory, memory_mask = model.encode(pad(sources).to(model.device))
    cache = DecoderCache(model.config.n_layers)
    targets = [[BOS] for _ in sources]
    limits = [longest_target(len(source), max_length) for source in sources]
    rows = list(range(len(sources)))
    consumed = torch.full((len(rows), 1), BOS, device=model.device)
    while rows:
        stream = model.decode(consumed, memory, memory_mask, cache)  # (B, 1, D)
        chosen = model.logits(model.unembed(stream))[:, -1].argmax(dim=-1)  # (B,)
        going_on = []
        for place, (row, id) in enumerate(zip(rows, chosen.tolist(), strict=True)):
            targets[row].append(id)
            if id != EOS and len(targets[row]) <= limits[row]:
                going_on.append(place)
        if len(going_on) < len(rows):
            kept = torch.tensor(going_on, dtype=torch.long, device=model.device)
            memory, memory_mask, chosen = memory[kept], memory_mask[kept], chosen[kept]
            cache.keep(kept)
            rows = [rows[place] for place in going_on]
        consumed = chosen[:, None]
    return targets


def translate(
    model: Transformer, tokenizers: TokenizerPair, texts: Sequence[str], *, batch_size: int = 64
) -> list[str]:
    """Translate texts greedily, those of similar length together; the order is kept."""
    sources = [tokenizers.encode_source(text) for text in texts]
    translations = [""] * len(texts)
    for batch in sorted_batches(sources, batch_size):
        for index, target in zip(batch, greedy(model, [sources[i] for i in batch]), strict=True):
            translations[index] = tokenizers.target.decode(target)
    return translations
