"""Gives the page Why what it needs of a prediction: effects, drivers, contributions.

As in ``views/caches.py``, each is computed once, for all sessions, and kept in a bounded cache. All
raise ``CheckpointError`` if the weights cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headwise.model.estimates import contributions_bytes, effects_bytes
from headwise.model.interface import Stack, WordSpan
from headwise.viz_app.measuring.batches import PaddedIds
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.records.account import Account, SourceEffects, StreamParts, WholeEffects
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.account import (
    run_cell,
    run_drivers,
    run_neuron_words,
    run_source_effects,
    run_whole_effects,
)
from headwise.viz_app.trace.attention import to_numpy
from headwise.viz_app.views.caches import Run, weights_of
from headwise.viz_app.views.shared.accounts import of_prediction, so_far
from headwise.viz_app.views.shared.cache import cached


def cell_of(
    run: Run, trace: Trace, account: Account, layer: int, head: int, key: int
) -> StreamParts:
    """Take one cell of cross-attention in an account apart, over the encoder."""
    return of_prediction(
        "cell of an account",
        run,
        trace,
        account.step,
        (account.word, account.instead, layer, head, key),
        lambda model: run_cell(model, trace, account, layer, head, key),
    )


def drivers_of(
    run: Run, trace: Trace, stack: Stack, position: int, layer: int, neuron: int
) -> dict[str, StreamParts]:
    """Take the input of a neuron at a position of a stack apart, as ``run_drivers``."""
    return of_prediction(
        "drivers of a neuron",
        run,
        trace,
        position if stack == "decoder" else 0,
        (stack, position, layer, neuron),
        lambda model: run_drivers(model, trace, position, layer, neuron, stack=stack),
    )


def neuron_words_of(
    run: Run, trace: Trace, at: int, layer: int, neuron: int, count: int
) -> tuple[list[int], list[int]]:
    """Return the ids of the tokens that a neuron raises most and lowers most."""
    return of_prediction(
        "words of a neuron",
        run,
        trace,
        at,
        (layer, neuron, count),
        lambda model: run_neuron_words(model, trace, at, layer, neuron, count),
    )


def whole_effects_of(
    run: Run, trace: Trace, account: Account, note_done: Callable[[int, int], None]
) -> WholeEffects:
    """Compute what the difference of an account loses without each head and feed-forward.

    If ``note_done`` ends it, the next call goes on from there.
    """
    known = so_far("whole effects", run, trace, account.step, (account.word, account.instead))
    return of_prediction(
        "whole effects",
        run,
        trace,
        account.step,
        (account.word, account.instead),
        lambda model: run_whole_effects(model, trace, account, known=known, note_done=note_done),
        needs=effects_bytes,
    )


def source_effects_of(
    run: Run, trace: Trace, account: Account, spans: tuple[WordSpan, ...]
) -> SourceEffects:
    """Compute what the difference of an account loses when words of the source are left out."""
    return of_prediction(
        "source effects",
        run,
        trace,
        account.step,
        (account.word, account.instead, spans),
        lambda model: run_source_effects(model, trace, account, spans),
        needs=partial(effects_bytes, passes=len(spans) + 1),
    )


def contributions_of(run: Run, trace: Trace) -> Floats:
    """Compute how much of each prediction of a trace comes from each source token, (T, S): ALTI+.

    Raises:
        CheckpointError: if the weights cannot be used.
    """
    weights = weights_of(run, trace.step)

    def compute() -> Floats:
        model = weights.model
        ids = PaddedIds.of([list(trace.source.ids)], [list(trace.target_ids)], model)
        return to_numpy(contributions(model, ids).source[0])

    return cached(
        "contributions",
        (weights.sha256, trace.source.ids, trace.target_ids),
        compute,
        facts=lambda _: {"run": run.name, "step": trace.step},
        needs=contributions_bytes(run.description, len(trace.source), len(trace.predicted)),
    )
