from __future__ import annotations

import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from headwise.model.checkpoint import CheckpointError
from headwise.model.training.resume import (
    interrupt_between_steps,
    read_resume_state,
    restore,
    save_resume_state,
)
from headwise.model.transformer import Transformer
from tests.tiny import tiny_model

# Ctrl-C in a whole training is tested in test_loop.py and test_processes.py.


def test_in_another_thread_the_handler_is_not_changed() -> None:
    def look() -> object:
        with interrupt_between_steps() as asked:
            assert not asked()
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(look).result() == signal.getsignal(signal.SIGINT)


# The saved state


def adam(model: Transformer) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)


def save(folder: Path, model: Transformer, step: int) -> None:
    save_resume_state(folder, model, adam(model), step=step, tokens=5)


def load(folder: Path, model: Transformer, optimiser: torch.optim.Optimizer) -> tuple[int, int]:
    state = read_resume_state(folder, model)
    restore(state, model, optimiser)
    return state.step, state.tokens


def folders(folder: Path) -> list[str]:
    return [path.name for path in (folder / "resume").iterdir()]


def test_a_state_of_an_earlier_version_is_restored(tmp_path: Path) -> None:
    """It contains the number of processes, which no longer matters, and no loss."""
    model = tiny_model()
    save(tmp_path, model, 3)
    state = tmp_path / "resume" / "step-0000003" / "state.json"
    state.write_text('{"step": 3, "tokens": 7, "processes": 4}')
    assert load(tmp_path, model, adam(model)) == (3, 7)
    read = read_resume_state(tmp_path, model)
    assert (read.unlogged_loss, read.unlogged_tokens) == (0, 0)


def _foreign_type(content: bytes) -> bytes:
    """Set the type of the first tensor to one that safetensors has and torch does not."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    first = min(header)
    header[first] |= {"dtype": "F8_E8M0", "shape": [*header[first]["shape"], 4]}
    changed = json.dumps(header).encode()
    return len(changed).to_bytes(8, "little") + changed + content[8 + length :]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("state.safetensors", None),
        ("state.safetensors", lambda content: content[:-1]),
        ("state.safetensors", _foreign_type),
        ("state.json", None),
        ("state.json", b"[]"),
        ("state.json", b"[" * 100_000),
        ("state.json", b'{"step": 3, "tokens": Infinity}'),
        ("state.json", b'{"step": 3, "tokens": 5, "unlogged_loss": Infinity}'),
        ("state.json", b'{"step": 3, "tokens": 5, "unlogged_tokens": 0.5}'),
    ],
)
def test_a_missing_or_broken_state_is_named(
    tmp_path: Path, name: str, damage: bytes | Callable[[bytes], bytes] | None
) -> None:
    model = tiny_model()
    with pytest.raises(CheckpointError, match="no resume state; remove the folder and start"):
        load(tmp_path, model, adam(model))
    save(tmp_path, model, 3)
    path = tmp_path / "resume" / "step-0000003" / name
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage if isinstance(damage, bytes) else damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"state\.safetensors: cannot be resumed from"):
        load(tmp_path, model, adam(model))


@pytest.mark.parametrize("changes", [{"d_ff": 29}, {"n_decoder_layers": 3}])
def test_the_state_of_another_model_is_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    save(tmp_path, tiny_model(), 3)
    other = tiny_model(**changes)
    with pytest.raises(CheckpointError, match="cannot be resumed from"):
        load(tmp_path, other, adam(other))
