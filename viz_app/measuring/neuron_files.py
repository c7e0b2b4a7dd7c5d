"""The strongest sentences of neurons on disk: ``measures/neurons-0000000.safetensors``.

A file of its own for a checkpoint, beside that of its measures. Its tensors are, for each stack,
sentence, position and activation, (layers, d_ff, examples); all else is JSON in its header, under
``about``, with the sha256 of the tensors.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import orjson
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from headwise.model.files import CheckpointError, make_folder, read_bytes, write_bytes
from headwise.model.interface import Stack
from headwise.model.validation import validate_json
from headwise.model.weights import sha256_of_tensors
from headwise.viz_app.measuring.tensor_files import MOST_OF_TENSORS
from headwise.viz_app.records.measures import (
    CorpusSummary,
    Sentence,
    StrongestPositions,
    StrongestSentences,
)

_VERSION = 1
_SIDES = {"sentence": np.int64, "position": np.int64, "activation": np.float32}


@dataclass(frozen=True)
class _About:
    """What the header has under ``about``."""

    format_version: int
    run: str
    step: int
    sha256: str
    corpus: CorpusSummary
    sentences: list[tuple[str, str]]  # source and reference
    tensors_sha256: str


def neurons_path(folder: Path, step: int) -> Path:
    """Return the path of the strongest sentences of a checkpoint, in a run's folder."""
    return folder / "measures" / f"neurons-{step:07d}.safetensors"


def write_neurons(folder: Path, found: StrongestSentences) -> None:
    """Write the strongest sentences of a checkpoint into a run's folder, in place of earlier ones.
    CheckpointError if they cannot be written."""
    tensors = {
        f"{stack}.{side}": _small(array)
        for stack, places in found.stacks.items()
        for side, array in vars(places).items()
    }
    about = _About(
        format_version=_VERSION,
        run=found.run,
        step=found.step,
        sha256=found.sha256,
        corpus=found.corpus,
        sentences=[(each.source, each.reference) for each in found.sentences],
        tensors_sha256=sha256_of_tensors(io.BytesIO(safetensors.numpy.save(tensors)))[0],
    )
    path = neurons_path(folder, found.step)
    make_folder(path.parent)
    header = {"about": orjson.dumps(about).decode()}
    write_bytes(path, safetensors.numpy.save(tensors, header))


def _small(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return an array in the shortest type that holds its numbers; they have 11 bits at most."""
    if array.dtype.kind == "f":
        fits = np.abs(array).max(initial=0) <= np.finfo(np.float16).max
        return array.astype(np.float16 if fits else np.float32, order="C")
    return array.astype(np.min_scalar_type(int(array.max(initial=0))), order="C")


def read_neurons(folder: Path, step: int) -> StrongestSentences:
    """Read the strongest sentences of a checkpoint; the caller compares their sha256.
    CheckpointError if the file is missing, damaged, foreign or of another version."""
    path = neurons_path(folder, step)
    content = read_bytes(path, most=MOST_OF_TENSORS)
    try:
        tensors = safetensors.numpy.load(content)
        sha256, metadata = sha256_of_tensors(io.BytesIO(content))
        about = validate_json(_About, metadata["about"])
        if (about.format_version, about.step) != (_VERSION, step):
            raise ValueError(
                f"expected format version {_VERSION} and step {step}, got {about.format_version} "
                f"and {about.step}"
            )
        if about.tensors_sha256 != sha256:
            raise ValueError("its numbers were altered")
        stacks = {s: _positions(s, tensors, len(about.sentences)) for s in get_args(Stack)}
    except (ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: not the strongest sentences of step {step:,}, or damaged ({error}); measure "
            "them again"
        ) from error
    return StrongestSentences(
        run=about.run,
        step=step,
        sha256=about.sha256,
        corpus=about.corpus,
        sentences=tuple(Sentence(*texts) for texts in about.sentences),
        stacks=stacks,
    )


def _positions(
    stack: Stack, tensors: Mapping[str, NDArray[Any]], sentences: int
) -> StrongestPositions:
    arrays = {side: tensors[f"{stack}.{side}"].astype(dtype) for side, dtype in _SIDES.items()}
    shapes = [array.shape for array in arrays.values()]
    if len({*shapes}) > 1 or len(shapes[0]) != 3 or not np.isfinite(arrays["activation"]).all():
        raise ValueError(f"expected finite numbers of layers, d_ff and examples, got {shapes}")
    if not set(np.unique(arrays["sentence"])) <= set(range(sentences)):
        raise ValueError(f"expected places in {sentences} sentences, got one in another")
    for array in arrays.values():
        array.flags.writeable = False
    return StrongestPositions(**arrays)
