"""What pages ask of declared computations: each is made once for all sessions."""

from __future__ import annotations

from headwise.viz_app.core.computed import Asked, Found, OfTrace, OfWeights
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.views.caches import Run, checkpoint_of, weights_of, weights_sha256
from headwise.viz_app.views.shared.cache import cached


def ask_weights(computed: OfWeights[Found], run: Run, step: int) -> Found:
    """Return something of the weights of a checkpoint, which are loaded only to compute it."""
    return cached(
        computed.what,
        weights_sha256(run, step),
        lambda: computed(checkpoint_of(run, step).model),
        facts=lambda _: {"run": run.name, "step": step},
        says=computed.says,
    )


def ask_trace(
    computed: OfTrace[Asked, Found],
    run: Run,
    trace: Trace,
    *asked: Asked.args,
    **named: Asked.kwargs,
) -> Found:
    """Return something of a trace of this run; what is asked besides is a part of the key."""
    weights = weights_of(run, trace.step)
    return cached(
        computed.what,
        (weights.sha256, trace.source.ids, trace.target_ids, trace.turned, asked, *named.items()),
        lambda: computed(weights.model, trace, *asked, **named),
        facts=lambda _: {"run": run.name, "step": trace.step},
        says=computed.says,
        needs=computed.needs(run.description, len(trace.source), len(trace.predicted)),
    )
