"""What heads cost together and one by one, over the same sentences.

``B`` batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headwise.model.forced import forced_stream, target_log_probabilities
from headwise.model.interface import KINDS, Head, Seq2SeqModel
from headwise.model.interventions import streams_without
from headwise.model.turning import ablate
from headwise.viz_app.core.batches import PaddedIds, batches_by_length
from headwise.viz_app.core.computed import Sentences, of_sentences
from headwise.viz_app.measuring.sums import Bootstrap


@dataclass(frozen=True)
class JointCost:
    """What some heads cost together, beside what they cost one by one, in nats a target token."""

    sentences: int
    together: float
    together_error: float
    alone: dict[Head, float]
    summed: float
    """The sum of ``alone``."""
    summed_error: float
    beyond: float
    """What they cost together less that sum."""
    beyond_error: float
    """All errors are by 200 resamples of the sentences; this one of the same sentences' difference.
    """


@of_sentences("heads off together", says="Switching heads off in the example sentences")
@torch.inference_mode()
def joint_cost(model: Seq2SeqModel, sentences: Sentences, heads: frozenset[Head]) -> JointCost:
    """Compute what sentences lose without heads together and one by one.

    Raises:
        ValueError: if there are no heads, or the model does not have one.
    """
    if not heads:
        raise ValueError("expected heads that are off together, got none")
    parts = sorted(heads, key=lambda head: (KINDS.index(head.kind), head))
    # As many rows at a time as when every head is switched off in one sentence.
    size = max(1, (len(model.description.all_heads()) + 1) // (len(parts) + 1))
    bootstrap, sums = Bootstrap(3, model.device), torch.zeros(len(parts) + 1, dtype=torch.float64)
    tokens = 0.0
    for batch in batches_by_length(sentences.pairs, size):
        ids = PaddedIds.of_pairs(batch, model)
        with ablate(model, parts):
            stream = forced_stream(model, ids.source, ids.target[:, :-1])
        off = target_log_probabilities(model, stream, ids.target).double()  # (B,)
        streams = streams_without(model, ids.source, ids.target[:, :-1], parts)
        totals = target_log_probabilities(model, streams, ids.target).double()  # (parts + 1, B)
        alone, together = (totals[-1] - totals[:-1]).T, totals[-1] - off  # (B, parts), (B,)
        figures = torch.stack([together, alone.sum(dim=1), together - alone.sum(dim=1)], dim=1)
        counts = ids.is_predicted.sum(dim=-1).double()
        bootstrap.add([sentence.number for sentence in batch], figures, counts)
        sums += torch.cat([alone.sum(dim=0), together.sum()[None]]).cpu()
        tokens += float(counts.sum())
    *each, both = (sums / tokens).tolist()
    errors = bootstrap.standard_errors().tolist()
    return JointCost(
        sentences=len(sentences.pairs),
        together=both,
        together_error=errors[0],
        alone=dict(zip(parts, each, strict=True)),
        summed=sum(each),
        summed_error=errors[1],
        beyond=both - sum(each),
        beyond_error=errors[2],
    )
