"""Sinks of heads in one sentence: tokens that take most of a head's weight."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.model.interface import Head


@dataclass(frozen=True)
class Sink:
    """A head's weight on some keys is nearer to all of it than to what an even head has there.

    Means are over the rows that have several keys.
    """

    head: Head
    keys: tuple[int, ...]
    """The places of its tokens: one, or all special tokens and punctuation marks together."""
    share: float
    """Mean weight of a row on them together."""
    even: float
    """What an even head has there."""
    norm: float
    """Mean length ‖v W_O‖ of the values there."""
    norm_elsewhere: float
    """The same over all other keys."""


@dataclass(frozen=True)
class SinkEffects:
    """What a head does with its sink is told by passes without it, and by what the head brings.

    Costs are what the log-probability of the whole target loses, in nats.
    """

    values_zero: float
    """Cost of zero in place of the values at the sink."""
    removed: float
    """Cost of removing the sink's keys, so that the rest of each row takes their weight."""
    elsewhere_zero: float
    """Cost of zero in place of the values at all other keys."""
    rank: float
    """Stable rank of what the head brings to its rows, which is 1 where it brings to all the same
    but for a factor: ‖A‖²_F / ‖A‖²_2 (Rudelson and Vershynin 2007)."""
    even_rank: float
    """That of an even head with the same values."""
