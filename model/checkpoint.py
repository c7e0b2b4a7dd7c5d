"""Runs on disk: ``run.json``, tokenizers, counts and weights in ``checkpoints/<run>/``.

Weights are float16 safetensors, tied tensors once; nothing is ever pickled. Each of these files is
written under a temporary name and renamed. The header of a weights file names run, step and the
sha256 of configuration and tensors, so that a truncated, altered or foreign file is found out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from model.config import TransformerConfig, to_dict
from model.files import CheckpointError as CheckpointError
from model.files import read_bytes, read_json, read_log, write_bytes, write_json
from model.run_info import FORMAT_VERSION, Counts, RunInfo
from model.tokenizer import Tokenizer, TokenizerPair
from model.transformer import Transformer

CHECKPOINTS = Path(__file__).resolve().parents[1] / "checkpoints"
"""Where runs are kept unless told otherwise."""

_TOKENIZER_NAMES = (["tokenizer.json"], ["source.tokenizer.json", "target.tokenizer.json"])
_WEIGHTS_NAME = re.compile(r"step-(\d{7})\.safetensors")


def _sha256_of(config: TransformerConfig) -> str:
    return hashlib.sha256(json.dumps(to_dict(config), sort_keys=True).encode()).hexdigest()


# --- the run -------------------------------------------------------------------------------------


def create_run(folder: Path, info: RunInfo, tokenizers: TokenizerPair, counts: Counts) -> None:
    """Write ``run.json``, tokenizers and token counts into a new folder.

    Raises:
        CheckpointError: if there is a run already.
    """
    if (folder / "run.json").exists():
        raise CheckpointError(
            f"{folder}: there is a run already; go on with it by --resume or take another name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _tokenizer_files(tokenizers).items():
        write_bytes(folder / name, text)
    write_bytes(folder / "counts.json", json.dumps(vars(counts)).encode())
    write_info(folder, info)


def write_info(folder: Path, info: RunInfo) -> None:
    """Write ``run.json``, with which a folder becomes a run."""
    write_json(folder / "run.json", info.to_json())


def _tokenizer_files(tokenizers: TokenizerPair) -> dict[str, bytes]:
    if tokenizers.shared:
        return {"tokenizer.json": tokenizers.source.to_text().encode()}
    return {
        "source.tokenizer.json": tokenizers.source.to_text().encode(),
        "target.tokenizer.json": tokenizers.target.to_text().encode(),
    }


def tokenizer_sha256(tokenizers: TokenizerPair) -> dict[str, str]:
    """File name → sha256 of the tokenizer files that ``create_run`` writes."""
    return {
        name: hashlib.sha256(text).hexdigest()
        for name, text in _tokenizer_files(tokenizers).items()
    }


@dataclass(frozen=True)
class Run:
    """A run that could be opened: its folder, ``run.json`` and tokenizers."""

    folder: Path
    info: RunInfo
    tokenizers: TokenizerPair

    def steps(self) -> list[int]:
        """Steps whose weights are there, in order.

        Raises:
            CheckpointError: if there are none yet.
        """
        steps = steps_of(self.folder)
        if not steps:
            raise CheckpointError(f"{self.folder}: there are no weights yet; train the run first")
        return steps

    @cached_property
    def counts(self) -> Counts:
        """How often each id occurs in the training data.

        Raises:
            CheckpointError: if the file is missing, or does not fit the vocabulary.
        """
        path = self.folder / "counts.json"
        values = read_json(path)
        try:
            counts = Counts(**values)
            sizes = len(counts.source), len(counts.target)
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{path}: expected source and target counts") from error
        expected = self.info.model.source_vocab_size, self.info.model.target_vocab_size
        if sizes != expected:
            raise CheckpointError(f"{path}: expected {expected} counts, got {sizes}")
        return counts

    def metrics(self) -> list[dict[str, Any]]:
        """Rows of ``metrics.jsonl``: of training, and of milestones with ``valid_loss``."""
        return list(read_log(self.folder / "metrics.jsonl"))

    def samples(self) -> list[dict[str, Any]]:
        """Rows of ``samples.jsonl``: fixed sentences translated at each milestone."""
        return list(read_log(self.folder / "samples.jsonl"))


def open_run(name: str, *, root: Path = CHECKPOINTS) -> Run:
    """Open a run by name and verify its tokenizers.

    Raises:
        CheckpointError: if it is not there, one of its files is missing, altered or foreign, or its
            model is not that of its weights.
    """
    if name not in {path.name for path in _folders(root)}:
        known = ", ".join(path.name for path in _folders(root)) or "none"
        raise CheckpointError(f"no run named {name!r} in {root}; there is: {known}")
    folder = root / name
    try:
        info = RunInfo.from_json(read_json(folder / "run.json"))
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{folder / 'run.json'}: {error}") from error
    loaded = {}
    if not isinstance(info.tokenizer_sha256, dict):
        raise CheckpointError(f"{folder / 'run.json'}: expected an object under 'tokenizer_sha256'")
    names = sorted(info.tokenizer_sha256)
    if names not in _TOKENIZER_NAMES:  # no file elsewhere is ever read
        raise CheckpointError(f"{folder / 'run.json'}: unknown tokenizer files {names}")
    for file, sha256 in info.tokenizer_sha256.items():
        content = read_bytes(folder / file)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise CheckpointError(
                f"{folder / file}: altered, its sha256 is not the one in run.json; restore it"
            )
        try:
            loaded[file] = Tokenizer.from_text(content.decode())
        except ValueError as error:
            raise CheckpointError(f"{folder / file}: {error}") from error
    pair = TokenizerPair(loaded[names[0]], loaded[names[-1]])
    sizes = pair.source.vocab_size, pair.target.vocab_size
    expected = info.model.source_vocab_size, info.model.target_vocab_size
    if sizes != expected:
        raise CheckpointError(
            f"{folder}: the model expects {expected} pieces, its tokenizers have {sizes}"
        )
    _check_config(folder, info)
    return Run(folder, info, pair)


def _check_config(folder: Path, info: RunInfo) -> None:
    """Refuse a model that is that of none of the weights; each file is checked when it is read."""
    headers = [config for step in steps_of(folder) if (config := _config_of(folder, step))]
    if headers and _sha256_of(info.model) not in headers:
        raise CheckpointError(
            f"{folder / 'run.json'}: the model is not that of the weights in this folder; restore "
            "run.json, or the weights that belong to it"
        )


def _config_of(folder: Path, step: int) -> str | None:
    """What the header of a weights file calls its configuration; None where it has no header."""
    try:
        with safe_open(weights_path(folder, step), "numpy") as file:
            return (file.metadata() or {}).get("config_sha256")
    except (SafetensorError, OSError):
        return None


def _folders(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob("*/run.json"))


def list_runs(root: Path = CHECKPOINTS) -> list[str]:
    """Names of the folders that hold a ``run.json``, whether it can be opened or not."""
    return [path.name for path in _folders(root)]


# --- weights -------------------------------------------------------------------------------------


def steps_of(folder: Path) -> list[int]:
    """Steps of the weights files in a run's folder, in order."""
    matches = (_WEIGHTS_NAME.fullmatch(path.name) for path in folder.glob("step-*.safetensors"))
    return sorted(int(match[1]) for match in matches if match)


def weights_path(folder: Path, step: int) -> Path:
    """The weights file of a step."""
    return folder / f"step-{step:07d}.safetensors"


def _split_file(content: bytes) -> tuple[dict[str, Any], bytes, dict[str, str]]:
    """Tensor table, tensor bytes and metadata of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header, content[8 + length :], header.pop("__metadata__", {})


def _sha256_of_tensors(content: bytes) -> str:
    table, tensors, _ = _split_file(content)
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode() + tensors).hexdigest()


def save_weights(folder: Path, model: Transformer, *, run: str, step: int) -> str:
    """Write the weights of a step in float16; their sha256 comes back."""
    tensors = {
        name: parameter.detach().to("cpu", torch.float16).contiguous()
        for name, parameter in model.named_parameters()  # tied ones once
    }
    sha256 = _sha256_of_tensors(safetensors.torch.save(tensors))
    metadata = {
        "format_version": str(FORMAT_VERSION),
        "run": run,
        "step": str(step),
        "config_sha256": _sha256_of(model.config),
        "sha256": sha256,
    }
    write_bytes(weights_path(folder, step), safetensors.torch.save(tensors, metadata))
    return sha256


@dataclass(frozen=True)
class Checkpoint:
    """A model in evaluation mode, float32, and what identifies it."""

    model: Transformer
    run: str
    step: int
    sha256: str


def load_weights(run: Run, step: int) -> Checkpoint:
    """Read the weights of a step, with all their hashes verified.

    Raises:
        CheckpointError: if the file is missing, truncated, altered or foreign.
    """
    path = weights_path(run.folder, step)
    if not path.exists():
        known = ", ".join(f"{s:,}" for s in steps_of(run.folder)) or "none"
        raise CheckpointError(f"{path}: no weights of step {step:,}; there are those of: {known}")
    content = read_bytes(path)
    try:
        tensors = safetensors.torch.load(content)
        _, _, metadata = _split_file(content)
    except (SafetensorError, ValueError, KeyError) as error:  # the last: a type torch has not
        raise CheckpointError(
            f"{path}: truncated, or not safetensors ({error}); restore the file or remove it"
        ) from error
    expected = {
        "format_version": str(FORMAT_VERSION),
        "run": run.info.name,
        "step": str(step),
        "config_sha256": _sha256_of(run.info.model),
        "sha256": _sha256_of_tensors(content),
    }
    for key, value in expected.items():
        if metadata.get(key) != value:
            raise CheckpointError(
                f"{path}: altered or foreign: its {key} should be {value}, the header says "
                f"{metadata.get(key)}; restore the file or remove it"
            )
    with torch.device("meta"):  # to draw weights that are then replaced took half of the time
        model = Transformer(run.info.model)
    _fill(model, tensors, path)
    return Checkpoint(model.for_inference(), run.info.name, step, metadata["sha256"])


def open_checkpoint(name: str, step: int | None, root: Path) -> tuple[Run, Checkpoint]:
    """A run and its checkpoint at a step, or its last one.

    Raises:
        CheckpointError: if the run has no checkpoint, or this one cannot be used.
    """
    run = open_run(name, root=root)
    return run, load_weights(run, run.steps()[-1] if step is None else step)


def _fill(model: Transformer, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Give a model these tensors as its parameters, in float32 and without gradients."""
    parameters = dict(model.named_parameters())
    if odd := sorted(set(parameters) ^ set(tensors)):
        raise CheckpointError(
            f"{path}: expected {len(parameters)} tensors, got {len(tensors)}; they differ in "
            f"{', '.join(odd[:3])} (a tied tensor is stored once)"
        )
    read: dict[nn.Parameter, nn.Parameter] = {}
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            raise CheckpointError(
                f"{path}: {name}: expected shape {tuple(parameter.shape)}, "
                f"got {tuple(tensors[name].shape)}"
            )
        if not tensors[name].isfinite().all():
            raise CheckpointError(
                f"{path}: {name}: expected finite numbers, got others: the training diverged, or "
                "its weights are beyond float16"
            )
        read[parameter] = nn.Parameter(tensors[name].float(), requires_grad=False)
    for module in model.modules():  # those that are tied are one parameter of several modules
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, read[parameter])
