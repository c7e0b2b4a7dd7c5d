"""Patches in words, and how far the approximation by a gradient orders them as exact passes do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headwise.model.interface import KINDS
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.records.patching import Patching


@dataclass(frozen=True)
class PatchedPair:
    """What patches of a sentence by another do, with the labels that people read."""

    patching: Patching
    stretches: tuple[str, ...]
    """Of the columns of its ``stream_encoder``."""
    words: tuple[str, str]


def sublayer_label(name: str) -> str:
    """Return how people read a sublayer of ``SUBLAYERS``."""
    return next((label for kind, label in KIND_NAMES.items() if kind == name), "Feed-forward")


def patch_label(name: str, stretches: Sequence[str], tokens: Sequence[str]) -> str:
    """Return how people read the name of a patch.

    Args:
        name: one of ``patch_names``.
        stretches: labels of the stretches of A's source.
        tokens: labels of the tokens of the target that are consumed.
    """
    what, *place = name.split(".")
    if what == "stream":
        stack, layer, column = place[0], int(place[1]), int(place[2]) - 1
        token = (stretches if stack == "encoder" else tokens)[column]
        left = f"layer {layer}" if layer else "the embedding"
        return f"what {left} of the {stack} leaves at “{token}”"
    if what == "sublayer":
        return f"{sublayer_label(place[2])} of layer {place[1]} of the {place[0]}"
    kind = next(kind for kind in KINDS if kind == what)
    return f"head {KIND_NAMES[kind]} {'.'.join(place)}"


def compared(exact: Patching, approximate: Patching) -> tuple[list[float], list[float]]:
    """Return the odds of the patches that both have and that change anything, in the same order.

    A patch that puts in what is there already has A's odds in both, which would flatter the
    approximation.
    """
    pairs = [
        (found, near)
        for (_, found), (_, near) in zip(exact.named(), approximate.named(), strict=True)
        if math.isfinite(near) and math.isfinite(found) and found != exact.odds_a
    ]
    return [found for found, _ in pairs], [near for _, near in pairs]
