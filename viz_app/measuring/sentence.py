"""What the measures over a corpus are of one sentence: where its heads look.

``L`` layers, ``H`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from headwise.model.interface import Kind, Tokenizers
from headwise.model.run_info import Counts
from headwise.model.training.data import Pair
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.even import even_head, ids_of
from headwise.viz_app.measuring.head_measures import MEASURES
from headwise.viz_app.measuring.inputs import Rows, RunInputs
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.attention import to_numpy, to_tensor


@dataclass(frozen=True)
class MeasuredSentence:
    """The measures of where heads look have values on one sentence, beside those of an even head.

    Both are means over the rows that have several keys.
    """

    values: Mapping[str, Mapping[Kind, Floats]]
    """Measure → kind → (L, H)."""
    even: Mapping[str, Mapping[Kind, float]]
    """Measure → kind → what a head with even rows has."""


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
