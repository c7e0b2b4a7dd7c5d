"""What switching off each head costs each sentence of the corpus that is measured.

``N`` sentences, ``L`` layers, ``H`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import KINDS, Kind
from headwise.viz_app.measuring.tensor_files import CheckpointRecord
from headwise.viz_app.records.measures import CorpusSummary
from headwise.viz_app.records.trace import Floats

MOST_SENTENCES = 4_096
"""Costs are kept of the sentences with a lower place in the corpus, so that memory is bounded."""
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class SentenceCost:
    """The costs of one sentence: kind → (L, H), and its target tokens."""

    tokens: int
    costs: Mapping[Kind, Floats]


@dataclass(frozen=True)
class SentenceCosts(CheckpointRecord):
    """What switching off each head costs each sentence of a corpus.

    With the costs of all heads on the same sentences, a difference of two costs has its own error,
    smaller than that of independent sentences.
    """

    what = "costs"

    places: Annotated[NDArray[np.int32], "N"]
    """The places of the sentences in the corpus, from 0, rising."""
    tokens: Annotated[NDArray[np.int32], "N"]
    """How many target tokens each has."""
    costs: Mapping[Kind, Annotated[NDArray[np.float16], "N L* H*"]]
    """Nats that the whole target loses."""

    def __post_init__(self) -> None:
        """Check that there are sentences, each with tokens."""
        super().__post_init__()
        if not len(self.tokens) or self.tokens.min() < 1:
            raise ValueError("expected at least one sentence, and tokens in each")


read_costs = SentenceCosts.read
"""Reads the costs by sentence of a step from a run's folder; None if there are none."""


def as_table(
    found: Sequence[tuple[int, SentenceCost]], run: str, step: int, sha256: str, of: CorpusSummary
) -> SentenceCosts:
    """Put the costs of sentences, by their places in the corpus, into one record."""
    rows = sorted(found, key=lambda row: row[0])
    costs = {
        kind: np.stack([each.costs[kind] for _, each in rows]).clip(-_LARGEST, _LARGEST)
        for kind in KINDS
    }
    return SentenceCosts(
        run=run,
        step=step,
        sha256=sha256,
        corpus=of,
        places=np.array([place for place, _ in rows], np.int32),
        tokens=np.array([each.tokens for _, each in rows], np.int32),
        costs={kind: array.astype(np.float16) for kind, array in costs.items()},
    )
