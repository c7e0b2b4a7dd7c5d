"""What switching off each head costs each sentence of the corpus that is measured.

``N`` sentences, ``L`` layers, ``H`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Kind
from headwise.viz_app.measuring.tensor_files import CheckpointRecord

MOST_SENTENCES = 4_096  # the first of a corpus, so that memory is bounded


@dataclass(frozen=True)
class SentenceCosts(CheckpointRecord):
    """What switching off each head costs each sentence of a corpus: a difference of two heads on
    the same sentences has an error of its own, smaller than that of independent ones.
    """

    what = "costs"

    places: Annotated[NDArray[np.int32], "N"]  # in the corpus, from 0, rising
    tokens: Annotated[NDArray[np.int32], "N"]  # how many target tokens each has
    costs: Mapping[Kind, Annotated[NDArray[np.float16], "N L* H*"]]  # nats of the target

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.tokens) or self.tokens.min() < 1:
            raise ValueError("expected at least one sentence, and tokens in each")


read_costs = SentenceCosts.read
"""Reads the costs by sentence of a step from a run's folder; None if there are none."""
