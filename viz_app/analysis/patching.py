"""Patches in words, and how far the approximation by a gradient orders them as exact passes do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import KINDS
from headwise.viz_app.analysis.head_ranking import rank_correlation
from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.records.patching import Patching

PatchMap = Literal["streams", "heads", "sublayers"]
PATCH_MAPS: tuple[PatchMap, ...] = get_args(PatchMap)
_HALF = 0.5
"""Share of B's answer that a place brings back, from which on it is said to decide."""


@dataclass(frozen=True)
class PatchedPair:
    """What patches of a sentence by another do, with the labels that people read."""

    patching: Patching
    stretches: tuple[str, ...]
    """Of the columns of its ``stream_encoder``."""
    words: tuple[str, str]


def first_deciding(shares: NDArray[np.floating]) -> tuple[int, int] | None:
    """Return the place that decides first: of the first row with one that restores half.

    Args:
        shares: restored shares of one stream, (rows, columns), NaN where nothing can be patched.

    Returns:
        Row and column of its largest share; None if no place alone restores half.
    """
    largest = np.nan_to_num(shares, nan=-np.inf)
    rows = np.flatnonzero((largest >= _HALF).any(axis=1))
    return (int(rows[0]), int(largest[rows[0]].argmax())) if rows.size else None


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
        return f"“{token}” ({column + 1}) as {left} of the {stack} leaves it"
    if what == "sublayer":
        return f"{sublayer_label(place[2])} of layer {place[1]} of the {place[0]}"
    kind = next(kind for kind in KINDS if kind == what)
    return f"head {KIND_NAMES[kind]} {'.'.join(place)}"


def row_label(name: str, stretches: Sequence[str], tokens: Sequence[str]) -> str:
    """Return the short label of a patch, for the row of a map; arguments as of ``patch_label``."""
    what, *place = name.split(".")
    if what == "stream":
        token = (stretches if place[0] == "encoder" else tokens)[int(place[2]) - 1]
        return f"{place[0]} {place[1]}: {token}"
    if what == "sublayer":
        written = {"feed_forward": "feed-fwd"}.get(place[2], place[2].rpartition("_")[2])
        return f"{place[0]} {place[1]}: {written}"
    return f"{KIND_NAMES[next(kind for kind in KINDS if kind == what)]} {'.'.join(place)}"


def map_of(name: str) -> PatchMap:
    """Return the map in which a patch, one of ``patch_names``, is drawn."""
    return "streams" if name[:6] == "stream" else "sublayers" if name[:8] == "sublayer" else "heads"


def rank_correlations(exact: Patching, approximate: Patching) -> dict[PatchMap, float]:
    """Return the rank correlation of approximate with exact odds, over the patches of each map.

    Left out are those that change nothing: a patch that puts in what is there already has A's odds
    in both, which would flatter the approximation. NaN where too few are left.
    """
    found = {}
    for shown in PATCH_MAPS:
        pairs = [
            (odds, near)
            for (name, odds), (_, near) in zip(exact.named(), approximate.named(), strict=True)
            if map_of(name) == shown and odds != exact.odds_a
        ]
        found[shown] = rank_correlation(*map(list, zip(*pairs, strict=True))) if pairs else math.nan
    return found
