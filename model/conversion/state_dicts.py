"""Read state dicts of other people, and check the tensors in them."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from headwise.model.files import CheckpointError, read_bytes

_NESTED = ("model_state_dict", "state_dict", "model")
"""Keys under which a training saves the state dict beside other things."""


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file written by ``torch.save``, or of safetensors, as float32.

    Raises:
        CheckpointError: if it cannot be read, would run code, or has other things than tensors of
            finite numbers.
    """
    content = read_bytes(path)
    loaded: Any
    if path.suffix == ".safetensors":
        try:
            loaded = safetensors.torch.load(content)
        except (SafetensorError, ValueError, KeyError) as error:
            raise CheckpointError(f"{path}: truncated, or not safetensors ({error})") from error
    else:
        loaded = _load_without_code(path, content)
    for key in _NESTED:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping) or not loaded:
        raise CheckpointError(
            f"{path}: expected a state dict, got {type(loaded).__name__}; write it by "
            "torch.save(model.state_dict(), FILE)"
        )
    return {str(name): _checked(path, name, value) for name, value in loaded.items()}


def _load_without_code(path: Path, content: bytes) -> Any:
    try:
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes it raise almost anything
        refused = re.search(r"GLOBAL ([\w.]+)", str(error))
        found = f"one with {refused[1]}" if refused else "another or a damaged file"
        raise CheckpointError(
            f"{path}: expected a file with tensors only, got {found}; code in it is not run: write "
            "the file by torch.save(model.state_dict(), FILE), or as safetensors"
        ) from error


def _checked(path: Path, name: object, value: object) -> Tensor:
    if (
        not isinstance(value, Tensor)
        or not value.is_floating_point()
        or value.layout is not torch.strided
    ):
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise CheckpointError(
            f"{path}: {name}: expected a tensor of floating-point numbers, got {got}; leave it out "
            "of the file if the model does not need it"
        )
    if not value.isfinite().all():
        raise CheckpointError(
            f"{path}: {name}: expected finite numbers, got others: the training diverged"
        )
    return value.detach().float()


def check_tensors(
    path: Path, state: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise an error unless a state dict has the tensors of these names and shapes, and no more.

    Raises:
        CheckpointError: the message names up to three tensors.
    """
    if missing := [name for name in shapes if name not in state]:
        listed = ", ".join(f"{name} {shapes[name]}" for name in missing[:3])
        raise CheckpointError(
            f"{path}: expected {len(shapes)} tensors; {len(missing)} are missing: {listed}"
        )
    if spare := [name for name in state if name not in shapes]:
        listed = ", ".join(f"{name} {tuple(state[name].shape)}" for name in spare[:3])
        raise CheckpointError(
            f"{path}: expected {len(shapes)} tensors; {len(spare)} have no place in the model: "
            f"{listed}; positions can only be the sinusoids of the paper, sine and cosine in turn"
        )
    for name, shape in shapes.items():
        if state[name].shape != shape:
            raise CheckpointError(
                f"{path}: {name}: expected shape {shape}, got {tuple(state[name].shape)}"
            )
