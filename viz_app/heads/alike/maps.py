"""Which heads behave as a head does: distances of maps over a corpus.

``B`` batch, ``H`` heads of a kind, layer by layer, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from headwise.model.estimates import costs_bytes
from headwise.model.interface import Head, Seq2SeqModel
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, attention_maps, batches_by_length
from headwise.viz_app.core.computed import Sentences, of_sentences
from headwise.viz_app.measuring.heads import HeadSum, distance
from headwise.viz_app.measuring.sums import Bootstrap


class HasModel(Protocol):
    """A checkpoint, or what loads one."""

    @property
    def model(self) -> Seq2SeqModel:
        """Return its model."""


class AlikeHead(NamedTuple):
    """How far the maps of a head are from those of another over a corpus."""

    head: Head
    distance: float
    """Mean Jensen-Shannon distance of two rows of the same query, from 0 to 1."""
    error: float
    """Its standard error, by 200 resamples of the sentences; NaN if there are too few."""


class AlikeHeads(NamedTuple):
    """The heads of a model, nearest first, and what they are compared with."""

    heads: tuple[AlikeHead, ...]
    even: float
    """The same distance from rows that spread their weight evenly."""


@of_sentences("heads alike", needs=lambda *of: 2 * costs_bytes(*of))
@torch.inference_mode()
def heads_alike(
    model: Seq2SeqModel, sentences: Sentences, head: Head, other: HasModel | None = None
) -> AlikeHeads:
    """Compare the maps of a head with those of all heads of its kind in a model, or in the same.

    The distance of two heads is the mean over all rows with several keys of the Jensen-Shannon
    distance, as of ``measuring.heads.distance`` (Clark et al. 2019, section 6, compare heads so by
    the divergence). The head itself is left out. ``other`` reads the same tokens.

    Raises:
        ValueError: if the model has no such head.
    """
    compared = model if other is None else other.model
    model.description.require_heads([head])
    place = head.layer * model.description.heads(head.kind) + head.head

    def in_batch(batch: Sequence[EncodedPair]) -> HeadSum:
        """Sum the distances from each head, and from even rows: (B, H + 1)."""
        ids = PaddedIds.of_pairs(batch, model)
        maps = attention_maps(model, ids)[0][head.kind]  # (B, H, Q, M)
        there = maps if compared is model else attention_maps(compared, ids)[0][head.kind]
        allowed = ids.allowed(head.kind)
        even = allowed / allowed.sum(dim=-1, keepdim=True).clamp(min=1)
        there = torch.cat([there, even[:, None].to(there.dtype)], dim=1)
        return distance(maps[:, [place]], there, allowed)

    parts = sentences.by_batch(in_batch)
    totals, counts = (torch.cat([getattr(e, n) for e in parts]) for n in ("total", "count"))
    resampled = Bootstrap(totals.shape[1], totals.device)
    in_order = [each.number for batch in batches_by_length(sentences.pairs) for each in batch]
    resampled.add(in_order, totals, counts)
    *means, even = (totals.sum(dim=0) / counts.sum()).tolist()
    *errors, _ = resampled.standard_errors().tolist()
    others = [each for each in compared.description.all_heads() if each.kind == head.kind]
    found = [
        AlikeHead(*each)
        for each in zip(others, means, errors, strict=True)
        if compared is not model or each[0] != head
    ]
    # What differs by rounding only is in the order of the layers.
    return AlikeHeads(tuple(sorted(found, key=lambda e: (round(e.distance, 6), e.head))), even)
