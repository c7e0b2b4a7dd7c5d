"""The mean output of each head over a corpus, which mean ablation puts in place of its output.

Wang et al. (2022) ablate a head by its mean output over a reference distribution; here that is the
corpus on which a run is measured, and the mean is over all positions: the tokens of the sources in
the encoder, the predicted tokens of the references, which are forced, in the decoder. Padding does
not count. The output is that before W_O.

A file ``measures/step-0000000.means.safetensors`` has the means of one checkpoint. Its header says
which, on what they were measured, and the sha256 of all that.

``B`` batch, ``L`` layers, ``H`` heads, ``Q`` queries, ``K`` = d_k.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import KINDS, Description, Kind, Seq2SeqModel, attention_path
from headwise.model.interventions import mean_shapes
from headwise.viz_app.measuring.batches import PaddedIds
from headwise.viz_app.measuring.tensor_files import Header, read_tensors, write_tensors
from headwise.viz_app.records.measures import HeadMeans
from headwise.viz_app.records.trace import Floats

if TYPE_CHECKING:  # pages read the means, and join no processes
    from headwise.model.training.processes import Processes

MEANS_VERSION = 1
"""Version of the format; raised when a name or a meaning changes."""


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


def means_path(folder: Path, step: int) -> Path:
    """Return the path of the means of a checkpoint, in a run's folder."""
    return folder / "measures" / f"step-{step:07d}.means.safetensors"


def write_means(folder: Path, means: HeadMeans) -> None:
    """Write the means of a checkpoint into a run's folder, in place of any that were there.

    Raises:
        CheckpointError: if they cannot be written.
    """
    header = Header(MEANS_VERSION, means.run, means.step, means.sha256, means.corpus)
    tensors: dict[str, Tensor] = {
        kind: torch.from_numpy(np.array(array)) for kind, array in means.means.items()
    }
    write_tensors(means_path(folder, means.step), header, tensors)


def read_means(folder: Path, step: int) -> HeadMeans | None:
    """Read the means of a checkpoint; None if there are none.

    The caller compares their sha256 with that of the weights, and their shapes with the model's.

    Raises:
        CheckpointError: if the file is damaged, foreign or of another version.
    """
    return read_tensors(
        means_path(folder, step), "means", step, _means_of, version=MEANS_VERSION, names=KINDS
    )


def _means_of(header: Header, tensors: dict[str, Tensor]) -> HeadMeans:
    for kind, tensor in tensors.items():
        if tensor.dtype != torch.float32 or tensor.dim() != 3 or not tensor.isfinite().all():
            raise ValueError(f"{kind}: expected finite float32 numbers by layer, head and width")
    return HeadMeans(
        run=header.run,
        step=header.step,
        sha256=header.sha256,
        corpus=header.corpus,
        means={kind: _read_only(tensors[kind]) for kind in KINDS},
    )


def _read_only(tensor: Tensor) -> Floats:
    array: Floats = tensor.numpy()
    array.flags.writeable = False
    return array
