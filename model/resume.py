"""The state from which a training goes on: ``resume/step-…/`` in a run's folder.

Weights and Adam's moments in float32 (safetensors) and a small JSON. There is no state of random
generators or of the data: both follow from seed, step and the number of processes. The folder is
written as a whole; the one before it is removed after that.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from model.files import CheckpointError, write_folder
from model.transformer import Transformer

_NAME = re.compile(r"step-(\d{7})")


def _folders(run_folder: Path) -> dict[int, Path]:
    matches = ((_NAME.fullmatch(p.name), p) for p in (run_folder / "resume").glob("step-*"))
    return {int(match[1]): path for match, path in matches if match}


def latest_resume_step(run_folder: Path) -> int | None:
    """The last step from which the run can go on; None if there is none."""
    return max(_folders(run_folder), default=None)


def save_resume_state(
    run_folder: Path,
    model: Transformer,
    optimiser: torch.optim.Optimizer,
    *,
    step: int,
    tokens: int,
    processes: int = 1,
) -> None:
    """Write the state after ``step``, ``tokens`` target pieces, and remove the earlier ones.

    Raises:
        CheckpointError: if it cannot be written; the earlier one is then still there.
    """
    tensors: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        tensors[f"weights/{name}"] = parameter.detach().cpu().contiguous()
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    target = run_folder / "resume" / f"step-{step:07d}"
    if not target.exists():  # the state of a step is the same each time
        progress = {"step": step, "tokens": tokens, "processes": processes}
        write_folder(
            target,
            {
                "state.safetensors": safetensors.torch.save(tensors),
                "state.json": json.dumps(progress).encode(),
            },
        )
    for earlier, folder in _folders(run_folder).items():
        if earlier != step:
            shutil.rmtree(folder)


def load_resume_state(
    run_folder: Path, model: Transformer, optimiser: torch.optim.Optimizer, *, processes: int = 1
) -> tuple[int, int]:
    """Put weights and moments back; the step they were saved after, and its tokens, come back.

    Raises:
        CheckpointError: if there is no state, or it does not fit the model, or another number of
            processes, whose batches would not follow.
    """
    step = latest_resume_step(run_folder)
    if step is None:
        raise CheckpointError(
            f"{run_folder}: no resume state; remove the folder and start the training again"
        )
    path = _folders(run_folder)[step] / "state.safetensors"
    try:
        # From bytes: a mapped file could not be removed on Windows.
        tensors = safetensors.torch.load(path.read_bytes())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(tensors[f"weights/{name}"])
                optimiser.state[parameter] = {
                    key: tensors[f"{key}/{name}"].to(parameter.device)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"{key}/{name}" in tensors
                }
        progress = json.loads(path.with_name("state.json").read_text())
        tokens, begun = int(progress["tokens"]), int(progress["processes"])
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be resumed from ({error})") from error
    if begun != processes:
        raise CheckpointError(
            f"{path}: expected {begun} processes, with which the run began, got {processes}"
        )
    return step, tokens
