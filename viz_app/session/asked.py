"""What pages ask of declared computations: each is made once for all sessions."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from headwise.model.interface import Seq2SeqModel
from headwise.viz_app.core.computed import (
    Asked,
    Computed,
    Found,
    OfSentences,
    OfTrace,
    OfWeights,
    Sentences,
)
from headwise.viz_app.records.trace import Tokens, Trace
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import Run, Weights, checkpoint_of, weights_of, weights_sha256
from headwise.viz_app.session.slices import NoteDone


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
    return ask_weights_of(weights_of(run, trace.step), computed, trace, *asked, **named)


def ask_weights_of(
    weights: Weights,
    computed: OfTrace[Asked, Found],
    trace: Trace,
    *asked: Asked.args,
    **named: Asked.kwargs,
) -> Found:
    """Return the same of any checkpoint, on the source and the target of a trace."""
    key = (*asked, *named.items())
    return _ask(
        weights, computed, trace, key, lambda model: computed(model, trace, *asked, **named)
    )


def ask_slowly(
    weights: Weights,
    computed: Computed[..., Found],
    trace: Trace,
    note_done: NoteDone,
    *asked: Hashable,
) -> Found:
    """Return what is found part by part: if ``note_done`` ends it, the next call goes on there."""
    known = so_far(weights, computed, trace, *asked)

    def compute(model: Seq2SeqModel) -> Found:
        return computed(model, trace, *asked, known=known, note_done=note_done)

    return _ask(weights, computed, trace, asked, compute)


def so_far(
    weights: Weights, computed: Computed[..., Found], trace: Trace, *asked: Hashable
) -> dict[int, float]:
    """Return what ``ask_slowly`` has found up to now, in whichever session: place → number."""
    return cached(f"{computed.what}, so far", _key(weights, trace, asked), dict)


def _key(weights: Weights, trace: Trace, asked: Hashable) -> Hashable:
    return weights.sha256, trace.source, trace.target_ids, trace.turned, asked


def _ask(
    weights: Weights,
    computed: Computed[..., Found],
    trace: Trace,
    asked: tuple[Hashable, ...],
    compute: Callable[[Seq2SeqModel], Found],
) -> Found:
    source = max(len(each) for each in (trace.source, *asked) if isinstance(each, Tokens))
    return cached(
        computed.what,
        _key(weights, trace, asked),
        lambda: compute(weights.model),
        facts=lambda _: {"run": weights.run.name, "step": weights.step},
        says=computed.says,
        needs=computed.needs(weights.run.description, source, len(trace.predicted)),
    )


def ask_sentences(
    computed: OfSentences[Asked, Found],
    run: Run,
    step: int,
    sentences: Sentences,
    *asked: Asked.args,
    **named: Asked.kwargs,
) -> Found:
    """Return something of a checkpoint over sentences; what is asked besides is a part of the key.

    Where their ``note_done`` ends it, the next call goes on from there.
    """
    weights = weights_of(run, step)
    identity = [getattr(each, "sha256", each) for each in (*asked, *named.values())]
    key = (str(run.folder), weights.sha256, sentences.sha256, *identity)
    if sentences.note_done is not None:
        known: dict[int, Any] = cached(f"{computed.what}, by batch", key, dict)
        sentences = replace(sentences, known=known)
    return cached(
        computed.what,
        key,
        lambda: computed(weights.model, sentences, *asked, **named),
        facts=lambda _: {"run": run.name, "step": step},
        says=computed.says,
        needs=computed.needs(run.description, *sentences.lengths),
    )
