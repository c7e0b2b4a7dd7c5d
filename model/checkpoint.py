"""Runs on disk: ``run.json``, tokenizers, counts and weights in ``checkpoints/<run>/``.

Each of these files is written atomically. ``model/weights.py`` has the format of the weights. What
is missing, altered or foreign, or fits nothing else in the folder, raises a ``CheckpointError``.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from headwise.model import files
from headwise.model.config import Counts, DataSource, RunInfo, TrainingConfig, TransformerConfig
from headwise.model.files import CheckpointError as CheckpointError
from headwise.model.interface import Choices, Description, Languages
from headwise.model.tokenizer import Tokenizer, TokenizerPair
from headwise.model.validation import validate_json
from headwise.model.weights import Checkpoint as Checkpoint
from headwise.model.weights import header_of, read_weights, sha256_of_config
from headwise.model.weights import save_weights as save_weights
from headwise.model.weights import steps_of as steps_of
from headwise.model.weights import weights_path as weights_path

_PROJECT = Path(__file__).resolve().parents[1]
NEW_RUNS = (_PROJECT if (_PROJECT / "pyproject.toml").is_file() else Path.cwd()) / "checkpoints"
"""Default folder that runs are written to: the project's own or, where the packages are installed
without the rest of the project, that in the folder where a program is started."""
CHECKPOINTS = NEW_RUNS if NEW_RUNS.is_dir() else _PROJECT / "checkpoints"
"""Default folder that runs are read from: the same or, until that is there, the runs that come with
the installed packages."""

_TOKENIZER_NAMES = (["tokenizer.json"], ["source.tokenizer.json", "target.tokenizer.json"])


def create_run(
    folder: Path, info: RunInfo, tokenizers: TokenizerPair, counts: Counts | None
) -> None:
    """Write ``run.json``, tokenizers and, if these are known, token counts into a new folder."""
    refuse_existing_run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _tokenizer_files(tokenizers).items():
        files.write_bytes(folder / name, text)
    if counts is not None:
        files.write_bytes(folder / "counts.json", json.dumps(vars(counts)).encode())
    write_info(folder, info)


def refuse_existing_run(folder: Path) -> None:
    """Raise an error if a folder is a run."""
    if (folder / "run.json").exists():
        raise CheckpointError(
            f"{folder}: there is a run already; go on with it by --resume or take another name"
        )


def write_info(folder: Path, info: RunInfo) -> None:
    """Write ``run.json``; a folder with this file is a run."""
    files.write_json(folder / "run.json", info.to_json())


def _tokenizer_files(tokenizers: TokenizerPair) -> dict[str, bytes]:
    names = _TOKENIZER_NAMES[not tokenizers.shared]
    texts = (each.to_text().encode() for each in (tokenizers.source, tokenizers.target))
    return dict(zip(names, texts, strict=False))


def tokenizer_sha256(tokenizers: TokenizerPair) -> dict[str, str]:
    """Return the sha256, by name, of the tokenizer files that ``create_run`` writes."""
    return {
        name: hashlib.sha256(text).hexdigest()
        for name, text in _tokenizer_files(tokenizers).items()
    }


@dataclass(frozen=True)
class TrainedRun:
    """An opened run of ours; ``Run`` in ``model/runs.py`` says what its members are."""

    folder: Path
    info: RunInfo
    tokenizers: TokenizerPair
    listed_as: str = ""
    """Where that is not the name of its folder, the name under which it is listed."""
    adapter, choices = "", Choices()  # a run of ours has two languages

    @property
    def name(self) -> str:
        return self.listed_as or self.folder.name

    @property
    def source_language(self) -> str:
        return self.info.source_language

    @property
    def target_language(self) -> str:
        return self.info.target_language

    @property
    def data(self) -> DataSource | None:
        return self.info.data

    @property
    def planned_steps(self) -> int | None:
        return self.info.training.steps if self.info.training is not None else None

    @property
    def training(self) -> TrainingConfig | None:
        return self.info.training

    @property
    def config(self) -> TransformerConfig:
        return self.info.model

    @property
    def parameters(self) -> int:
        return self.info.parameters

    @property
    def tokenizers_sha256(self) -> str:
        return " ".join(sha256 for _, sha256 in sorted(self.info.tokenizer_sha256.items()))

    @property
    def description(self) -> Description:
        return self.info.model.description

    @property
    def remarks(self) -> tuple[str, ...]:
        return files.log_remarks(self.folder / name for name in ("metrics.jsonl", "samples.jsonl"))

    @property
    def ignored_settings(self) -> dict[str, Any]:
        return {}  # our decoding follows all that a run of ours has

    def for_languages(self, languages: Languages) -> TrainedRun:
        return self  # there is nothing to choose

    def weights_path(self, step: int) -> Path:
        return weights_path(self.folder, step)

    def load(self, step: int, dtype: torch.dtype = torch.float32) -> Checkpoint:
        return load_weights(self, step, dtype)

    def sha256(self, step: int) -> str:
        return str(header_of(self.folder, step).get("sha256"))

    def steps(self) -> list[int]:
        steps = steps_of(self.folder)
        if not steps:
            raise files.NoCheckpointYetError(
                f"{self.folder}: there are no weights yet; wait for the training, or train the run "
                "first"
            )
        return steps

    @cached_property
    def counts(self) -> Counts | None:
        if self.info.data is None:
            return None
        path = self.folder / "counts.json"
        content = files.read_bytes(path, within=self.folder)
        try:
            counts = validate_json(Counts, content)
            sizes = len(counts.source), len(counts.target)
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: expected source and target counts") from error
        if sizes != (expected := self.info.model.description.vocab_sizes):
            raise CheckpointError(f"{path}: expected {expected} counts, got {sizes}")
        return counts

    def metrics(self) -> list[dict[str, Any]]:
        """Read ``metrics.jsonl``, of a long one the last rows: of training, and of milestones.

        A row of training has ``train_loss``, a mean over batches with label smoothing and dropout.
        A milestone's has ``valid_loss`` and ``train_sample_loss``, of its weights without either.
        """
        return list(files.read_log(self.folder / "metrics.jsonl", last=files.MOST_OF_LOG))

    def samples(self) -> list[dict[str, Any]]:
        """Read ``samples.jsonl``: fixed sentences translated at each milestone."""
        return list(files.read_log(self.folder / "samples.jsonl", last=files.MOST_OF_LOG))


def open_trained_run(name: str, *, root: Path = CHECKPOINTS) -> TrainedRun:
    """Open a run by name and verify its tokenizers."""
    if name not in {path.name for path in _folders(root)}:
        known = ", ".join(path.name for path in _folders(root)) or "none"
        raise CheckpointError(f"no run named {name!r} in {root}; there is: {known}")
    folder = root / name
    try:
        info = RunInfo.from_json(files.read_json(folder / "run.json", within=folder))
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{folder / 'run.json'}: {error}") from error
    loaded = {}
    names = sorted(info.tokenizer_sha256)
    if names not in _TOKENIZER_NAMES:  # no file elsewhere is ever read
        raise CheckpointError(f"{folder / 'run.json'}: unknown tokenizer files {names}")
    for file, sha256 in info.tokenizer_sha256.items():
        content = files.read_bytes(folder / file, within=folder)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise CheckpointError(
                f"{folder / file}: altered, its sha256 is not the one in run.json; restore it"
            )
        try:
            loaded[file] = Tokenizer.from_text(content.decode())
        except ValueError as error:
            raise CheckpointError(f"{folder / file}: {error}") from error
    pair = TokenizerPair(loaded[names[0]], loaded[names[-1]], source_start=info.source_start)
    sizes = pair.source.vocab_size, pair.target.vocab_size
    if sizes != (expected := info.model.description.vocab_sizes):
        raise CheckpointError(
            f"{folder}: the model expects {expected} tokens, its tokenizers have {sizes}"
        )
    found = []  # each of them is checked when it is read
    for step in steps_of(folder):
        with suppress(CheckpointError):  # one that cannot be read says so when it is loaded
            if config := header_of(folder, step).get("config_sha256"):
                found.append(config)
    if found and sha256_of_config(info.model) not in found:
        raise CheckpointError(
            f"{folder / 'run.json'}: the model is not that of the weights in this folder; restore "
            "run.json, or the weights that belong to it"
        )
    return TrainedRun(folder, info, pair)


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob("*/run.json"))


def list_runs(root: Path = CHECKPOINTS) -> list[str]:
    """Return the names of folders with a ``run.json``, whether the run can be opened or not."""
    return [path.name for path in _folders(root)]


def load_weights(run: TrainedRun, step: int, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Load the weights of a step in this type and verify their hashes."""
    return read_weights(run.folder, run.info.model, run=run.info.name, step=step, dtype=dtype)
