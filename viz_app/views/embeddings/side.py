"""The side of the model that the page shows, as a trace has it."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.model.interface import Side
from headwise.viz_app.records.trace import Floats, StackInput, Tokens, Trace


@dataclass(frozen=True)
class TraceSide:
    """A side is the source or the target of a trace, as it enters its stack and goes through it."""

    trace: Trace
    name: Side
    tokens: Tokens
    """The tokens that the stack reads."""
    embedding: StackInput
    stream: Floats
    """The input of the stack and the output of each layer, (L + 1, n, D)."""


def side_of(trace: Trace, name: Side) -> TraceSide:
    """Return the side ``source`` or ``target`` of a trace."""
    if name == "source":
        return TraceSide(trace, name, trace.source, trace.source_embedding, trace.encoder_stream)
    return TraceSide(trace, name, trace.consumed, trace.target_embedding, trace.decoder_stream)
