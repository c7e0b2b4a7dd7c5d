"""Stop a training and go on with it: its saved state, ``resume/step-…/`` in a run's folder.

Weights and Adam's moments in float32 (safetensors), and a small JSON with the step, the target
tokens so far, and the loss that no line of the log has yet. There is no state of random generators
or of the data: both follow from seed and step, with any number of processes. The folder is written
atomically; only then is the previous one removed.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from headwise.model.budget import why_too_large
from headwise.model.checkpoint import TrainedRun
from headwise.model.config import DataSource, TrainingConfig, to_dict
from headwise.model.files import CheckpointError, read_bytes, read_json, write_folder
from headwise.model.training.data import Data
from headwise.model.training.options import TrainArguments
from headwise.model.training.schedule import learning_rate
from headwise.model.transformer import Transformer
from headwise.model.weights import require_whole, shapes_of

_MOST_BYTES = 16 * 2**30
"""Most bytes of the saved weights and moments."""
_NAME = re.compile(r"step-(\d{7})")


def _folders(run_folder: Path) -> dict[int, Path]:
    matches = ((_NAME.fullmatch(p.name), p) for p in (run_folder / "resume").glob("step-*"))
    return {int(match[1]): path for match, path in matches if match}


def latest_resume_step(run_folder: Path) -> int | None:
    """Return the last step that the run can be resumed from; None if there is none."""
    return max(_folders(run_folder), default=None)


def save_resume_state(
    run_folder: Path,
    model: Transformer,
    optimiser: torch.optim.Optimizer,
    *,
    step: int,
    tokens: int,
    unlogged_loss: float = 0.0,
    unlogged_tokens: int = 0,
) -> None:
    """Write the state after ``step`` steps and ``tokens`` target tokens; remove earlier states.

    Since the last line of the log, ``unlogged_tokens`` tokens had a summed loss of
    ``unlogged_loss`` nats. If it cannot be written, a CheckpointError, the earlier state stays.
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensors[f"weights/{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    target = run_folder / "resume" / f"step-{step:07d}"
    unlogged = {"unlogged_loss": unlogged_loss, "unlogged_tokens": unlogged_tokens}
    values = json.dumps({"step": step, "tokens": tokens, **unlogged}).encode()
    if not target.exists():  # the state of a step is the same each time
        saved = safetensors.torch.save(tensors)
        write_folder(target, {"state.safetensors": saved, "state.json": values})
    for earlier, folder in _folders(run_folder).items():
        if earlier != step:
            shutil.rmtree(folder)


@dataclass(frozen=True)
class ResumeState:
    """A saved training state, with tensors on the CPU."""

    path: Path
    step: int
    tokens: int
    unlogged_loss: float
    unlogged_tokens: int
    tensors: dict[str, Tensor]


def read_resume_state(run_folder: Path, model: Transformer) -> ResumeState:
    """Read the latest saved state of a model; that of another model is a CheckpointError."""
    step = latest_resume_step(run_folder)
    if step is None:
        raise CheckpointError(
            f"{run_folder}: no resume state; remove the folder and start the training again"
        )
    path = _folders(run_folder)[step] / "state.safetensors"
    try:
        require_whole(path, within=run_folder)
        _check_shapes(shapes_of(path, within=run_folder), model)
        if told := why_too_large(2 * path.stat().st_size):
            raise ValueError(told)
        # From bytes: a mapped file could not be removed on Windows.
        tensors = safetensors.torch.load(read_bytes(path, within=run_folder, most=_MOST_BYTES))
        values = read_json(path.with_name("state.json"), within=run_folder)
        tokens = values["tokens"]
        # States of earlier versions have neither.
        loss, unlogged = values.get("unlogged_loss", 0.0), values.get("unlogged_tokens", 0)
        for name, value in (("tokens", tokens), ("unlogged_tokens", unlogged)):
            if type(value) is not int or value < 0:
                raise ValueError(f"{name}: expected a whole number, got {value!r:.40}")
        if type(loss) is not float or not 0 <= loss < math.inf:
            raise ValueError(f"unlogged_loss: expected a number from 0 on, got {loss!r:.40}")
    except (SafetensorError, CheckpointError, KeyError, ValueError, TypeError) as error:
        raise _unusable(path, error) from error
    return ResumeState(path, step, tokens, loss, unlogged, tensors)


def _check_shapes(found: Mapping[str, tuple[int, ...]], model: Transformer) -> None:
    """Refuse, by a ValueError, tensors of another model before they are read."""
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    for name, shape in found.items():
        part, _, of = name.partition("/")
        expected = () if part == "step" else shapes.get(of)
        if shape != expected:
            raise ValueError(f"{name}: expected the shape {expected} of the model, got {shape}")


def restore(state: ResumeState, model: Transformer, optimiser: torch.optim.Optimizer) -> None:
    """Load saved weights and Adam's moments into a model, which they must fit, and an optimiser."""
    tensors = state.tensors
    try:
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(tensors[f"weights/{name}"])
                optimiser.state[parameter] = {
                    key: tensors[f"{key}/{name}"].to(parameter.device)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"{key}/{name}" in tensors
                }
    except (KeyError, RuntimeError) as error:
        raise _unusable(state.path, error) from error


def _unusable(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{path}: cannot be resumed from ({error})")


def refuse_changes(
    run: TrainedRun, source: DataSource, arguments: TrainArguments, data: Data
) -> None:
    """Raise ``CheckpointError`` if a run began with other data, languages, tokenizer or model."""
    info = run.info
    # The vocabulary sizes in the arguments are only upper limits.
    model, begun_model = (
        {key: value for key, value in to_dict(m).items() if not key.endswith("vocab_size")}
        for m in (arguments.model, info.model)
    )
    for name, given, begun in (
        ("training data", data.train.sha256, source.train_sha256),
        ("number of pairs left out", data.left_out, source.left_out),
        ("validation data", data.valid.sha256, source.valid_sha256),
        ("source language", arguments.source, info.source_language),
        ("target language", arguments.target, info.target_language),
        ("tokenizer", arguments.tokenizer, run.tokenizers.source.kind),
        ("model", model, begun_model),
    ):
        if given != begun:
            raise CheckpointError(
                f"{run.folder}: the {name} is not that which the run began with: expected {begun}, "
                f"got {given}"
            )


def changed_end(
    folder: Path, old: TrainingConfig, *, wanted: TrainingConfig, step: int
) -> TrainingConfig:
    """Return the wanted training; ``CheckpointError`` if it would change a step up to ``step``."""
    free = {"steps", "decay_steps", "milestones", "log_every", "resume_every"}
    fixed = {
        f"--training.{name.replace('_', '-')}": " ".join(map(str, value))
        if isinstance(value, tuple)
        else value
        for name, value in vars(old).items()
        if name not in free and value != getattr(wanted, name)
    }
    if fixed:
        raise CheckpointError(
            f"{folder}: a resumed training keeps its {', '.join(fixed)}; "
            f"give {' '.join(f'{option} {value}' for option, value in fixed.items())}"
        )

    def past(training: TrainingConfig) -> list[float]:
        rates = [learning_rate(s, training) for s in range(1, step + 1)]
        return [*rates, *(s for s in training.all_milestones if s <= step)]

    if past(old) != past(wanted) or wanted.steps < step:
        raise CheckpointError(
            f"{folder}: step {step:,} is behind it already, and the changed steps, decay or "
            "milestones would have made that part differ; leave them as they were"
        )
    return wanted


@contextmanager
def interrupt_between_steps() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end between two steps, a second at once; yield whether it was pressed."""
    asked = threading.Event()

    def ask(*_: object) -> None:
        if asked.is_set():
            sys.exit("\nstopped at once; --resume goes on from the state that was saved last")
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
