"""What the folder of one checkpoint says of itself: its step, its state, its model and its base.

What cannot be opened raises a ``CheckpointError``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from headwise.model.files import CheckpointError, read_json
from headwise.model.pretrained.adapters import (
    CONFIG,
    adapter_kind,
    base_of,
    is_adapter,
    vocabulary_of,
)
from headwise.model.pretrained.adapters import WEIGHTS as ADAPTER_WEIGHTS
from headwise.model.pretrained.weights_files import NO_WEIGHTS, weights_files, why_not_read

STATE = "trainer_state.json"
"""The file that the Trainer writes last into a checkpoint."""
_MOST_OF_STATE = 32 * 2**20
_MOST_LOGGED = 1_500_000
"""Bytes and values of that file: its log has some 150,000 rows then."""
MODEL_CONFIG = "config.json"
OF_TRAINER = re.compile(r"checkpoint-(\d{1,12})")
_NUMBERED = re.compile(
    r"(?:.*[^a-z])?(?P<unit>checkpoint|ckpt|step|iter|iteration|update|epoch)s?[-_=. ]?(\d{1,12})",
    re.IGNORECASE,
)
"""Names such as ``epoch_0``, ``step_100``, ``ckpt-500``, ``epoch=3-step=500``."""
_NAMED = re.compile(r"(checkpoint|ckpt)[^a-z].*", re.IGNORECASE)
OF_DEEPSPEED = re.compile(r"global_step\d+")
_MOST = 10**12
"""Steps beyond are no steps."""
_SIZES = ("layers", "heads", "d_model", "d_kv", "d_ff", "_dim", "size", "embeddings", "buckets")
"""How names of a configuration end whose numbers are shapes of weights."""


def natural(path: Path) -> list[tuple[int, str]]:
    """Return what puts ``epoch_2`` before ``epoch_10``."""
    parts = re.findall(r"\d+|\D+", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part.lower()) for part in parts]


def run_folder_of(folder: Path) -> Path:
    """Return the folder of the training of which a folder is a checkpoint, or the folder itself."""
    outer = outer_folder(folder)
    return outer.parent if is_named_like_one(outer) else folder


def is_named_like_one(folder: Path) -> bool:
    """Return whether a folder has a name such as a checkpoint has."""
    return any(pattern.fullmatch(folder.name) for pattern in (_NUMBERED, _NAMED))


def inner_folder(folder: Path) -> Path:
    """Return a checkpoint's folder, or the one in it with its adapter, if PEFT gave that a name."""
    if not weights_files(folder) and not is_adapter(folder):
        inner = [path.parent for path in folder.glob(f"*/{ADAPTER_WEIGHTS}")]
        if len(inner) == 1 and is_adapter(inner[0]):
            return inner[0]
    return folder


def outer_folder(place: Path) -> Path:
    """Return the checkpoint's folder in which such an adapter is."""
    return place.parent if is_adapter(place) and is_named_like_one(place.parent) else place


def trainer_state(folder: Path) -> dict[str, Any]:
    """Read the state that the Trainer saves with a checkpoint; empty where there is none."""
    path = state_path(folder)
    if not path.is_file():
        return {}
    most = {"most": _MOST_OF_STATE, "values": _MOST_LOGGED}
    state = read_json(path, within=run_folder_of(folder), **most)
    return state if isinstance(state, dict) else {}


def state_path(folder: Path) -> Path:
    """Return where the Trainer saves its state: in a checkpoint, or above an adapter's folder."""
    return outer_folder(folder) / STATE


def counts_epochs(path: Path) -> bool:
    """Return whether the step of a checkpoint is the number of an epoch."""
    match = _NUMBERED.fullmatch(path.name)
    of_epochs = match is not None and match["unit"].lower() == "epoch"
    return of_epochs and global_step(path) is None


def step_of(path: Path) -> int | None:
    """Return the step of a checkpoint by its state or its name; None if neither says it."""
    if match := OF_TRAINER.fullmatch(path.name):
        return int(match[1])
    if (step := global_step(path)) is not None:
        return step
    match = _NUMBERED.fullmatch(path.name)
    if match is None and not path.name.isdecimal():
        return None
    step = int(match[2] if match else path.name)
    return step if step < _MOST else None


def global_step(folder: Path) -> int | None:
    """Return the step in the state that the Trainer saved; None where there is none."""
    step, _ = _of_state(folder, stamp_of(state_path(folder)))
    return step if type(step) is int and 0 <= step < _MOST else None


def best_of(folder: Path) -> str:
    """Return the name of the checkpoint that a training calls its best; "" if it calls none so."""
    _, best = _of_state(folder, stamp_of(state_path(folder)))
    return Path(best).name if isinstance(best, str) else ""


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file does; None where there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=1024)
def _of_state(folder: Path, _stamp: tuple[int, int] | None) -> tuple[Any, Any]:
    try:
        state = trainer_state(folder)
    except CheckpointError:  # its log says why
        state = {}
    return state.get("global_step"), state.get("best_model_checkpoint")


def new_vocabulary(folder: Path) -> int | None:
    """Return how many tokens a checkpoint has, if it is an adapter of a model with other ones."""
    if not is_adapter(folder):
        return None
    sizes = sizes_of(base_folder(folder))
    before = sizes.get("vocab_size")
    if not isinstance(before, int) or sizes.get("decoder_vocab_size", before) != before:
        return None
    tokens = _tokens_of(folder, before, *map(stamp_of, (folder / CONFIG, folder / ADAPTER_WEIGHTS)))
    return tokens if tokens != before else None


@lru_cache(maxsize=256)
def _tokens_of(folder: Path, base: int, *_stamps: tuple[int, int] | None) -> int:
    return vocabulary_of(folder, within=run_folder_of(folder), base=base)


def base_folder(folder: Path) -> Path:
    """Return the folder with the whole weights of a checkpoint: that of the base of an adapter."""
    if not is_adapter(folder):
        return folder
    within = run_folder_of(folder)
    adapter_kind(folder, within=within)
    base = base_of(folder, within=within)
    if not weights_files(base):
        raise CheckpointError(f"{base}: {why_not_read(base) or NO_WEIGHTS}")
    return base


def config_folder(folder: Path) -> Path:
    """Return the folder with a whole model's configuration: its own, or that of its training."""
    if (place := _with_config(folder)) is not None:
        return place
    raise CheckpointError(
        f"{folder / MODEL_CONFIG}: there is none, nor one in the folder above; write it there: "
        "model.config.save_pretrained(folder)"
    )


def _with_config(folder: Path) -> Path | None:
    places = (folder, run_folder_of(folder), folder.parent)
    return next((place for place in places if (place / MODEL_CONFIG).is_file()), None)


def sizes_of(folder: Path) -> dict[str, Any]:
    """Return the sizes of a whole model, by their names; {} where no configuration can be read."""
    if is_adapter(folder):
        return {}
    path = (_with_config(folder) or folder) / MODEL_CONFIG
    return _sizes_at(path, stamp_of(path))


@lru_cache(maxsize=1024)
def _sizes_at(path: Path, _stamp: tuple[int, int] | None) -> dict[str, Any]:
    try:
        values = read_json(path, within=run_folder_of(path.parent))
    except CheckpointError:  # opening the model says why
        return {}
    return dict(_sizes_in(values, "")) if isinstance(values, Mapping) else {}


def _sizes_in(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and name in ("encoder", "decoder", "text_config"):
            yield from _sizes_in(value, f"{prefix}{name}.")
        elif name == "model_type" or (type(value) is int and name.endswith(_SIZES)):
            yield f"{prefix}{name}", value
