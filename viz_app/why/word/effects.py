"""Computes what a prediction loses without a part or a source word, and ALTI+."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

import numpy as np
import torch

from headwise.model.estimates import contributions_bytes, effects_bytes, source_effects_bytes
from headwise.model.forced import forced_stream
from headwise.model.interface import Head, Seq2SeqModel, Stack, head_name
from headwise.model.interventions import passes_at_a_time, streams_without
from headwise.model.masks import pad
from headwise.model.readings import Sublayer, difference_of, sublayers
from headwise.model.turning import turn
from headwise.viz_app.core.batches import PaddedIds
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.records.trace import Doubles, Floats, Trace
from headwise.viz_app.trace.attention import doubles, ids_tensor, to_numpy
from headwise.viz_app.why.word.account import WholeEffects, word_at


@of_trace("whole effects", needs=effects_bytes)
@torch.inference_mode()
def run_whole_effects(
    model: Seq2SeqModel,
    trace: Trace,
    at: int,
    instead: int | None,
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int, int], None] = lambda done, of: None,
) -> WholeEffects:
    """Compute what the difference of an account loses without each head and feed-forward.

    What later layers make of a part is in its whole effect.

    Args:
        model, trace, at, instead: as for ``run_account``.
        known: what an earlier call had found that was ended by an exception of ``note_done``; this
            call adds to it, batch by batch.
        note_done: is told how many parts of how many are done.
    """
    stacks: dict[Stack, dict[str, Head | Sublayer]] = {"encoder": {}, "decoder": {}}
    for head in model.description.all_heads():
        stacks["encoder" if head.kind == "encoder_self" else "decoder"][head_name(head)] = head
    for stack, of_stack in stacks.items():
        for sub in sublayers(model, stack):
            if sub.kind is None:
                of_stack[f"feed_forward.{sub.layer + 1}"] = sub
    parts = [part for of_stack in stacks.values() for part in of_stack.values()]
    difference = difference_of(model, word_at(trace, at), instead)
    source, consumed = (
        ids_tensor(model, ids) for ids in (trace.source.ids, trace.consumed.ids[: at + 1])
    )
    known = {} if known is None else known
    missing = [place for place in range(len(parts)) if place not in known]
    size = passes_at_a_time(model.description, source.shape[1], consumed.shape[1])
    with turn(model, trace.turned):
        for start in range(0, len(missing), size):
            places = missing[start : start + size]
            streams = streams_without(model, source, consumed, [parts[place] for place in places])
            values = streams[:, 0, -1].double() @ difference.reading
            known.update(zip(places, (values[-1] - values[:-1]).tolist(), strict=True))
            note_done(len(known), len(parts))
    found = iter([known[place] for place in range(len(parts))])
    return {stack: {name: next(found) for name in names} for stack, names in stacks.items()}


@of_trace("source effects", needs=source_effects_bytes)
@torch.inference_mode()
def run_source_effects(model: Seq2SeqModel, trace: Trace, at: int, instead: int | None) -> Doubles:
    """Compute what the difference of an account loses when each word of the source is left out.

    Arguments are as for ``run_account``.

    Returns:
        (words,); NaN where nothing would be left.

    Raises:
        ValueError: if rows of the trace are pinned, which are of tokens that would then be others.
    """
    if trace.turned.pinned:
        raise ValueError(
            "expected a trace without pinned rows, since rows and keys have other numbers once a "
            "source word is left out; trace the sentence without them (strengths may stay)"
        )
    difference = difference_of(model, word_at(trace, at), instead)
    source, consumed = trace.source.ids, ids_tensor(model, trace.consumed.ids[: at + 1])
    shorter = [[*source[: word.start], *source[word.stop :]] for word in trace.source.words]
    padded = pad([ids for ids in [*shorter, list(source)] if ids])
    values = []
    with turn(model, trace.turned):
        for some in padded.split(passes_at_a_time(model.description, len(source), at + 1)):
            stream = forced_stream(model, some.to(model.device), consumed.expand(len(some), -1))
            values.append(stream[:, -1].double() @ difference.reading)
    value = torch.cat(values)
    found = np.full(len(shorter), np.nan)
    found[[place for place, ids in enumerate(shorter) if ids]] = doubles(value[-1] - value[:-1])
    return found


@of_trace("contributions", needs=contributions_bytes)
@torch.inference_mode()
def run_contributions(model: Seq2SeqModel, trace: Trace) -> Floats:
    """Compute how much of each prediction comes from each source token, (T, S): ALTI+."""
    ids = PaddedIds.of_trace(trace, model)
    return to_numpy(contributions(model, ids).source[0])
