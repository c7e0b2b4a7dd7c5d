"""What heads do with their sinks: costs by passes without them, and the rank of what they bring.

``Q`` queries, ``M`` keys, ``K`` = d_k, ``D`` = d_model.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence

import numpy as np

from headwise.model.interface import Head, Seq2SeqModel, attention_path
from headwise.model.unread import Unread, costs_of_unread
from headwise.viz_app.records.account import Doubles
from headwise.viz_app.records.sinks import Sink, SinkEffects
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.attention import to_numpy


def run_sink_effects(
    model: Seq2SeqModel,
    trace: Trace,
    sinks: Sequence[Sink],
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[SinkEffects, ...]:
    """Measure the effects of sinks of a trace, with its target forced; heads are as in the model.

    ``known`` is as for ``costs_of_unread``; ``note_done`` is told how many of how many passes are
    done.
    """
    changes: list[Unread] = []
    for sink in sinks:
        others = tuple(
            key for key in range(len(trace.keys_of(sink.head.kind))) if key not in sink.keys
        )
        changes += [
            Unread(sink.head, sink.keys),
            Unread(sink.head, sink.keys, removed=True),
            Unread(sink.head, others),
        ]
    costs = costs_of_unread(
        model,
        trace.source.ids,
        trace.target_ids,
        changes,
        known=known,
        note_done=lambda done: note_done(done, len(changes)),
    )
    return tuple(
        SinkEffects(zero, removed, others, *_ranks(model, trace, sink.head))
        for sink, (zero, removed, others) in zip(sinks, costs.view(-1, 3).tolist(), strict=True)
    )


def _ranks(model: Seq2SeqModel, trace: Trace, head: Head) -> tuple[float, float]:
    """Return the stable rank of what a head brings to its rows with several keys, and if even."""
    kind, layer, number = head
    weights = trace.attention[kind][layer, number].astype(np.float64)  # (Q, M)
    may = np.tri(*weights.shape) if kind == "decoder_self" else np.ones(weights.shape)
    rows = may.sum(axis=1) > 1
    output = model.linear(f"{attention_path(kind, layer)}.output_projection").weight  # (H K, D)
    of_head = output.unflatten(0, (model.description.heads(kind), -1))[number]
    values = trace.values[kind][layer, number] @ to_numpy(of_head).astype(np.float64)  # (M, D)
    even = may / may.sum(axis=1, keepdims=True)
    return stable_rank(weights[rows] @ values), stable_rank(even[rows] @ values)


def stable_rank(matrix: Doubles) -> float:
    """Return ‖A‖²_F / ‖A‖²_2 of a matrix: 1 if its rank is 1, NaN if all of it is 0."""
    squares = np.linalg.svd(matrix, compute_uv=False) ** 2
    return float(squares.sum() / squares[0]) if squares[:1].any() else float("nan")
