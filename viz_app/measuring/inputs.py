"""What measures are computed from: a run's tokens, and a batch of a corpus as a model sees it.

``B`` batch, ``H`` heads of all layers, ``Q`` queries, ``M`` keys, ``V`` vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from headwise.model.config import Counts
from headwise.model.interface import KINDS, Kind, Seq2SeqModel, Tokenizers, Vocabulary
from headwise.model.interventions import batch_head_costs
from headwise.viz_app.analysis.attention import is_punctuation
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, attention_maps
from headwise.viz_app.measuring.heads import HeadSum, distance
from headwise.viz_app.measuring.score_variance import score_variance
from headwise.viz_app.measuring.words import (
    AlignedBatch,
    LinksLookup,
    align_batch,
    count_correct_links,
)

Found = TypeVar("Found")


def punctuation_ids(tokenizer: Vocabulary) -> Tensor:
    """Return which tokens of the vocabulary consist of punctuation only: bool (V,)."""
    tokens = tokenizer.tokens(range(tokenizer.vocab_size))
    return torch.tensor([is_punctuation(token) for token in tokens])


class RunInputs:
    """What measures need to know of a run: its tokenizers, and what its tokens are."""

    def __init__(
        self,
        tokenizers: Tokenizers,
        counts: Counts | None,
        device: torch.device,
        links_of: LinksLookup | None = None,
    ) -> None:
        """Prepare for a run. ``counts`` say how often tokens occur in its training data;
        ``links_of`` finds reference alignments, if there are any.
        """
        self.tokenizers, self.links_of = tokenizers, links_of
        source, target = (
            punctuation_ids(side).to(device) for side in (tokenizers.source, tokenizers.target)
        )
        self.punctuation = dict.fromkeys(KINDS, source) | {"decoder_self": target}
        """Which tokens at the columns of maps of a kind are punctuation, bool (V,)."""
        self.occurrences: dict[Kind, Tensor] = {}
        """How often they occur, (V,), −1 for special tokens; empty if it is unknown."""
        if counts is not None:
            sides = [torch.tensor(side, device=device) for side in (counts.source, counts.target)]
            for ids, side in zip(sides, (tokenizers.source, tokenizers.target), strict=True):
                ids[list(side.control_ids)] = -1
            self.occurrences = dict.fromkeys(KINDS, sides[0]) | {"decoder_self": sides[1]}


@dataclass(frozen=True)
class Rows:
    """The rows of all maps of a kind of attention in a batch."""

    kind: Kind
    weights: Tensor  # (B, H, Q, M); 0 at padding
    ids: PaddedIds
    run: RunInputs

    @property
    def allowed(self) -> Tensor:
        """Which keys each query may attend to, none at padding: bool (B, Q, M)."""
        return self.ids.allowed(self.kind)

    @property
    def keys(self) -> Tensor:
        """The ids at the columns, (B, M)."""
        return self.ids.keys(self.kind)


@dataclass
class MeasuredBatch:
    """A batch of a corpus, its targets forced on a model; what measures share is computed once."""

    run: RunInputs
    model: Seq2SeqModel
    pairs: Sequence[EncodedPair]
    others: Mapping[str, Seq2SeqModel] = field(default_factory=dict)  # compared, by measure
    means: Mapping[Kind, Tensor] | None = None  # outputs of heads, (L, H, K), if known

    def __post_init__(self) -> None:
        self.ids = PaddedIds.of_pairs(self.pairs, self.model)
        self.places = [pair.number for pair in self.pairs]
        self.tokens = self.ids.is_predicted.sum(dim=-1).double()
        self._found: dict[Callable[..., Any], Any] = {}

    def once(self, compute: Callable[[Seq2SeqModel, PaddedIds], Found]) -> Found:
        """Compute something of the batch, unless that was done before."""
        if compute not in self._found:
            self._found[compute] = compute(self.model, self.ids)
        found: Found = self._found[compute]
        return found

    @property
    def rows(self) -> list[Rows]:
        return [Rows(kind, of, self.ids, self.run) for kind, of in self.once(maps_of).items()]

    @cached_property
    def aligned(self) -> AlignedBatch | None:
        """The sentences with a reference alignment; None if there are none."""
        if self.run.links_of is None:
            return None
        return align_batch(self.pairs, self.run.tokenizers, self.run.links_of, self.model.device)

    def per_token(self, values: Mapping[Kind, Tensor]) -> Mapping[Kind, HeadSum]:
        """Return what targets lose, (B, L, H of a layer) of each kind, as sums over tokens."""
        return {kind: HeadSum(of.double().flatten(1), self.tokens) for kind, of in values.items()}

    def score_shares(self, name: str) -> Mapping[Kind, HeadSum]:
        """Return what a part explains of scores, by kind."""
        found = self.once(score_variance)
        return {kind: of for (part, kind), of in found.items() if part == name}

    def mean_ablation(self) -> Mapping[Kind, HeadSum]:
        """Return what the mean output in place of each head's costs, by kind, if it is known."""
        if self.means is None:
            return {}
        source, target = self.ids.source, self.ids.target
        return self.per_token(batch_head_costs(self.model, source, target, means=self.means))

    def distances(self, name: str) -> Mapping[Kind, HeadSum]:
        """Return the distances to the checkpoint of a measure, if there is one, by kind."""
        if (other := self.others.get(name)) is None:
            return {}
        there = self.once(maps_of) if other is self.model else maps_of(other, self.ids)
        return {
            rows.kind: distance(rows.weights, there[rows.kind], rows.allowed) for rows in self.rows
        }

    def correct_links(self, rows: str) -> Mapping[Kind, HeadSum]:
        """Return |A ∩ S| and |A| + |S| of alignments; ``rows`` are predicted or consumed words."""
        if (aligned := self.aligned) is None:
            return {}
        cross = self.once(maps_of)["cross"]
        correct = count_correct_links(cross, aligned, getattr(aligned, rows))
        total = correct.new_zeros(len(self.pairs), correct.shape[1])
        count = correct.new_zeros(len(self.pairs))
        total[aligned.rows], count[aligned.rows] = correct, aligned.sizes
        return {"cross": HeadSum(total, count)}


def maps_of(model: Seq2SeqModel, ids: PaddedIds) -> Mapping[Kind, Tensor]:
    """Return maps whose rows sum to 1, also those of a half of an attention, as shares of it."""
    maps, _ = attention_maps(model, ids)
    if not model.description.merged_attention:
        return maps
    return {kind: of / of.sum(-1, keepdim=True).clamp(min=1e-30) for kind, of in maps.items()}


def costs_of(model: Seq2SeqModel, ids: PaddedIds) -> Mapping[Kind, Tensor]:
    """Return what switching off each head costs each target, (B, L, H) of each kind."""
    return batch_head_costs(model, ids.source, ids.target)
