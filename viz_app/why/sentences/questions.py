"""Asks which part of a second sentence, put into the first, brings the second one's answer back.

All raise ValueError if there is no second sentence, or both have the same odds of the two words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from headwise.viz_app.lessons.question import Asked, Choice, Place, Question, limited

if TYPE_CHECKING:
    from headwise.viz_app.why.sentences.patching import PatchedPair

_NEAR = 0.005
"""Shares that are as near to the largest are right, too: they are written with two digits."""


def restoring_token(asked: Asked, *, layer: Literal["first", "last"] = "first") -> Question:
    """Ask at which source token a stream of the encoder restores most.

    That is what its first layer reads, or what its last one leaves.
    """
    pair = asked.patched_pair()
    row = 0 if layer == "first" else len(pair.patching.stream_encoder) - 1
    shares = pair.patching.restored(pair.patching.stream_encoder)[row]
    return _most(pair, dict(zip(pair.stretches, shares.tolist(), strict=True)))


def restoring_sublayer(asked: Asked) -> Question:
    """Ask which sublayer of the decoder restores most."""
    return _most_named(asked.patched_pair(), "sublayer.decoder.")


def restoring_head(asked: Asked) -> Question:
    """Ask which head of cross-attention restores most."""
    return _most_named(asked.patched_pair(), "cross.")


def _most_named(pair: PatchedPair, begins: str) -> Question:
    odds = {name: odds for name, odds in pair.patching.named() if name.startswith(begins)}
    shares = pair.patching.restored(np.array(list(odds.values())))
    labels = map(pair.label, odds)
    return _most(pair, dict(zip(labels, shares.tolist(), strict=True)))


def _most(pair: PatchedPair, shares: Mapping[str, float]) -> Question:
    """Ask for the largest of some shares; what has none is left out."""
    known = {label: share for label, share in shares.items() if np.isfinite(share)}
    most = max(known.values())
    patching = pair.patching
    choices = [
        Choice(
            (n,),
            label,
            f"It restores {share:+z.2f} of the way from {patching.odds_a:+.2f} to "
            f"{patching.odds_b:+.2f}; most is {most:+.2f}.",
        )
        for n, (label, share) in enumerate(known.items())
    ]
    right: list[Place] = [
        choice.place
        for choice, share in zip(choices, known.values(), strict=True)
        if share > most - _NEAR
    ]
    kept = limited(choices, right, list(known.values()))
    return Question(
        tuple(kept), frozenset(right), {"first": pair.words[0], "second": pair.words[1]}
    )
