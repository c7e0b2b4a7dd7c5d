"""The files with a folder's weights: which there are, if a configuration fits, why none is read.

A few bytes of a configuration can describe a model of any size. Its weights are in files, whose
headers say how many there are: what does not fit is refused before it is built, or filled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from headwise.model.files import CheckpointError, read_json
from headwise.model.pretrained.adapters import WEIGHTS as ADAPTER_WEIGHTS
from headwise.model.pretrained.adapters import is_adapter
from headwise.model.weights import is_whole, shapes_of

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
NO_WEIGHTS = "no complete model.safetensors is there; restore the files"
_WRAPPERS = re.compile(
    r"(^|\.)(?:(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.)+"
)
"""Parts of names that are of modules around those of the model."""
_UNREAD = {
    "adapter_model*.bin": "pickled weights ({}) are not read, since a pickle can run any program; "
    "save the adapter as safetensors, as PEFT does by itself since its version 0.8",
    "zero_to_fp32.py": "the weights are shards of DeepSpeed's ZeRO; make them whole, in that "
    "folder: python {} . . --safe_serialization",
    "global_step*/*_model_states.pt": "the weights are shards of DeepSpeed ({}); make them whole "
    "with its zero_to_fp32.py: python zero_to_fp32.py . . --safe_serialization",
    "pytorch_model_fsdp_*/*.distcp": "the weights are shards of FSDP ({}); make them whole, in "
    "that folder: accelerate merge-weights {folder} .",
    "*.distcp": "the weights are shards of FSDP ({}); make them whole, in the folder above: "
    "accelerate merge-weights . ..",
    "pytorch_model*.bin": "pickled weights ({}) are not read, since a pickle can run any program; "
    "where you trust them, convert them once, in that folder: python -c "
    '"from transformers import AutoModelForSeq2SeqLM as M; '
    "M.from_pretrained('.').save_pretrained('.')\"",
} | dict.fromkeys(
    ("*.msgpack", "tf_model.h5", "*.ckpt", "*.gguf", "*.onnx"),
    "weights in this format ({}) are not read; save the model with save_pretrained of transformers",
)
"""Files by which weights that are not read are known, the surest first, and what would help."""


def weights_files(folder: Path) -> list[Path]:
    """List the weights files of a checkpoint, or of an adapter alone; none if one is missing."""
    if is_adapter(folder):
        return [folder / ADAPTER_WEIGHTS] if (folder / ADAPTER_WEIGHTS).is_file() else []
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if not (folder / INDEX).is_file():
        return []
    try:
        names = set(read_json(folder / INDEX)["weight_map"].values())
        files = [folder / Path(name).name for name in sorted(names)]
    except (CheckpointError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return files if all(file.is_file() for file in files) else []


def are_whole(files: Iterable[Path]) -> bool:
    """Return whether files of safetensors are as long as their headers say."""
    try:
        return all(map(is_whole, files))
    except CheckpointError:
        return False


def shapes_in(files: Iterable[Path]) -> dict[tuple[Path, str], tuple[int, ...]]:
    """Return the shape of each tensor of some files, by file and name, as their headers say."""
    return {(file, name): shape for file in files for name, shape in shapes_of(file).items()}


def tensors_in(files: Iterable[Path], expected: Collection[str]) -> dict[str, tuple[Path, str]]:
    """Return the file of each tensor of a model and its name there, without wrappers.

    These are what ``torch.compile`` and several GPUs put into names, or before all of them. A file
    that cannot be read is a SafetensorError or an OSError.
    """
    places: dict[str, tuple[Path, str]] = {}
    for path in files:
        with safe_open(path, "pt") as file:
            names = list(file.keys())
        places |= {_WRAPPERS.sub(r"\1", name): (path, name) for name in names}
    one = next(iter(places), "")
    starts = [one[: dot.end()] for dot in re.finditer(r"\.", one)]
    common = ["", *(start for start in starts if all(name.startswith(start) for name in places))]
    prefix = max(common, key=lambda start: sum(name[len(start) :] in expected for name in places))
    return {name[len(prefix) :]: place for name, place in places.items()}


def why_not_read(folder: Path) -> str | None:
    """Say what the weights of a folder are, if they are none that are read, and what would help."""
    for pattern, told in _UNREAD.items():
        for path in sorted(folder.glob(pattern)):
            return told.format(path.relative_to(folder), folder=path.parent.name)
    return None


_WIDTHS = ("d_model", "d_ff", "hidden_size", "intermediate_size", "ffn_dim")
"""How names of numbers end that are the length of an axis of some tensor. (Not ``vocab_size``: of
T5Gemma, the whole has one that no part uses.)"""
_LEAST_OF_LAYER = 6
"""Tensors that each layer of any family has, and more."""
_MOST_COMPUTED = 4 * 2**20
"""Numbers that a model may have without a file: tables of positions, which it computes."""


def check_sizes(values: Mapping[str, Any], files: Sequence[Path], path: Path) -> None:
    """Refuse, by a CheckpointError, a configuration of larger sizes than its weights can have."""
    try:
        shapes = shapes_in(files).values()
    except CheckpointError:
        return  # loading them says why
    longest = max((length for shape in shapes for length in shape), default=0)
    for name, value in _sizes(values):
        most = len(shapes) // _LEAST_OF_LAYER if name.endswith("layers") else longest
        if value > most:
            raise CheckpointError(
                f"{path}: {name}: expected at most {most:,} by the weights beside it, got "
                f"{value:,}; are these the weights of this config.json?"
            )
    for of_stack in (values, values.get("encoder"), values.get("decoder")):
        given = of_stack if isinstance(of_stack, Mapping) else {}
        positions, width = given.get("max_position_embeddings"), given.get("d_model")
        if type(positions) is int and type(width) is int:
            most = max(sum(map(math.prod, shapes)), _MOST_COMPUTED) // width
            if positions > most:
                raise CheckpointError(
                    f"{path}: max_position_embeddings: expected at most {most:,} of a model of "
                    f"this size, got {positions:,}"
                )


def _sizes(values: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and name != "vision_config":
            yield from _sizes(value)
        elif type(value) is int and name.endswith((*_WIDTHS, "layers")):
            yield name, value


def check_shapes(
    expected: Mapping[str, Sequence[int]], numbers: int, files: Sequence[Path]
) -> None:
    """Refuse, by a CheckpointError, files of other shapes, or of by far too few ``numbers``."""
    try:
        places, shapes = tensors_in(files, expected.keys()), shapes_in(files)
    except (CheckpointError, SafetensorError, OSError, ValueError):
        return  # loading them says why
    odd = [
        f"{name} (expected {tuple(expected[name])}, got {shapes[place]})"
        for name, place in sorted(places.items())
        if name in expected and tuple(expected[name]) != shapes[place]
    ]
    if odd:
        raise CheckpointError(
            f"{files[0]}: misshapen tensors: {', '.join(odd[:3])}; are these the weights of this "
            "config.json?"
        )
    there = sum(map(math.prod, shapes.values()))
    if numbers > 2 * there + _MOST_COMPUTED:
        raise CheckpointError(
            f"{files[0]}: the model of config.json has {numbers:,} weights, these files {there:,}; "
            "are these the weights of this config.json?"
        )
