"""What a head has of each measure if every row is even: the chance level of shares.

It looks at every key that the mask allows with the same weight, whatever the model is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch

from headwise.model.interface import KINDS, Kind, SpecialIds, Tokenizers
from headwise.model.masks import pad
from headwise.model.run_info import Counts
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, batches_by_length
from headwise.viz_app.measuring.head_measures import MEASURES
from headwise.viz_app.measuring.inputs import Rows, RunInputs


def ids_of(batch: Sequence[EncodedPair]) -> PaddedIds:
    """Pad a batch without its model: the start and the end are those of its first pair."""
    source, target = (pad(rows) for rows in ([e.source for e in batch], [e.target for e in batch]))
    special = SpecialIds(batch[0].target[0], batch[0].source[-1], padding=None, unknown=None)
    return PaddedIds(source, target, special)


def even_head(
    tokenizers: Tokenizers, counts: Counts | None, sentences: Iterable[EncodedPair]
) -> Mapping[str, Mapping[Kind, float]]:
    """Measure a head whose rows are even over sentences: measure → kind → value.

    Only measures of where a head looks have a value. ``counts`` say how often tokens occur in the
    training data, as for ``RunInputs``. Rows and their mean are those of the measures of heads.
    """
    run = RunInputs(tokenizers, counts, torch.device("cpu"))
    sums: dict[str, dict[Kind, list[float]]] = {}
    for batch in batches_by_length(sentences):
        ids = ids_of(batch)
        for kind in KINDS:
            allowed = ids.allowed(kind)
            weights = allowed.double() / allowed.sum(dim=-1, keepdim=True).clamp(min=1)
            rows = Rows(kind, weights[:, None], ids, run)
            for name, measure in MEASURES.items():
                if (found := measure.of_kind(rows)) is not None:
                    total = sums.setdefault(name, {}).setdefault(kind, [0.0, 0.0])
                    total[0] += float(found.total.sum())
                    total[1] += float(found.count.sum())
    return {
        name: {kind: of / count if count else math.nan for kind, (of, count) in of_kinds.items()}
        for name, of_kinds in sums.items()
    }
