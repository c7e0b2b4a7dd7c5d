"""Headers of safetensors files, and the weights of one step, ``step-….safetensors`` of a run.

A header is read before any library maps a file or takes memory for it. Weights of ours are stored
as float16 (float32 where they were converted), tied tensors once; nothing is pickled. Their header
has run, step and the sha256 of configuration and tensors. A file that is truncated, altered,
foreign, or leads out of the folder ``within``, raises a ``CheckpointError``.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from headwise.model.budget import why_too_large
from headwise.model.config import FORMAT_VERSION, TransformerConfig, from_dict, to_dict
from headwise.model.files import CheckpointError, open_regular, parse_json, write_bytes
from headwise.model.interface import Origin, Seq2SeqModel
from headwise.model.transformer import Transformer

_MOST_OF_HEADER = 2**20
"""Bytes: some 10,000 tensors. (The library takes 100 MB.)"""


def read_header(
    path: Path, *, within: Path | None = None
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the length of a file's header, what it says of each tensor, and its metadata."""
    with open_regular(path, within=within) as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _MOST_OF_HEADER:
            raise CheckpointError(
                f"{path}: truncated, or not safetensors: expected a header of at most "
                f"{_MOST_OF_HEADER:,} bytes, got {length:,}; restore the file"
            )
        content = file.read(length)
    try:
        tensors = parse_json(content)
        metadata = dict(tensors.pop("__metadata__", {}))
        return length, {n: of for n, of in tensors.items() if n[:2] != "__"}, metadata
    except (ValueError, AttributeError, TypeError) as error:
        raise _damaged(path, f" ({error})") from error


def _damaged(path: Path, why: str = "") -> CheckpointError:
    return CheckpointError(
        f"{path}: truncated, or not safetensors{why}; restore the file or remove it"
    )


def shapes_of(path: Path, *, within: Path | None = None) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a file, by its name."""
    try:
        tensors = read_header(path, within=within)[1]
        return {name: tuple(map(int, tensor["shape"])) for name, tensor in tensors.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f" ({error!r})") from error


def is_whole(path: Path, *, within: Path | None = None) -> bool:
    """Return whether a file is as long as its header says."""
    length, tensors, _ = read_header(path, within=within)
    try:
        ends = [tensor["data_offsets"][1] for tensor in tensors.values()]
        return path.stat().st_size == 8 + length + max(ends, default=0)
    except (OSError, KeyError, TypeError, IndexError):
        return False


def require_whole(path: Path, *, within: Path | None = None) -> None:
    """Raise a CheckpointError if a file is not as long as its header says."""
    if not is_whole(path, within=within):
        raise _damaged(path)


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
    return folder / f"step-{step:07d}.safetensors"


def sha256_of_tensors(file: BinaryIO) -> tuple[str, dict[str, str]]:
    """Return the sha256 of the tensors of a file, and its metadata, which do not count."""
    file.seek(0)
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    metadata = header.pop("__metadata__", {})
    hashed = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    while part := file.read(2**20):
        hashed.update(part)
    return hashed.hexdigest(), metadata


def _written_of(config: TransformerConfig, run: str, step: int) -> dict[str, str]:
    """Return what a header says beside the sha256 of the tensors."""
    return {
        "format_version": str(FORMAT_VERSION),
        "run": run,
        "step": str(step),
        "config_sha256": sha256_of_config(config),
    }


def save_weights(
    folder: Path, model: Transformer, *, run: str, step: int, dtype: torch.dtype = torch.float16
) -> str:
    """Write the weights of a step and return their sha256."""
    tensors = {
        name: parameter.detach().to("cpu", dtype).contiguous()
        for name, parameter in model.named_parameters()  # tied ones once
    }
    sha256, _ = sha256_of_tensors(io.BytesIO(safetensors.torch.save(tensors)))
    metadata = _written_of(model.config, run, step) | {"sha256": sha256}
    write_bytes(weights_path(folder, step), safetensors.torch.save(tensors, metadata))
    return sha256


def header_of(folder: Path, step: int) -> dict[str, str]:
    """Read run, step and hashes from a header, also where the tensors are altered."""
    path = weights_path(folder, step)
    require_whole(path, within=folder)
    return read_header(path, within=folder)[2]


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model, in evaluation mode, which knows the run, the step and the sha256."""

    model: Seq2SeqModel

    @property
    def run(self) -> str:
        return self.model.origin.run

    @property
    def step(self) -> int:
        return self.model.origin.step

    @property
    def sha256(self) -> str:
        return self.model.origin.sha256


def read_weights(
    folder: Path,
    config: TransformerConfig,
    *,
    run: str,
    step: int,
    dtype: torch.dtype = torch.float32,
) -> Checkpoint:
    """Read a step of this configuration and run into a model of this type; verify the hashes."""
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
    expected = _written_of(config, run, step)
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
        raise _damaged(path, f" ({error})") from error
    _fill(model, tensors, path, dtype)
    model.origin = Origin(run, step, sha256)
    return Checkpoint(model.for_inference())


def _require_of(path: Path, metadata: Mapping[str, str], expected: Mapping[str, str]) -> None:
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


def require_finite(path: Path, name: str, tensor: Tensor) -> None:
    """Raise a CheckpointError if a tensor of a file has numbers that are not finite."""
    if not is_finite(tensor):
        raise CheckpointError(
            f"{path}: {name}: expected finite numbers, got others: the training diverged, or "
            "its weights are beyond float16"
        )


def _check_shapes(model: Transformer, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
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
        require_finite(path, name, tensor)
        read[parameter] = nn.Parameter(tensor, requires_grad=False)
    for place, parameter in list(model.named_parameters(remove_duplicate=False)):
        module, _, name = place.rpartition(".")
        setattr(model.get_submodule(module), name, read[parameter])
