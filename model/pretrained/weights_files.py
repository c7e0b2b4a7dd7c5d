"""The files with the weights of a folder: which there are, and what those are that are not read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from pathlib import Path

from safetensors import safe_open

from headwise.model.files import CheckpointError, read_json
from headwise.model.headers import is_whole, shapes_of
from headwise.model.pretrained.adapters import WEIGHTS as ADAPTER_WEIGHTS
from headwise.model.pretrained.adapters import is_adapter

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
    """List the weights files of a checkpoint; none where one of them is missing.

    Those of an adapter are its own, without those of its base.
    """
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
    return all(map(_is_whole, files))


def _is_whole(file: Path) -> bool:
    try:
        return is_whole(file)
    except CheckpointError:
        return False


def shapes_in(files: Iterable[Path]) -> dict[tuple[Path, str], tuple[int, ...]]:
    """Return the shape of each tensor of some files, by file and name, as their headers say.

    Raises:
        CheckpointError: if a header cannot be read.
    """
    return {(file, name): shape for file in files for name, shape in shapes_of(file).items()}


def tensors_in(files: Iterable[Path], expected: Collection[str]) -> dict[str, tuple[Path, str]]:
    """Return which file has each tensor of a model, and under which name there.

    Names are those without what ``torch.compile`` and wrappers for several GPUs put into them, or
    before all of them, such as ``module.`` or ``_orig_mod.``; ``expected`` are those of the model.

    Raises:
        SafetensorError, OSError: if a file cannot be read.
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
