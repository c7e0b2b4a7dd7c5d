"""What the measures of heads are on resamples of the corpus, for the errors of differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind
from headwise.viz_app.measuring.head_measures import RESAMPLED, SCORE_MEASURES
from headwise.viz_app.measuring.tensor_files import CheckpointRecord


@dataclass(frozen=True)
class Resamples(CheckpointRecord):
    """What each measure of each head is on resamples of a corpus; ``sums.py`` draws them.
    The resamples are the same for all heads and checkpoints, so that the spread of a difference
    over them is the error of a difference on the same sentences (the paired bootstrap)."""

    what = "resamples"
    may_be_nan = True

    deviations: Mapping[Kind, Annotated[NDArray[np.float16], "measure resample L* H*"]]
    """Of ``names``: the value on a resample less the mean of all resamples; NaN where a measure has
    no value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        counts = (len(RESAMPLED), len(RESAMPLED) - len(SCORE_MEASURES))
        if len(self.deviations["cross"]) not in counts:
            raise ValueError(f"expected resamples of {counts[0]} measures of heads")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the measures that were resampled, those of ``RESAMPLED`` or its first ones."""
        return RESAMPLED[: len(self.deviations["cross"])]

    def of(self, name: str, head: Head) -> NDArray[np.float64]:
        """Return the deviations of one measure of one head, (resamples,)."""
        of_kind = self.deviations[head.kind][RESAMPLED.index(name), :, head.layer, head.head]
        return of_kind.astype(np.float64)
