"""What the measures of heads are on resamples of the corpus, for the errors of differences.

A file ``measures/step-0000000.resamples.safetensors`` has those of one checkpoint. Its header says
which, on what they were measured, and the sha256 of all that. ``measuring/sums.py`` draws them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headwise.model.interface import KINDS
from headwise.viz_app.measuring.tensor_files import Header, read_tensors, write_tensors
from headwise.viz_app.records.measures import RESAMPLED, SCORE_MEASURES, Resamples

RESAMPLES_VERSION = 1
"""Version of the format; raised when a name or a meaning changes."""


def resamples_path(folder: Path, step: int) -> Path:
    """Return the path of the resamples of a checkpoint, in a run's folder."""
    return folder / "measures" / f"step-{step:07d}.resamples.safetensors"


def write_resamples(folder: Path, found: Resamples) -> None:
    """Write the resamples of a checkpoint into a run's folder, in place of any that were there.

    Raises:
        CheckpointError: if they cannot be written.
    """
    header = Header(RESAMPLES_VERSION, found.run, found.step, found.sha256, found.corpus)
    tensors: dict[str, Tensor] = {
        kind: torch.from_numpy(np.array(found.deviations[kind])) for kind in KINDS
    }
    write_tensors(resamples_path(folder, found.step), header, tensors)


def read_resamples(folder: Path, step: int) -> Resamples | None:
    """Read the resamples of a checkpoint; None if there are none.

    The caller compares their sha256 with that of the weights, and their shapes with the model's.

    Raises:
        CheckpointError: if the file is damaged, foreign or of another version.
    """
    path = resamples_path(folder, step)
    return read_tensors(
        path, "resamples", step, _resamples_of, version=RESAMPLES_VERSION, names=KINDS
    )


def _resamples_of(header: Header, tensors: dict[str, Tensor]) -> Resamples:
    counts = (len(RESAMPLED), len(RESAMPLED) - len(SCORE_MEASURES))
    for kind, tensor in tensors.items():
        is_table = tensor.dtype == torch.float16 and tensor.dim() == 4
        if not is_table or len(tensor) not in counts or tensor.isinf().any():
            raise ValueError(f"{kind}: expected float16 of {counts[0]} measures of heads")
    if len({tensor.shape[:2] for tensor in tensors.values()}) != 1:
        raise ValueError("expected as many measures and resamples of every kind")
    arrays = {kind: tensors[kind].numpy() for kind in KINDS}
    for array in arrays.values():
        array.flags.writeable = False
    return Resamples(header.run, header.step, header.sha256, header.corpus, arrays)
