"""Measures of where heads look, without a model: of the maps of a trace, and of even rows.

A head whose rows are even looks at every key that the mask allows with the same weight, whatever
the model is: what it has of a measure is the chance level of shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from headwise.model.config import Counts
from headwise.model.interface import KINDS, Kind, SpecialIds, Tokenizers
from headwise.model.masks import pad
from headwise.model.training.data import Pair
from headwise.viz_app.measuring.batches import EncodedPair, PaddedIds, batches_by_length
from headwise.viz_app.measuring.head_measures import MEASURES
from headwise.viz_app.measuring.inputs import Rows, RunInputs
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.attention import to_numpy, to_tensor


def ids_of(batch: Sequence[EncodedPair]) -> PaddedIds:
    """Pad a batch without its model: the start and the end are those of its first pair."""
    source, target = (pad(rows) for rows in ([e.source for e in batch], [e.target for e in batch]))
    special = SpecialIds(batch[0].target[0], batch[0].source[-1], padding=None, unknown=None)
    return PaddedIds(source, target, special)


def even_head(
    tokenizers: Tokenizers, counts: Counts | None, sentences: Iterable[EncodedPair]
) -> Mapping[str, Mapping[Kind, float]]:
    """Measure a head whose rows are even over sentences: measure → kind → value, of the measures of
    where a head looks. ``counts`` are those of tokens in the training data.
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


@dataclass(frozen=True)
class MeasuredSentence:
    """Where heads look on one sentence, beside an even head: means over rows with several keys."""

    values: Mapping[str, Mapping[Kind, Floats]]  # measure → kind → (L, H)
    even: Mapping[str, Mapping[Kind, float]]  # measure → kind → what a head with even rows has


def measure_sentence(
    trace: Trace, tokenizers: Tokenizers, counts: Counts | None
) -> MeasuredSentence:
    """Measure where the heads of a trace look, as over a corpus."""
    given = [list(ids) for ids in (trace.source.ids, trace.target_ids)]
    sentence = EncodedPair(0, Pair(trace.source_text, trace.target_text), *given)
    ids, run = ids_of([sentence]), RunInputs(tokenizers, counts, torch.device("cpu"))
    values: dict[str, dict[Kind, Floats]] = {}
    for kind, maps in trace.attention.items():
        rows = Rows(kind, to_tensor(maps).flatten(0, 1)[None], ids, run)  # (1, L H, Q, M)
        for name, measure in MEASURES.items():
            if (found := measure.of_kind(rows)) is not None:
                means = (found.total[0] / found.count[0]).float()
                values.setdefault(name, {})[kind] = to_numpy(means).reshape(maps.shape[:2])
    return MeasuredSentence(values, even_head(tokenizers, counts, [sentence]))
