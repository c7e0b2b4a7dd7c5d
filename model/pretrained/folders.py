"""Which checkpoints a Hugging Face folder has, and what its training logged; no model is loaded."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwise.model.files import read_bytes, read_json

_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_STATE = "trainer_state.json"
LOGGED = {
    "loss": "train_loss",
    "learning_rate": "learning_rate",
    "grad_norm": "gradient_norm",
    "eval_loss": "valid_loss",
    "eval_bleu": "bleu",
    "eval_chrf": "chrf",
}
"""What the Trainer logs, and its name in the log of our trainings."""


def is_pretrained(folder: Path) -> bool:
    """Return whether a folder holds a Hugging Face model, or checkpoints of one."""
    return (folder / "config.json").is_file() or bool(numbered_folders(folder))


def numbered_folders(folder: Path) -> dict[int, Path]:
    """Map steps to the folders of checkpoints, in order, complete or not."""
    matches = ((_CHECKPOINT.fullmatch(path.name), path) for path in folder.glob("checkpoint-*"))
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


def checkpoint_folders(folder: Path) -> dict[int, Path]:
    """Map steps to the folders of complete checkpoints.

    The Trainer writes its state last; where it has done so in any checkpoint, one without is not
    complete yet. Where it has not, the weights of the last step must be as long as they say.
    """
    complete = {
        step: path for step, path in numbered_folders(folder).items() if weights_files(path)
    }
    ended = {step: path for step, path in complete.items() if (path / _STATE).is_file()}
    if not ended and complete and not all(map(_is_whole, weights_files(complete[max(complete)]))):
        del complete[max(complete)]
    return ended or complete


def _is_whole(file: Path) -> bool:
    """Return whether a file of safetensors is as long as its header says."""
    try:
        size = file.stat().st_size
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            header = json.loads(opened.read(min(length, size)))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name[:2] != "__"]
        return size == 8 + length + max(ends)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return False


def weights_files(folder: Path) -> list[Path]:
    """List the weights files of a checkpoint; none where one of them is missing."""
    if (folder / _WEIGHTS).is_file():
        return [folder / _WEIGHTS]
    if not (folder / _INDEX).is_file():
        return []
    try:
        names = set(json.loads(read_bytes(folder / _INDEX))["weight_map"].values())
        files = [folder / Path(name).name for name in sorted(names)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return files if all(file.is_file() for file in files) else []


def trainer_state(folder: Path) -> dict[str, Any]:
    """Read the state that the Trainer saves with a checkpoint; empty where there is none.

    Raises:
        CheckpointError: if it is no JSON.
    """
    path = folder / _STATE
    if not path.is_file():
        return {}
    state = read_json(path)
    return state if isinstance(state, dict) else {}


def _rows_of(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    history = state.get("log_history", [])
    for row in history if isinstance(history, list) else []:
        step = row.get("step") if isinstance(row, dict) else None
        if type(step) is int and step >= 0:
            yield row


def _log_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the Trainer's log in the words of ours; what is not a finite number is left out."""
    kept = {"step": row["step"]}
    for theirs, ours in LOGGED.items():
        value = row.get(theirs)
        if isinstance(value, int | float) and math.isfinite(value):
            kept[ours] = value
    return kept


def log_path(folder: Path) -> Path:
    """Return the file with what the training has logged up to its newest checkpoint."""
    newest = list(checkpoint_folders(folder).values())
    return (newest[-1] if newest else folder) / _STATE


def trainer_log(path: Path) -> list[dict[str, Any]]:
    """Read what the Trainer logged: rows of training, and of evaluations.

    Raises:
        CheckpointError: if the file is no JSON.
    """
    return [_log_row(row) for row in _rows_of(trainer_state(path.parent))]
