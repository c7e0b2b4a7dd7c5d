"""What a model loses as more and more of its heads are switched off.

Michel et al. (2019, section 4) prune heads by importance, without training again; Voita et al.
(2019, section 6) train gates and the model with them, and so lose less.

``B`` batch, ``T`` target steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from headwise.model.forced import forced_stream, log_probabilities
from headwise.model.interface import Head, Kind, Seq2SeqModel
from headwise.model.interventions import batch_head_costs, batch_head_importance
from headwise.model.ties import descending
from headwise.model.turning import ablate
from headwise.viz_app.core.batches import EncodedPair, PaddedIds, batches_by_length
from headwise.viz_app.measuring.sums import Bootstrap

Importance = Literal["cost", "gradient"]
IMPORTANCES: tuple[Importance, ...] = get_args(Importance)


@dataclass(frozen=True)
class PrunedLoss:
    """The loss of a model without some heads, in nats per target token."""

    pruned: int  # how many of the heads, the first of the order, are switched off
    loss: float
    rise: float  # the loss less that of the whole model
    error: float  # standard error of the rise, by 200 resamples of the sentences


def importance_of_heads(
    model: Seq2SeqModel,
    pairs: Sequence[EncodedPair],
    by: Importance,
    *,
    advance: Callable[[int], object] = lambda sentences: None,
) -> dict[Head, float]:
    """Compute what targets lose, in nats per token, when each head alone is off; by ``gradient`` to
    first order and without its sign (``batch_head_importance``).
    """
    of_batch = batch_head_costs if by == "cost" else batch_head_importance
    totals: dict[Kind, Tensor] = {}
    tokens = 0
    for batch in batches_by_length(pairs):
        ids = PaddedIds.of_pairs(batch, model)
        for kind, values in of_batch(model, ids.source, ids.target).items():
            totals[kind] = totals.get(kind, 0) + values.double().sum(dim=0)
        tokens += int(ids.is_predicted.sum())
        advance(len(batch))
    return {
        head: float(totals[head.kind][head.layer, head.head]) / tokens
        for head in model.description.all_heads()
    }


def least_important_first(importance: dict[Head, float]) -> list[Head]:
    """Order heads by importance; equal ones, as ``model/ties.py`` says, as they were."""
    heads = list(importance)
    return [heads[place] for place in descending([-importance[head] for head in heads])]


@torch.inference_mode()
def prune(
    model: Seq2SeqModel,
    pairs: Sequence[EncodedPair],
    order: Sequence[Head],
    counts: Collection[int],
    *,
    advance: Callable[[int], object] = lambda sentences: None,
) -> Iterator[PrunedLoss]:
    """Yield the loss on pairs, whose targets are forced, without the first ``counts`` heads of an
    order; ``advance`` is told how many sentences were read. ValueError without such a head.
    """
    batches = [(batch, PaddedIds.of_pairs(batch, model)) for batch in batches_by_length(pairs)]

    def losses() -> list[Tensor]:
        """Compute the summed loss of each sentence, (B,) for each batch."""
        found = []
        for batch, ids in batches:
            stream = forced_stream(model, ids.source, ids.target[:, :-1])
            keep = ids.is_predicted
            scores = stream.new_zeros(keep.shape, dtype=torch.float64)
            scores[keep] = log_probabilities(model, stream[keep], ids.predicted[keep]).double()
            found.append(-scores.sum(dim=-1))
            advance(len(batch))
        return found

    tokens = [ids.is_predicted.sum(dim=-1).double() for _, ids in batches]
    count = float(sum(each.sum() for each in tokens))
    whole = losses()
    for pruned in counts:
        if pruned:
            with ablate(model, order[:pruned]):
                without = losses()
        else:
            without = whole
        bootstrap = Bootstrap(1, model.device)
        for (batch, _), after, before, of_batch in zip(
            batches, without, whole, tokens, strict=True
        ):
            places = [sentence.number for sentence in batch]
            bootstrap.add(places, (after - before)[:, None], of_batch)
        loss, at_first = (float(sum(each.sum() for each in part)) for part in (without, whole))
        error = float(bootstrap.standard_errors()[0])
        yield PrunedLoss(pruned, loss / count, (loss - at_first) / count, error)


def spread_counts(heads: int, points: int | None) -> list[int]:
    """Return from 0 to all heads, every number of them or ``points`` that are spread evenly."""
    if points is None or points > heads:
        return list(range(heads + 1))
    return sorted(set(np.linspace(0, heads, max(points, 2)).round().astype(int).tolist()))
