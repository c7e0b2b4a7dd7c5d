"""Open any model by its name: a run of ours, a folder, or a name on the Hugging Face hub.

What is missing or cannot be used, in a folder or on the hub, raises a ``CheckpointError``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch

from headwise.model.checkpoint import CHECKPOINTS, Checkpoint, list_runs, open_trained_run, steps_of
from headwise.model.config import Counts, DataSource, TrainingConfig, TransformerConfig
from headwise.model.files import (
    MOST_OF_LOG,
    CheckpointError,
    NoCheckpointYetError,
    has_writer,
    read_log,
)
from headwise.model.interface import DEFAULT_LANGUAGES, Choices, Description, Languages, Tokenizers
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.pretrained.checkpoints import checkpoint_folders, is_pretrained
from headwise.model.pretrained.folders import log_path, seems_to_train, trainer_log
from headwise.model.pretrained.weights_files import why_not_read

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx")
"""Endings of files with weights. A folder that has one and no configuration is of no training that
has just begun."""
_MOST_NAMED = 10
"""Folders that a message names."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


class Run(Protocol):
    """One training with its checkpoints, or a single model: what all tools and pages use."""

    @property
    def folder(self) -> Path:
        """Return the folder with its files."""

    @property
    def name(self) -> str:
        """Return the name under which it is listed."""

    @property
    def source_language(self) -> str:
        """Return the code of the source language; "" if it is not known."""

    @property
    def target_language(self) -> str:
        """Return the code of the target language; "" if it is not known."""

    @property
    def data(self) -> DataSource | None:
        """Return the training data, if it is known."""

    @property
    def planned_steps(self) -> int | None:
        """Return the number of steps of the whole training, if it is known."""

    @property
    def training(self) -> TrainingConfig | None:
        """Return how a run of ours was trained, if it is known; None for others."""

    @property
    def config(self) -> TransformerConfig | None:
        """Return the configuration of a model of ours; None for others."""

    @property
    def parameters(self) -> int:
        """Return the number of weights, tied ones once."""

    @property
    def description(self) -> Description:
        """Return the properties of the model."""

    @property
    def tokenizers(self) -> Tokenizers:
        """Return the vocabularies of source and target."""

    @property
    def tokenizers_sha256(self) -> str:
        """Return what identifies the tokenizers: equal hashes, equal ids for all texts."""

    @property
    def counts(self) -> Counts | None:
        """Return how often each token occurs in the training data, if it is known."""

    @property
    def choices(self) -> Choices:
        """Return the languages and tasks that can be chosen."""

    @property
    def adapter(self) -> str:
        """Return which kind of adapter was merged into which model, in words; "" if none was."""

    @property
    def remarks(self) -> Sequence[str]:
        """Return sentences on steps that folders' names do not say, and on what is not read."""

    @property
    def ignored_settings(self) -> Mapping[str, Any]:
        """Return settings of generation that greedy decoding does not follow: names and values."""

    def for_languages(self, languages: Languages) -> Run:
        """Return the same run with another choice of languages or task."""

    def steps(self) -> list[int]:
        """Return the steps that have weights, in order; it is an error if there are none yet."""

    def weights_path(self, step: int) -> Path:
        """Return a file that is written with the weights of a step."""

    def load(self, step: int, dtype: torch.dtype = torch.float32) -> Checkpoint:
        """Load the weights of a step in this type, whatever the file's is, in memory of the CPU."""

    def sha256(self, step: int) -> str:
        """Return the hash of the weights of a step."""

    def metrics(self) -> Sequence[dict[str, Any]]:
        """Return what the training logged, by step: of a long log the last rows."""


def open_run(name: str, *, root: Path = CHECKPOINTS) -> Run:
    """Open a run by its name in ``root``, the path of a folder, or a name on the hub."""
    folder = find_folder(name, root=root)
    if folder is None and len(Path(name).parts) > 1:
        raise CheckpointError(f"{name}: there is no such folder")
    if folder is None:
        return open_trained_run(name, root=root)  # raises, naming the runs that are there
    return open_folder(folder, Path(name).name or folder.name or str(folder))


def find_folder(name: str, *, root: Path = CHECKPOINTS) -> Path | None:
    """Return the folder of a run in ``root``, of a path, or of a name on the hub, downloaded."""
    if name in list_runs(root):
        return root / name
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder.resolve()
    return _fetch(name) if _HUB_NAME.fullmatch(name) else None


def open_folder(folder: Path, name: str) -> Run:
    """Open the run in a folder: ours, a Hugging Face model, or the checkpoints of its training."""
    if _is_ours(folder):
        return replace(open_trained_run(folder.name, root=folder.parent), listed_as=name)
    if not is_pretrained(folder):
        expected = (
            "a run (run.json), a Hugging Face model (config.json) or a training's folder "
            "(checkpoint-…)"
        )
        if told := why_not_read(folder):
            raise CheckpointError(f"{folder}: expected {expected}; {told}")
        if any(path.suffix in _WEIGHTS for path in folder.iterdir()):
            raise CheckpointError(f"{folder}: expected {expected}; found none of them")
        if below := _runs_below(folder):
            raise CheckpointError(f"{folder}: expected {expected}; name one in it: {below}")
        raise NoCheckpointYetError(
            f"{folder}: there is no checkpoint yet; wait for the training, or name the folder of "
            f"{expected}"
        )
    from headwise.model.pretrained.run import PretrainedRun

    return PretrainedRun(folder, name)


def _runs_below(folder: Path) -> str:
    """List the folders in a folder that can be opened."""
    with suppress(OSError):  # a folder that is not ours to read
        below = [path for path in sorted(folder.glob("*")) if path.is_dir()]
        runs = [path for path in below if _is_ours(path) or is_pretrained(path)]
        return ", ".join(map(str, runs[:_MOST_NAMED])) + ", …" * (len(runs) > _MOST_NAMED)
    return ""


def steps_in(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in a folder, in order, without opening the run."""
    return steps_of(folder) if _is_ours(folder) else list(checkpoint_folders(folder))


def _is_ours(folder: Path) -> bool:
    return (folder / "run.json").is_file()


def is_training(folder: Path) -> bool:
    """Return whether a run is being trained in a folder, as far as its files tell."""
    if _is_ours(folder):
        return has_writer(folder)
    try:
        return seems_to_train(folder)
    except (CheckpointError, OSError):
        return False


def log_file(folder: Path, name: str) -> Path:
    """Return the file with a log of a run: ``metrics.jsonl``, or what the Trainer writes for it."""
    own = _is_ours(folder) or name != "metrics.jsonl"
    return folder / name if own else log_path(folder)


def read_log_file(path: Path) -> Iterable[dict[str, Any]]:
    """Read the rows of what ``log_file`` returned, if it is there; of a long one the last."""
    return read_log(path, last=MOST_OF_LOG) if path.suffix == ".jsonl" else trainer_log(path)


def require_languages(run: Run, columns: tuple[str, str] | None) -> None:
    """Raise a ValueError if nothing says which sides of a corpus are source and target."""
    if columns is None and not (run.source_language and run.target_language):
        raise ValueError(
            f"{run.name} does not name its languages: say which columns of the data are source and "
            "target, such as --columns en es"
        )


def load_checkpoint(run: Run, step: int, placement: Placement) -> Checkpoint:
    """Load the weights of a step onto the device and in the type of a placement."""
    checkpoint = run.load(step, placement.torch_dtype)
    checkpoint.model.to(placement.torch_device)
    return checkpoint


def choose_languages(run: Run, languages: Languages) -> Run:
    """Return a run with a choice of languages or task; a ValueError if it does not offer it."""
    if languages == DEFAULT_LANGUAGES:
        return run
    for what, chosen, offered in (
        ("source language", languages.source, run.choices.sources),
        ("target language", languages.target, run.choices.targets),
        ("prefix", languages.prefix, run.choices.prefixes),
    ):
        if chosen is not None and chosen not in offered:
            known = ", ".join(map(repr, offered[:20])) + ", …" * (len(offered) > 20)
            raise ValueError(f"{run.name} has no {what} {chosen!r}; it has: {known or 'none'}")
    return run.for_languages(languages)


def open_checkpoint(
    name: str,
    step: int | None,
    root: Path,
    placement: Placement = DEFAULT_PLACEMENT,
    languages: Languages = DEFAULT_LANGUAGES,
) -> tuple[Run, Checkpoint]:
    """Open a run and load its checkpoint at a step, by default the last."""
    run = choose_languages(open_run(name, root=root), languages)
    return run, load_checkpoint(run, run.steps()[-1] if step is None else step, placement)


def _fetch(name: str) -> Path:
    """Return the local folder of a model on the hub, downloading what is not there yet."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    wanted = ["*.json", "*.safetensors", "*.spm", "*.model", "*.txt"]
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError, ValueError) as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise CheckpointError(
            f"{name}: there is no such folder, and it cannot be fetched from the hub{offline}; "
            "check the name, or give the path of a folder"
        ) from error
