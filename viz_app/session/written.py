"""What a head writes, for all pages that name it: the page Heads, and questions of lessons."""

from __future__ import annotations

from headwise.model.interface import Head
from headwise.viz_app.core.written import (
    HeadDictionary,
    TokenValues,
    head_dictionary,
    no_dictionary,
    values_here,
    written_bytes,
)
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import Run, weights_of


def dictionary_of(run: Run, step: int, head: Head, values: TokenValues) -> HeadDictionary:
    """Return what a head of the decoder writes for values of tokens, as ``head_dictionary``."""
    weights = weights_of(run, step)
    of_head = values.values[head.layer, head.head].tobytes()
    ids = values.ids.tobytes(), values.counts.tobytes()
    return cached(
        "dictionary",
        (weights.sha256, run.tokenizers_sha256, head, ids, of_head),
        lambda: head_dictionary(weights.model, run.tokenizers, head, values),
        facts=lambda found: {"run": run.name, "step": step, "tokens": len(found.ids)},
        needs=written_bytes(run.description, len(values.ids)),
    )


def written_here(run: Run, trace: Trace, head: Head) -> HeadDictionary:
    """Return what a head of the decoder writes for each token that it reads in a trace.

    Raises:
        ValueError: if it is a head of the encoder, or what it writes has no words.
    """
    if why := no_dictionary(run.description, head):
        raise ValueError(why)
    return dictionary_of(run, trace.step, head, ask_trace(values_here, run, trace, head.kind))
