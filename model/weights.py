"""The weights of one step, ``step-….safetensors`` in a run's folder.

Weights are stored as float16 (float32 where they were converted), tied tensors once; nothing is
pickled. The header has run, step and the sha256 of configuration and tensors, so that a truncated,
altered or foreign file is detected, which is a ``CheckpointError``.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from headwise.model.budget import why_too_large
from headwise.model.config import TransformerConfig, from_dict, to_dict
from headwise.model.files import CheckpointError, open_regular, write_bytes
from headwise.model.headers import read_header, require_whole, shapes_of
from headwise.model.interface import Origin, Seq2SeqModel
from headwise.model.run_info import FORMAT_VERSION
from headwise.model.transformer import Transformer

_MOST_OF_HEADER = 2**20
"""Bytes."""
_WEIGHTS_NAME = re.compile(r"step-(\d{7})\.safetensors")


def sha256_of_config(config: TransformerConfig) -> str:
    """Return the sha256 of a configuration, as the headers of weights files have it."""
    values = to_dict(from_dict(TransformerConfig, to_dict(config)))  # 0 is read as 0.0
    if config.n_encoder_layers == config.n_decoder_layers:  # earlier files have one name for both
        values["n_layers"] = values.pop("n_encoder_layers")
        del values["n_decoder_layers"]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def steps_of(folder: Path) -> list[int]:
    """Return the steps of the weights files in a run's folder, in order."""
    matches = (_WEIGHTS_NAME.fullmatch(path.name) for path in folder.glob("step-*.safetensors"))
    return sorted(int(match[1]) for match in matches if match)


def weights_path(folder: Path, step: int) -> Path:
    """Return the path of the weights file of a step."""
    return folder / f"step-{step:07d}.safetensors"


def sha256_of_tensors(file: BinaryIO) -> tuple[str, dict[str, str]]:
    """Return the sha256 of the tensors of a safetensors file, and its metadata, which do not count.

    The file is read from its beginning to its end, and never as a whole in memory.
    """
    file.seek(0)
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    metadata = header.pop("__metadata__", {})
    hashed = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    while part := file.read(2**20):
        hashed.update(part)
    return hashed.hexdigest(), metadata


def save_weights(
    folder: Path, model: Transformer, *, run: str, step: int, dtype: torch.dtype = torch.float16
) -> str:
    """Write the weights of a step and return their sha256."""
    tensors = {
        name: parameter.detach().to("cpu", dtype).contiguous()
        for name, parameter in model.named_parameters()  # tied ones once
    }
    sha256, _ = sha256_of_tensors(io.BytesIO(safetensors.torch.save(tensors)))
    metadata = {
        "format_version": str(FORMAT_VERSION),
        "run": run,
        "step": str(step),
        "config_sha256": sha256_of_config(model.config),
        "sha256": sha256,
    }
    write_bytes(weights_path(folder, step), safetensors.torch.save(tensors, metadata))
    return sha256


def header_of(folder: Path, step: int) -> dict[str, str]:
    """Read the header of a weights file: run, step and the sha256 of configuration and tensors.

    It is read also where the tensors are altered, which ``read_weights`` finds out.
    """
    path = weights_path(folder, step)
    require_whole(path, within=folder)
    return read_header(path, within=folder)[2]


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model, in evaluation mode, which knows the run, the step and the sha256."""

    model: Seq2SeqModel

    @property
    def run(self) -> str:
        """Return the name of the run."""
        return self.model.origin.run

    @property
    def step(self) -> int:
        """Return the step of the weights."""
        return self.model.origin.step

    @property
    def sha256(self) -> str:
        """Return the sha256 of the weights."""
        return self.model.origin.sha256


def read_weights(
    folder: Path,
    config: TransformerConfig,
    *,
    run: str,
    step: int,
    dtype: torch.dtype = torch.float32,
) -> Checkpoint:
    """Read the weights of a step into a model, in this type, and verify their hashes.

    The file must be one of this configuration, run and step.
    """
    path = weights_path(folder, step)
    if not path.exists():
        known = ", ".join(f"{s:,}" for s in steps_of(folder)) or "none"
        raise CheckpointError(f"{path}: no weights of step {step:,}; there are those of: {known}")
    metadata = header_of(folder, step)
    size, least = path.stat().st_size, _least_bytes(config)
    if size < least:
        raise CheckpointError(
            f"{path}: expected at least {least:,} bytes of the model in run.json, got {size:,}; "
            "restore the file or remove it"
        )
    with torch.device("meta"):  # initialising weights that are then replaced took half of the time
        model = Transformer(config)
    expected = {
        "format_version": str(FORMAT_VERSION),
        "run": run,
        "step": str(step),
        "config_sha256": sha256_of_config(config),
    }
    _require_of(path, metadata, expected)
    _check_shapes(model, path, shapes_of(path, within=folder))
    if told := why_too_large(2 * size + size_of(model, dtype)):
        raise CheckpointError(f"{path}: {told}")
    with open_regular(path, within=folder, most=size_of(model) + _MOST_OF_HEADER) as file:
        content = file.read()
    sha256, metadata = sha256_of_tensors(io.BytesIO(content))
    _require_of(path, metadata, expected | {"sha256": sha256})
    try:
        tensors = safetensors.torch.load(content)
    except (SafetensorError, ValueError, KeyError) as error:  # KeyError: a type that torch has not
        raise CheckpointError(
            f"{path}: truncated, or not safetensors ({error}); restore the file or remove it"
        ) from error
    _fill(model, tensors, path, dtype)
    model.origin = Origin(run, step, sha256)
    return Checkpoint(model.for_inference())


def _require_of(path: Path, metadata: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise a CheckpointError if the header of a file does not say what it should."""
    for key, value in expected.items():
        if metadata.get(key) != value:
            raise CheckpointError(
                f"{path}: altered or foreign: its {key} should be {value}, the header says "
                f"{metadata.get(key)}; restore the file or remove it"
            )


def _least_bytes(config: TransformerConfig) -> int:
    """Return the fewest bytes of a weights file: float16, and 16 tensors a layer in its header."""
    layers = config.n_encoder_layers + config.n_decoder_layers
    widths = 4 * config.n_heads * config.head_width + 2 * config.d_ff
    return layers * (2 * widths * config.d_model + 16 * 60)


def size_of(model: nn.Module, dtype: torch.dtype = torch.float32) -> int:
    """Return the bytes of the weights of a model in a type, tied ones once."""
    return dtype.itemsize * sum(parameter.numel() for parameter in model.parameters())


def is_finite(tensor: Tensor) -> bool:
    """Return whether all numbers of a tensor are finite: if their sum is, which takes an eighth."""
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _check_shapes(model: Transformer, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise a CheckpointError if a file has not the tensors of a model."""
    parameters = dict(model.named_parameters())
    if odd := sorted(set(parameters) ^ set(shapes)):
        raise CheckpointError(
            f"{path}: expected {len(parameters)} tensors, got {len(shapes)}; they differ in "
            f"{', '.join(odd[:3])} (a tied tensor is stored once); restore the file or remove it"
        )
    for name, parameter in parameters.items():
        if parameter.shape != shapes[name]:
            raise CheckpointError(
                f"{path}: {name}: expected shape {tuple(parameter.shape)}, got {shapes[name]}; "
                "restore the file or remove it"
            )


def _fill(
    model: Transformer, tensors: Mapping[str, Tensor], path: Path, dtype: torch.dtype
) -> None:
    """Set the parameters of a model to these tensors, of this type and without gradients."""
    read: dict[nn.Parameter, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        tensor = tensors[name].to(dtype)
        if not is_finite(tensor):
            raise CheckpointError(
                f"{path}: {name}: expected finite numbers, got others: the training diverged, or "
                "its weights are beyond float16"
            )
        read[parameter] = nn.Parameter(tensor, requires_grad=False)
    for place, parameter in list(model.named_parameters(remove_duplicate=False)):
        module, _, name = place.rpartition(".")
        setattr(model.get_submodule(module), name, read[parameter])
