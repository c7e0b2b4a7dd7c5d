"""What a prediction needs besides its account: passes without a part or a word, and ALTI+."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence

import torch

from headwise.model.estimates import contributions_bytes
from headwise.model.interface import Head, Seq2SeqModel, Stack, WordSpan, head_name
from headwise.model.interventions import effects_of_parts, effects_of_sources
from headwise.model.readings import Sublayer, difference_of, sublayers
from headwise.model.turning import turn
from headwise.viz_app.core.computed import of_trace
from headwise.viz_app.measuring.batches import PaddedIds
from headwise.viz_app.measuring.contributions import contributions
from headwise.viz_app.records.trace import Doubles, Floats, Trace
from headwise.viz_app.trace.attention import doubles, ids_tensor, to_numpy
from headwise.viz_app.why.word.account import Account, WholeEffects


def run_whole_effects(
    model: Seq2SeqModel,
    trace: Trace,
    account: Account,
    *,
    known: MutableMapping[int, float] | None = None,
    note_done: Callable[[int, int], None] = lambda done, of: None,
) -> WholeEffects:
    """Compute what the difference of an account loses without each head and feed-forward.

    ``note_done`` is told how many parts of how many are done; ``known`` has what an earlier call
    had found that was ended by an exception of it, and is added to.
    """
    stacks: dict[Stack, dict[str, Head | Sublayer]] = {"encoder": {}, "decoder": {}}
    for head in model.description.all_heads():
        stacks["encoder" if head.kind == "encoder_self" else "decoder"][head_name(head)] = head
    for stack, parts in stacks.items():
        for sub in sublayers(model, stack):
            if sub.kind is None:
                parts[f"feed_forward.{sub.layer + 1}"] = sub
    everything = [part for parts in stacks.values() for part in parts.values()]
    with turn(model, trace.turned):
        effects = effects_of_parts(
            model,
            ids_tensor(model, trace.source.ids),
            ids_tensor(model, trace.consumed.ids[: account.step + 1]),
            difference_of(model, account.word, account.instead),
            everything,
            known=known,
            note_done=lambda done: note_done(done, len(everything)),
        )
    found = iter(effects.tolist())
    return {stack: {name: next(found) for name in parts} for stack, parts in stacks.items()}


def run_source_effects(
    model: Seq2SeqModel, trace: Trace, account: Account, spans: Sequence[WordSpan]
) -> Doubles:
    """Compute what the difference of an account loses when source tokens are left out.

    Returns:
        (spans,), for the tokens that are left out together; NaN where nothing would be left.

    Raises:
        ValueError: if rows of the trace are pinned, which are of tokens that would then be others.
    """
    if trace.turned.pinned:
        raise ValueError(
            "expected a trace without pinned rows, since rows and keys have other numbers once a "
            "source word is left out; trace the sentence without them (strengths may stay)"
        )
    with turn(model, trace.turned):
        return doubles(
            effects_of_sources(
                model,
                trace.source.ids,
                ids_tensor(model, trace.consumed.ids[: account.step + 1]),
                difference_of(model, account.word, account.instead),
                spans,
            )
        )


@of_trace("contributions", needs=contributions_bytes)
@torch.inference_mode()
def run_contributions(model: Seq2SeqModel, trace: Trace) -> Floats:
    """Compute how much of each prediction comes from each source token, (T, S): ALTI+."""
    ids = PaddedIds.of([list(trace.source.ids)], [list(trace.target_ids)], model)
    return to_numpy(contributions(model, ids).source[0])
