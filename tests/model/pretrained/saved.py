"""What tests change in folders that ``transformers`` has saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

MakeFolder = Callable[[str], Path]
"""The fixture ``make_folder``: from a name of ``FOLDERS`` to a folder."""
WEIGHTS = "model.safetensors"


def change_json(path: Path, **values: Any) -> None:
    """Change values of an object in a file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def trainer_state(step: int, **values: Any) -> str:
    """Return what the Trainer writes at a step, with these changes."""
    rows = [
        {"step": 10, "loss": 2.5, "learning_rate": 1e-3, "grad_norm": float("nan"), "epoch": 0.5},
        {"step": step, "eval_loss": 2.0, "eval_bleu": 12.5, "eval_runtime": 3.0},
    ]
    return json.dumps({"global_step": step, "max_steps": 60, "log_history": rows} | values)
