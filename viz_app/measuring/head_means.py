"""The mean output of each head over a corpus, which mean ablation puts in place of its output.

Wang et al. (2022) ablate a head by its mean output over a reference distribution; here that is the
corpus on which a run is measured, and the mean is over all positions: the tokens of the sources in
the encoder, the predicted tokens of the references, which are forced, in the decoder. Padding does
not count. The output is that before W_O.

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` = d_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Description, Kind, Seq2SeqModel, attention_path
from headwise.model.interventions import mean_shapes
from headwise.viz_app.measuring.batches import PaddedIds
from headwise.viz_app.measuring.tensor_files import CheckpointRecord
from headwise.viz_app.records.trace import Floats

if TYPE_CHECKING:  # pages read the means, and join no processes
    from headwise.model.training.processes import Processes


@dataclass(frozen=True)
class HeadMeans(CheckpointRecord):
    """The mean output of each head of a checkpoint over the positions of a corpus."""

    what = "means"

    means: Mapping[Kind, Annotated[Floats, "L* H* K*"]]
    """Before W_O."""


class MeanSums:
    """Sums of all heads' outputs over a corpus, and the numbers of their positions."""

    def __init__(self, model: Description, device: torch.device) -> None:
        self._sums = {
            kind: torch.zeros(shape, dtype=torch.float64, device=device)
            for kind, shape in mean_shapes(model).items()
        }
        self._counts = torch.zeros(len(KINDS), dtype=torch.float64, device=device)

    @torch.inference_mode()
    def add(self, model: Seq2SeqModel, ids: PaddedIds) -> None:
        """Run a model on a batch, its targets forced, and add the outputs of its heads."""
        points = {
            kind: [f"{attention_path(kind, layer)}.heads" for layer in range(len(sums))]
            for kind, sums in self._sums.items()
        }
        with capture(model, [point for of_kind in points.values() for point in of_kind]) as seen:
            forced_stream(model, ids.source, ids.target[:, :-1])
        for place, kind in enumerate(KINDS):
            counts = ids.allowed(kind).any(dim=-1)  # (B, Q)
            self._counts[place] += counts.sum()
            for layer, point in enumerate(points[kind]):
                [heads] = seen[point]  # (B, H, Q, K)
                self._sums[kind][layer] += heads.transpose(1, 2)[counts].double().sum(dim=0)

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = {kind: processes.sum(sums) for kind, sums in self._sums.items()}
        self._counts = processes.sum(self._counts)

    def means(self) -> dict[Kind, Floats]:
        """Return the mean output of each head, (L, H, K) for each kind; NaN of no sentence."""
        return {
            kind: (self._sums[kind] / count).float().cpu().numpy()
            for kind, count in zip(KINDS, self._counts, strict=True)
        }
