"""Search a corpus for rows of attention maps: in which does a head put its weight on something?

``B`` batch, ``H`` heads that are searched, ``Q`` queries, ``M`` keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

import orjson
import torch
from torch import Tensor

from headwise.model.interface import Head, Seq2SeqModel, Tokenizers, head_name
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.core.computed import Sentences, of_sentences
from headwise.viz_app.heads.rows.query import RowQuery
from headwise.viz_app.measuring.heads import rows_with_several_keys
from headwise.viz_app.measuring.inputs import punctuation_ids

MOST_FOUND = 50
"""Most rows that are kept."""


@dataclass(frozen=True)
class FoundRow:
    """A row of a head's map has weight on what was looked for."""

    sentence: int
    """Number of the sentence among those that were searched, from 0."""
    head: Head
    query: int
    """Row of the map, from 0."""
    keys: tuple[int, ...]
    """Columns of the keys that were looked for, from 0."""
    weight: float
    """What the row has on them together."""


@dataclass(frozen=True)
class FoundRows:
    """What a search has found."""

    rows: tuple[FoundRow, ...]
    """Those with the largest weights, largest first; equal ones in the order of the sentences."""
    count: int
    """How many rows there are in all."""
    of: int
    """How many rows were looked at, once for each head: those with more than one allowed key."""
    by_chance: int | None
    """How many of them a head would have that spreads its weight evenly; None for ``alone``, which
    depends on all heads."""

    @property
    def said(self) -> str:
        """How many rows there are of how many, in words."""
        return f"{self.count:,} of {self.of:,} rows"

    def to_json(self, sentences: Sequence[EncodedPair]) -> bytes:
        """Return the counts, and the rows with the texts of the sentences that were searched."""
        pairs = {each.number: each.pair for each in sentences}
        rows = [
            {
                "source": pairs[row.sentence].source,
                "target": pairs[row.sentence].target,
                "head": head_name(row.head),
                "query": row.query,
                "keys": row.keys,
                "weight": row.weight,
            }
            for row in self.rows
        ]
        counts = {"count": self.count, "of": self.of, "by_chance": self.by_chance}
        return orjson.dumps({**counts, "rows": rows})


@of_sentences("rows found")
@torch.inference_mode()
def find_rows(
    model: Seq2SeqModel, sentences: Sentences, query: RowQuery, *, most: int = MOST_FOUND
) -> FoundRows:
    """Find the rows of a corpus that a query asks for, of which ``most`` are kept, all counted.

    Raises:
        ValueError: if the query has a head that the model does not have, or a token that
            its vocabulary does not know.
    """
    heads = [head for head in model.description.all_heads() if head.kind == query.kind]
    if query.head is not None:
        model.description.require_heads([query.head])
    search = _Search.of(model, sentences.tokenizers, query, heads)

    def in_batch(batch: Sequence[EncodedPair]) -> FoundRows:
        ids = PaddedIds.of_pairs(batch, model)
        weights = attention_maps(model, ids)[0][query.kind]
        return search.in_maps(weights, ids, [sentence.number for sentence in batch], most)

    parts = sentences.by_batch(in_batch)
    rows = [row for part in parts for row in part.rows]
    rows.sort(key=lambda row: _order(row.weight, row.sentence, row.head, row.query))
    chances = [part.by_chance for part in parts if part.by_chance is not None]
    return FoundRows(
        tuple(rows[:most]),
        sum(part.count for part in parts),
        sum(part.of for part in parts),
        sum(chances) if len(chances) == len(parts) else None,
    )


def _order(weight: float, sentence: int, head: Head, query: int) -> tuple[object, ...]:
    """Sort by weight; those that differ by rounding only by sentence, in whichever batch it is."""
    return -round(weight, 5), sentence, head, query


@dataclass(frozen=True)
class _Search:
    """A query, with what it needs of the vocabularies."""

    query: RowQuery
    heads: Sequence[Head]
    """All heads of the kind."""
    tokens: Tensor
    """The ids that are looked for, bool (V,), for those of ``WantedKeys`` that are tokens."""
    special: Tensor
    """Which ids are special, bool (V,)."""
    names: Sequence[Tensor]
    """Numbers that are the same for the same text: of the keys' ids, (V,), and of the queries'."""

    @classmethod
    def of(
        cls, model: Seq2SeqModel, tokenizers: Tokenizers, query: RowQuery, heads: Sequence[Head]
    ) -> _Search:
        of_keys = tokenizers.target if query.kind == "decoder_self" else tokenizers.source
        of_queries = tokenizers.source if query.kind == "encoder_self" else tokenizers.target

        def ids(wanted: Iterable[int]) -> Tensor:
            found = torch.zeros(of_keys.vocab_size, dtype=torch.bool)
            found[list(wanted)] = True
            return found

        wanted = special = ids(of_keys.control_ids)
        if query.on in ("punctuation", "alone"):
            wanted = punctuation_ids(of_keys)
        elif query.on == "token":
            if unknown := of_keys.unknown(query.token):
                raise ValueError(f"token: the vocabulary does not know {unknown[0]!r:.60}")
            wanted = ids(of_keys.encode(query.token.strip()))
        numbers: dict[str, int] = {}
        names, device = [], model.device
        for vocabulary in (of_keys, of_queries):
            texts = map(str.strip, vocabulary.tokens(range(vocabulary.vocab_size)))
            numbered = [numbers.setdefault(text, len(numbers)) for text in texts]
            names.append(torch.tensor(numbered, device=device))
        return cls(query, heads, wanted.to(device), special.to(device), names)

    def in_maps(
        self, weights: Tensor, ids: PaddedIds, places: Sequence[int], most: int
    ) -> FoundRows:
        """Search the maps of all heads of the kind in a batch, (B, H, Q, M)."""
        allowed = ids.allowed(self.query.kind)  # (B, Q, M)
        weights = weights.masked_fill(~allowed[:, None], 0.0)  # rows of padding have some
        rows = rows_with_several_keys(allowed)  # (B, Q)
        numbers = [
            number for number, head in enumerate(self.heads) if self.query.head in (None, head)
        ]
        wanted = self._wanted(weights, ids) & allowed[:, None]  # (B, H or 1, Q, M)
        weights = weights[:, numbers]
        if self.query.on == "alone":
            wanted = wanted[:, numbers]
        on_wanted = weights.masked_fill(~wanted, 0.0).sum(dim=-1)  # (B, H, Q)
        hits = (on_wanted >= self.query.least) & rows[:, None]
        by_chance = None
        if self.query.on != "alone":
            even = wanted[:, 0].sum(dim=-1) / allowed.sum(dim=-1).clamp(min=1)
            by_chance = int(((even >= self.query.least) & rows).sum()) * len(numbers)

        def order(hit: tuple[float, list[int]]) -> tuple[object, ...]:
            weight, (row, head, query) = hit
            return _order(weight, places[row], self.heads[numbers[head]], query)

        found = [
            FoundRow(
                places[row],
                self.heads[numbers[head]],
                query,
                tuple(wanted[row, head % wanted.shape[1], query].nonzero()[:, 0].tolist()),
                weight,
            )
            for weight, (row, head, query) in nsmallest(
                most, zip(on_wanted[hits].tolist(), hits.nonzero().tolist(), strict=True), key=order
            )
        ]
        return FoundRows(tuple(found), int(hits.sum()), int(rows.sum()) * len(numbers), by_chance)

    def _wanted(self, weights: Tensor, ids: PaddedIds) -> Tensor:
        """Return which keys are looked for, bool (B, H or 1, Q, M), also where none is allowed."""
        keys = ids.keys(self.query.kind)  # (B, M)
        n_queries, n_keys = weights.shape[-2:]
        if self.query.on == "distance":
            queries, columns = (torch.arange(n, device=keys.device) for n in (n_queries, n_keys))
            there = columns == queries[:, None] + self.query.distance
            return there[None, None].expand(len(keys), -1, -1, -1)
        if self.query.on == "same":
            return self._equal(keys, ids)[:, None]
        if self.query.on == "alone":
            content = ~(self.tokens | self.special)[keys]
            enough = weights >= self.query.least  # by itself, not with other keys
            of_heads = enough.any(dim=-2).sum(dim=1)  # how many heads look there, (B, M)
            return enough & (content & (of_heads == 1))[:, None, None]
        return self.tokens[keys][:, None, None].expand(-1, -1, n_queries, -1)

    def _equal(self, keys: Tensor, ids: PaddedIds) -> Tensor:
        """Return at which other keys a token equals that of the row, bool (B, Q, M)."""
        queries = ids.predicted if self.query.kind == "cross" else keys
        of_keys, of_queries = self.names
        equal = of_keys[keys][:, None] == of_queries[queries][:, :, None]
        if self.query.kind != "cross":
            equal = equal & ~torch.eye(keys.shape[1], dtype=torch.bool, device=keys.device)
        return equal & ~self.special[keys][:, None]
