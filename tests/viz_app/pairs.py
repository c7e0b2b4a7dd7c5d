"""Accuracy on pairs as if a run of two layers of three heads had been measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headwise.model.interface import KINDS
from headwise.viz_app.records.pairs import ContrastivePair, MeasuredPairs, PairScores

PAIRS = (
    ContrastivePair("The old dog.", "El perro viejo.", "El perro vieja.", "gender"),
    ContrastivePair("The old cat.", "La gata vieja.", "La gata viejo.", "gender"),
    ContrastivePair("He does not see.", "No ve.", "Ve <b>.", "negation"),
    ContrastivePair("He sees.", "Ve.", "No ve.", "negation"),
)
MARGINS = {0: (-1.0, 1.0, -2.0, 0.0), 20: (1.5, 0.5, -0.25, 2.0)}
"""By how many nats the right target is likelier: right in 1, tied in 1; then right in 3 of 4."""


def made_up_pairs(sha256: Mapping[int, str] | str = "5ha", **changes: Any) -> MeasuredPairs:
    """Make the accuracy of two checkpoints, 0 and 20; without cross 2.3 no pair is right at 20."""
    checkpoints = {
        step: PairScores(
            step,
            sha256 if isinstance(sha256, str) else sha256[step],
            np.array([-7.5 + margin for margin in margins]),
            np.full(len(margins), -7.5),
        )
        for step, margins in MARGINS.items()
    }
    outcomes = np.array([1, 1, 0, 1], np.float32)
    without = {kind: np.tile(outcomes, (2, 3, 1)) for kind in KINDS}
    without["cross"][1, 2] = 0
    without["encoder_self"][0, 0] = [1, 0.5, 0, 1]
    measured = MeasuredPairs("tiny", "four.jsonl", PAIRS, checkpoints, 20, without)
    return replace(measured, **changes)
