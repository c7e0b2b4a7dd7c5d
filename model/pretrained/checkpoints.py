"""Which checkpoints a folder of Hugging Face has, their steps, and what is there besides.

No model is loaded. A checkpoint is a folder in that of its training, or the model at its top.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from headwise.model.files import CheckpointError, NoCheckpointYetError
from headwise.model.pretrained.adapters import is_adapter
from headwise.model.pretrained.checkpoint_folder import (
    MODEL_CONFIG,
    OF_DEEPSPEED,
    OF_TRAINER,
    STATE,
    base_folder,
    best_of,
    counts_epochs,
    global_step,
    inner_folder,
    is_named_like_one,
    natural,
    new_vocabulary,
    outer_folder,
    sizes_of,
    state_path,
    step_of,
)
from headwise.model.pretrained.weights_files import (
    INDEX,
    NO_WEIGHTS,
    WEIGHTS,
    are_whole,
    weights_files,
    why_not_read,
)

_READ = ("", *(f"/{name}" for name in (MODEL_CONFIG, STATE, WEIGHTS, INDEX)))
"""A folder, and the files in it that say what it is."""
_SETTLED = 100_000_000
"""Nanoseconds: systems give two changes within some milliseconds the same time."""
_MOST_NAMES = 5
"""Folders that a remark names, at most."""


@dataclass
class Found:
    """What there is in the folder of a training."""

    by_step: dict[int, Path]
    """Folders with weights, in the order of their steps."""
    waiting: bool
    """Whether a checkpoint is there that may still be written."""
    adapters: list[Path] = field(default_factory=list)
    """Those of the folders that are adapters."""
    _remarks: dict[str, list[Path]] = field(default_factory=dict)
    """What is to be said of folders, each thing once."""

    def add(self, place: Path | None, told: str) -> None:
        """Add what is to be said of a folder, or a sentence of its own."""
        self._remarks.setdefault(told, []).extend([place] if place is not None else [])

    @property
    def remarks(self) -> list[str]:
        """Return sentences on steps that names do not say, and on what is not among the steps."""
        return [
            f"{_names(sorted(places, key=natural))}: {told.replace(_PATH, str(places[0]))}"
            if places
            else told
            for told, places in self._remarks.items()
        ]


_PATH = "\0"
"""Stands, in what is to be said of folders, for the path of the first."""
_BY_ITSELF = f"its own path opens it: {_PATH}"
_INCOMPLETE = "it is not complete; it is offered as soon as its weights are whole"


def _names(places: list[Path]) -> str:
    more = len(places) - _MOST_NAMES
    names = [place.name for place in places[:_MOST_NAMES]]
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


def is_pretrained(folder: Path) -> bool:
    """Return whether a folder holds a Hugging Face model, or checkpoints of one."""
    is_single = (folder / MODEL_CONFIG).is_file() or is_adapter(folder) or weights_files(folder)
    return bool(is_single) or any(True for _ in _candidates(folder))


def _candidates(folder: Path) -> Iterator[Path]:
    """Yield the folders that are checkpoints, complete or not, with their weights or not."""
    for path in sorted(folder.glob("*"), key=natural):
        if path.name[:1] not in "._" and path.is_dir() and os.access(path, os.R_OK | os.X_OK):
            is_named = is_named_like_one(path) and not OF_DEEPSPEED.fullmatch(path.name)
            if is_named or weights_files(inner_folder(path)):
                yield path


def find_checkpoints(folder: Path) -> Found:
    """Find the checkpoints of a training, or the single one of a model.

    The step of ``checkpoint-500`` is 500. That of another is in its ``trainer_state.json``, or else
    is the number in its name. The model at the top has the step of its own ``trainer_state.json``,
    or comes after the newest.

    A page asks a dozen times, and to look at 200 of them takes 40 ms: what was found is kept while
    the stamps of all that is read stay. Adapters, whose base is elsewhere, and what is still being
    written are looked for each time.
    """
    stamps, newest = _stamps(folder)
    if time.time_ns() - newest > _SETTLED:
        found = _find_kept(folder, stamps)
        if not found.waiting and not found.adapters:
            return found
    return _find(folder)


def _stamps(folder: Path) -> tuple[Hashable, int]:
    """Return the stamps of what is read in a folder, and the newest time."""
    with suppress(OSError), os.scandir(folder) as entries:
        places = [str(folder), *sorted(entry.path for entry in entries if entry.is_dir())]
        stamps = [_stamp(f"{place}{end}") for place in places for end in _READ]
        return (*places, *stamps), max(stamp[0] for stamp in stamps if stamp is not None)
    return (), time.time_ns()


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a ``Path`` takes ten times as long
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


@lru_cache(maxsize=16)
def _find_kept(folder: Path, _stamps: Hashable) -> Found:
    return _find(folder)


def _find(folder: Path) -> Found:
    found = Found({}, waiting=False)
    without_step, counts_steps = [], False
    for path in sorted(_candidates(folder), key=counts_epochs):  # those that count steps first
        if not weights_files(inner_folder(path)):
            told = why_not_read(path)
            found.waiting |= told is None
            found.add(path, told or _INCOMPLETE)
        elif (step := step_of(path)) is None:
            without_step.append(path)
        elif counts_steps and counts_epochs(path):
            found.add(path, f"the number is of an epoch, those of others of steps; {_BY_ITSELF}")
        else:
            _put(found, step, path)
            counts_steps |= not counts_epochs(path)
    _leave_out_unfinished(found)
    for path in list(without_step):
        if (best := _best_step(found, path)) is not None:
            _put(found, best, path)
            without_step.remove(path)
    _put_top(found, folder)
    if len(without_step) == 1 and not found.by_step:
        place = inner_folder(without_step.pop())
        found.by_step[int(is_adapter(place))] = place  # of one of them, step 0 is its base
    for path in without_step:
        found.add(path, f"neither its name nor a {STATE} in it says its step; {_BY_ITSELF}")
    found.by_step = dict(sorted(found.by_step.items()))
    _leave_out_other_sizes(found)
    found.adapters = [path for path in found.by_step.values() if is_adapter(path)]
    with suppress(CheckpointError):  # opening the adapter says why
        if found.adapters and (tokens := new_vocabulary(found.adapters[-1])) is not None:
            found.add(
                None,
                f"Step 0 is not the model that the adapter is of, which has other tokens than the "
                f"{tokens:,} of the adapter; its own path opens it: "
                f"{base_folder(found.adapters[-1])}",
            )
    return found


def checkpoint_folders(folder: Path) -> dict[int, Path]:
    """Map steps to the folders of complete checkpoints, in order."""
    return find_checkpoints(folder).by_step


def _put(found: Found, step: int, path: Path) -> None:
    """Give a checkpoint a step, or say why it has none."""
    if (other := found.by_step.get(step)) is not None:
        name = outer_folder(other).name
        is_same = other.resolve() == inner_folder(path).resolve()
        told = f"its step is {step:,}, as that of {name}; {_BY_ITSELF}"
        found.add(path, f"the same folder as {name}" if is_same else told)
    else:
        found.by_step[step] = inner_folder(path)
        if counts_epochs(path):
            found.add(path, "the step is the number of the epoch")
        elif not re.search(rf"(?<!\d)0*{step}$", path.name):
            found.add(path, f"its step is {step:,}, as {STATE} says")


def _leave_out_unfinished(found: Found) -> None:
    """Leave out what is being written.

    Where the Trainer has written its state, which it does last, later ones without are not
    complete; where it has not, the newest weights must be as long as they say.
    """
    ended = [step for step, path in found.by_step.items() if state_path(path).is_file()]
    newest = max(found.by_step, default=0)
    for step, path in list(found.by_step.items()):
        if ended and step > max(ended) and OF_TRAINER.fullmatch(outer_folder(path).name):
            told = f"it has no {STATE} yet, which the Trainer writes last; {_BY_ITSELF}"
        elif not ended and step == newest and not are_whole(weights_files(path)):
            told = _INCOMPLETE
        else:
            continue
        found.add(outer_folder(found.by_step.pop(step)), told)
        found.waiting = True


def _best_step(found: Found, path: Path) -> int | None:
    """Return which step the newest checkpoint calls the best, for a folder of this name."""
    if not found.by_step or "best" not in path.name.lower():
        return None
    match = OF_TRAINER.fullmatch(best_of(found.by_step[max(found.by_step)]))
    return int(match[1]) if match else None


def _put_top(found: Found, folder: Path) -> None:
    """Add the model at the top: that of the training's end, or the only one."""
    if not weights_files(folder):
        if found.by_step and (told := why_not_read(folder)):
            found.add(None, f"At the top of the folder: {told}")
        return
    step, newest = global_step(folder), max(found.by_step, default=None)
    if newest is None:
        found.by_step[max(step or 0, int(is_adapter(folder)))] = folder
    elif not are_whole(weights_files(folder)):
        found.add(None, "The model at the top of the folder is not complete")
    elif step is not None and step < newest and step in found.by_step:
        other = outer_folder(found.by_step[step]).name
        found.add(
            None,
            f"The model at the top of the folder has the step of {other}; copy its files into a "
            "folder of their own to open it",
        )
    else:
        step = newest + 1 if step is None or step == newest else step
        found.by_step[step] = folder
        found.add(None, f"The model at the top of the folder is step {step:,}")


def _leave_out_other_sizes(found: Found) -> None:
    """Leave out checkpoints of other sizes than the newest, whose configuration is read."""
    if not found.by_step:
        return
    newest = list(found.by_step.values())[-1]
    expected, of_newest = sizes_of(newest), outer_folder(newest).name
    for step, path in list(found.by_step.items()):
        sizes = sizes_of(path)
        if differ := [
            name for name in expected if sizes.get(name, expected[name]) != expected[name]
        ]:
            ours, theirs = (f"{values[differ[0]]!r:.40}" for values in (sizes, expected))
            told = f"{differ[0]} is {ours}, in the newest, {of_newest}, {theirs}; {_BY_ITSELF}"
            found.add(outer_folder(found.by_step.pop(step)), told)


def weights_by_step(folder: Path) -> dict[int, Path]:
    """Map steps to folders with weights; of adapters, step 0 is their base.

    A CheckpointError says what is there instead, if there are none.
    """
    found = find_checkpoints(folder)
    if not found.by_step and found.waiting:
        raise NoCheckpointYetError(
            f"{folder}: no complete model.safetensors, and no checkpoint-… folder with one; wait "
            f"for the training, or restore the files. {'. '.join(found.remarks)}"
        )
    if not found.by_step:
        told = why_not_read(folder) or NO_WEIGHTS
        raise CheckpointError(f"{folder}: {'. '.join(found.remarks) or told}")
    if not (adapters := found.adapters) or new_vocabulary(adapters[-1]) is not None:
        return found.by_step
    return {0: base_folder(adapters[-1])} | found.by_step
