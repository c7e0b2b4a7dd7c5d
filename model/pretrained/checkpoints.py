"""Which checkpoints a folder of Hugging Face has, their steps, and what is there besides.

No model is loaded. A checkpoint is a folder in that of its training, or the model at its top.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from headwise.model.files import CheckpointError, NoCheckpointYetError, read_json
from headwise.model.pretrained.adapters import (
    CONFIG,
    adapter_kind,
    base_of,
    is_adapter,
    vocabulary_of,
)
from headwise.model.pretrained.adapters import WEIGHTS as ADAPTER_WEIGHTS
from headwise.model.pretrained.weights_files import are_whole, weights_files, why_not_read

STATE = "trainer_state.json"
"""The file that the Trainer writes last into a checkpoint."""
_CONFIG = "config.json"
_OF_TRAINER = re.compile(r"checkpoint-(\d{1,12})")
_NUMBERED = re.compile(
    r"(?:.*[^a-z])?(?P<unit>checkpoint|ckpt|step|iter|iteration|update|epoch)s?[-_=. ]?(\d{1,12})",
    re.IGNORECASE,
)
"""Names such as ``epoch_0``, ``step_100``, ``ckpt-500``, ``epoch=3-step=500``."""
_NAMED = re.compile(r"(checkpoint|ckpt)[^a-z].*", re.IGNORECASE)
_OF_DEEPSPEED = re.compile(r"global_step\d+")
_MOST = 10**12
"""Steps beyond are no steps."""
_SIZES = ("layers", "heads", "d_model", "d_kv", "d_ff", "_dim", "size", "embeddings", "buckets")
"""How names of a configuration end whose numbers are shapes of weights."""
_MOST_NAMES = 5
"""Folders that a remark names, at most."""


@dataclass
class Found:
    """What there is in the folder of a training."""

    by_step: dict[int, Path]
    """Folders with weights, in the order of their steps."""
    waiting: bool
    """Whether a checkpoint is there that may still be written."""
    _remarks: dict[str, list[Path]] = field(default_factory=dict)
    """What is to be said of folders, each thing once."""

    def add(self, place: Path | None, told: str) -> None:
        """Add what is to be said of a folder, or a sentence of its own."""
        self._remarks.setdefault(told, []).extend([place] if place is not None else [])

    @property
    def remarks(self) -> list[str]:
        """Return sentences on steps that names do not say, and on what is not among the steps."""
        return [
            f"{_names(sorted(places, key=_natural))}: {told.replace(_PATH, str(places[0]))}"
            if places
            else told
            for told, places in self._remarks.items()
        ]


_PATH = "\0"
"""Stands, in what is to be said of folders, for the path of the first."""
_BY_ITSELF = f"its own path opens it: {_PATH}"


def _names(places: list[Path]) -> str:
    more = len(places) - _MOST_NAMES
    names = [place.name for place in places[:_MOST_NAMES]]
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return what puts ``epoch_2`` before ``epoch_10``."""
    parts = re.findall(r"\d+|\D+", path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part.lower()) for part in parts]


# --- folders -------------------------------------------------------------------------------------


def is_pretrained(folder: Path) -> bool:
    """Return whether a folder holds a Hugging Face model, or checkpoints of one."""
    is_single = (folder / _CONFIG).is_file() or is_adapter(folder) or weights_files(folder)
    return bool(is_single) or any(True for _ in _candidates(folder))


def run_folder_of(folder: Path) -> Path:
    """Return the folder of the training of which a folder is a checkpoint, or the folder itself."""
    outer = _outer(folder)
    return outer.parent if _is_named_like_one(outer) else folder


def _is_named_like_one(folder: Path) -> bool:
    name = folder.name
    return bool(_NUMBERED.fullmatch(name) or _NAMED.fullmatch(name))


def _candidates(folder: Path) -> Iterator[Path]:
    """Yield the folders that are checkpoints, complete or not, with their weights or not."""
    for path in sorted(folder.glob("*"), key=_natural):
        if path.name[:1] not in "._" and path.is_dir() and os.access(path, os.R_OK | os.X_OK):
            is_named = _is_named_like_one(path) and not _OF_DEEPSPEED.fullmatch(path.name)
            if is_named or weights_files(_place(path)):
                yield path


def _place(folder: Path) -> Path:
    """Return a checkpoint's folder, or the one in it with its adapter, if PEFT gave that a name."""
    if not weights_files(folder) and not is_adapter(folder):
        inner = [path.parent for path in folder.glob(f"*/{ADAPTER_WEIGHTS}")]
        if len(inner) == 1 and is_adapter(inner[0]):
            return inner[0]
    return folder


def _outer(place: Path) -> Path:
    """Return the checkpoint's folder in which such an adapter is."""
    return place.parent if is_adapter(place) and _is_named_like_one(place.parent) else place


def trainer_state(folder: Path) -> dict[str, Any]:
    """Read the state that the Trainer saves with a checkpoint; empty where there is none."""
    path = state_path(folder)
    if not path.is_file():
        return {}
    state = read_json(path, within=run_folder_of(folder))
    return state if isinstance(state, dict) else {}


def state_path(folder: Path) -> Path:
    """Return the file with the state that the Trainer saves, beside or above an adapter's folder.

    It need not be there.
    """
    return _outer(folder) / STATE


# --- checkpoints and their steps -----------------------------------------------------------------


def find_checkpoints(folder: Path) -> Found:
    """Find the checkpoints of a training, or the single one of a model.

    The step of ``checkpoint-500`` is 500. That of another is in its ``trainer_state.json``, or else
    is the number in its name. The model at the top has the step of its own ``trainer_state.json``,
    or comes after the newest.
    """
    found = Found({}, waiting=False)
    without_step = []
    # Those that count steps come first.
    for path in sorted(_candidates(folder), key=_counts_epochs):
        if not weights_files(_place(path)):
            _note_unread(found, path)
        elif (step := _step_of(path)) is None:
            without_step.append(path)
        else:
            _put(found, step, path)
    _leave_out_unfinished(found)
    for path in list(without_step):
        if (best := _best_step(found, path)) is not None:
            _put(found, best, path)
            without_step.remove(path)
    _put_top(found, folder)
    if len(without_step) == 1 and not found.by_step:
        place = _place(without_step.pop())
        found.by_step[_least_step(place)] = place
    for path in without_step:
        found.add(path, f"neither its name nor a {STATE} in it says its step; {_BY_ITSELF}")
    found.by_step = dict(sorted(found.by_step.items()))
    _leave_out_other_sizes(found)
    if (resized := _resized_base(found)) is not None:
        tokens, base = resized
        found.add(
            None,
            f"Step 0 is not the model that the adapter is of, which has other tokens "
            f"than the {tokens:,} of the adapter; its own path opens it: {base}",
        )
    return found


def checkpoint_folders(folder: Path) -> dict[int, Path]:
    """Map steps to the folders of complete checkpoints, in order."""
    return find_checkpoints(folder).by_step


def _counts_epochs(path: Path) -> bool:
    match = _NUMBERED.fullmatch(path.name)
    of_epochs = match is not None and match["unit"].lower() == "epoch"
    return of_epochs and _global_step(path) is None


def _step_of(path: Path) -> int | None:
    if match := _OF_TRAINER.fullmatch(path.name):
        return int(match[1])
    if (step := _global_step(path)) is not None:
        return step
    match = _NUMBERED.fullmatch(path.name)
    if match is None and not path.name.isdecimal():
        return None
    step = int(match[2] if match else path.name)
    return step if step < _MOST else None


def _global_step(folder: Path) -> int | None:
    step, _ = _of_state(folder, stamp_of(state_path(folder)))
    return step if type(step) is int and 0 <= step < _MOST else None


def _best_of(folder: Path) -> str:
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


def _put(found: Found, step: int, path: Path) -> None:
    """Give a checkpoint a step, or say why it has none."""
    other = found.by_step.get(step)
    if other is not None and other.resolve() == _place(path).resolve():
        found.add(path, f"the same folder as {_outer(other).name}")
    elif other is not None:
        found.add(path, f"its step is {step:,}, as that of {_outer(other).name}; {_BY_ITSELF}")
    elif _counts_epochs(path) and not all(
        _counts_epochs(_outer(place)) for place in found.by_step.values()
    ):
        found.add(path, f"the number is of an epoch, those of others of steps; {_BY_ITSELF}")
    else:
        found.by_step[step] = _place(path)
        if _counts_epochs(path):
            found.add(path, "the step is the number of the epoch")
        elif not re.search(rf"(?<!\d)0*{step}$", path.name):
            found.add(path, f"its step is {step:,}, as {STATE} says")


def _note_unread(found: Found, path: Path) -> None:
    told = why_not_read(path)
    found.waiting |= told is None
    found.add(path, told or "it is not complete; it is offered as soon as its weights are whole")


def _leave_out_unfinished(found: Found) -> None:
    """Leave out the checkpoint of the last step while it is being written.

    The Trainer writes its state last; where it has done so in any checkpoint, its later ones
    without are not complete yet. Where it has not, the weights must be as long as they say.
    """
    ended = [step for step, path in found.by_step.items() if state_path(path).is_file()]
    newest = max(found.by_step, default=0)
    for step, path in list(found.by_step.items()):
        if ended and step > max(ended) and _OF_TRAINER.fullmatch(_outer(path).name):
            told = f"it has no {STATE} yet, which the Trainer writes last; {_BY_ITSELF}"
        elif not ended and step == newest and not are_whole(weights_files(path)):
            told = "it is not complete; it is offered as soon as its weights are whole"
        else:
            continue
        found.add(_outer(found.by_step.pop(step)), told)
        found.waiting = True


def _best_step(found: Found, path: Path) -> int | None:
    """Return which step the newest checkpoint calls the best, for a folder of this name."""
    if not found.by_step or "best" not in path.name.lower():
        return None
    match = _OF_TRAINER.fullmatch(_best_of(found.by_step[max(found.by_step)]))
    return int(match[1]) if match else None


def _put_top(found: Found, folder: Path) -> None:
    """Add the model at the top: that of the training's end, or the only one."""
    if not weights_files(folder):
        if found.by_step and (told := why_not_read(folder)):
            found.add(None, f"At the top of the folder: {told}")
        return
    step, newest = _global_step(folder), max(found.by_step, default=None)
    if newest is None:
        found.by_step[max(step or 0, _least_step(folder))] = folder
    elif not are_whole(weights_files(folder)):
        found.add(None, "The model at the top of the folder is not complete")
    elif step is not None and step < newest and step in found.by_step:
        other = _outer(found.by_step[step]).name
        found.add(
            None,
            f"The model at the top of the folder has the step of {other}; copy its files into a "
            "folder of their own to open it",
        )
    else:
        step = newest + 1 if step is None or step == newest else step
        found.by_step[step] = folder
        found.add(None, f"The model at the top of the folder is step {step:,}")


def _resized_base(found: Found) -> tuple[int, Path] | None:
    """Return how many tokens the newest adapter has, and the base that has others."""
    adapters = [path for path in found.by_step.values() if is_adapter(path)]
    with suppress(CheckpointError):  # opening the adapter says why
        if adapters and (tokens := new_vocabulary(adapters[-1])) is not None:
            return tokens, base_folder(adapters[-1])
    return None


def _least_step(folder: Path) -> int:
    """Return the step of a single model of unknown step: step 0 of an adapter is its base."""
    return int(is_adapter(folder))


def _leave_out_other_sizes(found: Found) -> None:
    """Leave out checkpoints of other sizes than the newest, whose configuration is read."""
    if not found.by_step:
        return
    newest = list(found.by_step.values())[-1]
    expected, of_newest = _sizes_of(newest), _outer(newest).name
    for step, path in list(found.by_step.items()):
        sizes = _sizes_of(path)
        if differ := [
            name for name in expected if sizes.get(name, expected[name]) != expected[name]
        ]:
            ours, theirs = (f"{values[differ[0]]!r:.40}" for values in (sizes, expected))
            told = f"{differ[0]} is {ours}, in the newest, {of_newest}, {theirs}; {_BY_ITSELF}"
            found.add(_outer(found.by_step.pop(step)), told)


def _sizes_of(folder: Path) -> dict[str, Any]:
    """Return the sizes of a whole model, by their names; {} where no configuration can be read."""
    if is_adapter(folder):
        return {}
    path = (_with_config(folder) or folder) / _CONFIG
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


# --- weights of a step ---------------------------------------------------------------------------


def weights_by_step(folder: Path) -> dict[int, Path]:
    """Map steps to folders with weights; a folder of a single model has one step.

    Of adapters, step 0 is the model that they are of; a single one has step 1, if none is known.

    Raises:
        CheckpointError: if there are none, with what is there instead.
    """
    found = find_checkpoints(folder)
    if not found.by_step:
        raise _without_weights(folder, found)
    adapters = [path for path in found.by_step.values() if is_adapter(path)]
    if not adapters or new_vocabulary(adapters[-1]) is not None:
        return found.by_step
    return {0: base_folder(adapters[-1])} | found.by_step


def new_vocabulary(folder: Path) -> int | None:
    """Return how many tokens a checkpoint has, if it is an adapter of a model with other ones.

    Raises:
        CheckpointError: as ``base_folder`` does.
    """
    if not is_adapter(folder):
        return None
    sizes = _sizes_of(base_folder(folder))
    before = sizes.get("vocab_size")
    if not isinstance(before, int) or sizes.get("decoder_vocab_size", before) != before:
        return None
    tokens = _tokens_of(folder, before, *map(stamp_of, (folder / CONFIG, folder / ADAPTER_WEIGHTS)))
    return tokens if tokens != before else None


@lru_cache(maxsize=256)
def _tokens_of(folder: Path, base: int, *_stamps: tuple[int, int] | None) -> int:
    return vocabulary_of(folder, within=run_folder_of(folder), base=base)


def base_folder(folder: Path) -> Path:
    """Return the folder with the whole weights of a checkpoint: of an adapter, those of its base.

    Raises:
        CheckpointError: if an adapter cannot be opened, or its base is not there.
    """
    if not is_adapter(folder):
        return folder
    within = run_folder_of(folder)
    adapter_kind(folder, within=within)
    base = base_of(folder, within=within)
    if not weights_files(base):
        raise _without_weights(base, Found({}, waiting=False))
    return base


def config_folder(folder: Path) -> Path:
    """Return the folder with a whole model's configuration: its own, or that of its training.

    Raises:
        CheckpointError: if neither has one.
    """
    if (place := _with_config(folder)) is not None:
        return place
    raise CheckpointError(
        f"{folder / _CONFIG}: there is none, nor one in the folder above; write it there: "
        "model.config.save_pretrained(folder)"
    )


def _with_config(folder: Path) -> Path | None:
    places = (folder, run_folder_of(folder), folder.parent)
    return next((place for place in places if (place / _CONFIG).is_file()), None)


def _without_weights(folder: Path, found: Found) -> CheckpointError:
    if found.waiting:
        return NoCheckpointYetError(
            f"{folder}: no complete model.safetensors, and no checkpoint-… folder with one; wait "
            f"for the training, or restore the files. {'. '.join(found.remarks)}"
        )
    told = why_not_read(folder) or "no complete model.safetensors is there; restore the files"
    return CheckpointError(f"{folder}: {'. '.join(found.remarks) or told}")
