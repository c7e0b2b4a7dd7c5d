"""What switching off each head costs each sentence of the corpus that is measured.

A file ``measures/step-0000000.costs.safetensors`` has the costs of one checkpoint. Its header says
which, on what they were measured, and the sha256 of all that. Costs have 11 bits, as float16 has.

``N`` sentences, ``L`` layers, ``H`` heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headwise.model.interface import KINDS, Kind
from headwise.viz_app.measuring.tensor_files import Header, read_tensors, write_tensors
from headwise.viz_app.records.measures import CorpusSummary, SentenceCosts
from headwise.viz_app.records.trace import Floats

COSTS_VERSION = 1
"""Version of the format; raised when a name or a meaning changes."""
MOST_SENTENCES = 4_096
"""Costs are kept of the sentences with a lower place in the corpus, so that memory is bounded."""
_NAMES = ("places", "tokens", *KINDS)
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class SentenceCost:
    """The costs of one sentence: kind → (L, H), and its target tokens."""

    tokens: int
    costs: Mapping[Kind, Floats]


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


def costs_path(folder: Path, step: int) -> Path:
    """Return the path of the costs by sentence of a checkpoint, in a run's folder."""
    return folder / "measures" / f"step-{step:07d}.costs.safetensors"


def write_costs(folder: Path, costs: SentenceCosts) -> None:
    """Write the costs of a checkpoint into a run's folder, in place of any that were there.

    Raises:
        CheckpointError: if they cannot be written.
    """
    header = Header(COSTS_VERSION, costs.run, costs.step, costs.sha256, costs.corpus)
    arrays: dict[str, NDArray[Any]] = {"places": costs.places, "tokens": costs.tokens}
    arrays |= {str(kind): array for kind, array in costs.costs.items()}
    tensors = {name: torch.from_numpy(np.array(arrays[name])) for name in _NAMES}
    write_tensors(costs_path(folder, costs.step), header, tensors)


def read_costs(folder: Path, step: int) -> SentenceCosts | None:
    """Read the costs by sentence of a checkpoint; None if there are none.

    The caller compares their sha256 with that of the weights, and their shapes with the model's.

    Raises:
        CheckpointError: if the file is damaged, foreign or of another version.
    """
    return read_tensors(
        costs_path(folder, step), "costs", step, _costs_of, version=COSTS_VERSION, names=_NAMES
    )


def _costs_of(header: Header, tensors: dict[str, Tensor]) -> SentenceCosts:
    count = len(tensors["places"])
    for name, tensor in tensors.items():
        wanted = (torch.float16, 3) if name in KINDS else (torch.int32, 1)
        if (tensor.dtype, tensor.dim()) != wanted or not count == len(tensor) > 0:
            raise ValueError(f"{name}: expected {wanted[0]} of {count} sentences, at least 1")
    if (
        not all(tensors[kind].isfinite().all() for kind in KINDS)
        or not tensors["tokens"].gt(0).all()
    ):
        raise ValueError("expected finite costs, and sentences with tokens")
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    for array in arrays.values():
        array.flags.writeable = False
    return SentenceCosts(
        run=header.run,
        step=header.step,
        sha256=header.sha256,
        corpus=header.corpus,
        places=arrays["places"],
        tokens=arrays["tokens"],
        costs={kind: arrays[kind] for kind in KINDS},
    )
