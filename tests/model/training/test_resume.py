from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headwise.model.checkpoint import CheckpointError
from headwise.model.training.resume import (
    interrupt_between_steps,
    latest_resume_step,
    read_resume_state,
    restore,
    save_resume_state,
)
from headwise.model.transformer import Transformer

MakeModel = Callable[..., Transformer]
MakeIds = Callable[..., Tensor]

# Ctrl-C in a whole training is tested in test_loop.py and test_processes.py.


def test_an_interrupt_sets_the_flag_and_a_second_one_exits() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupt_between_steps() as asked:
        assert not asked()
        signal.raise_signal(signal.SIGINT)
        assert asked()
        with pytest.raises(SystemExit, match="stopped at once; --resume goes on"):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


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


def test_the_saved_state_is_restored_and_training_goes_on_as_if_never_stopped(
    make_model: MakeModel, make_ids: MakeIds, tmp_path: Path
) -> None:
    def train(model: Transformer, optimiser: torch.optim.Optimizer) -> None:
        for _ in range(3):
            model(make_ids([7], 37), make_ids([5], 41)).square().sum().backward()
            optimiser.step()
            optimiser.zero_grad()

    model = make_model()
    optimiser = adam(model)
    train(model, optimiser)
    loss = 0.1 + 0.2  # not 0.3
    save_resume_state(
        tmp_path, model, optimiser, step=3, tokens=5, unlogged_loss=loss, unlogged_tokens=2
    )
    other = make_model()
    with torch.no_grad():
        other.unembedding.weight.zero_()
    other_optimiser = adam(other)

    assert load(tmp_path, other, other_optimiser) == (3, 5)
    state = read_resume_state(tmp_path, model)
    assert (state.unlogged_loss, state.unlogged_tokens) == (loss, 2)

    for _ in range(2):  # as restored, and after more steps
        parameters = zip(model.named_parameters(), other.parameters(), strict=True)
        for (name, parameter), loaded in parameters:
            assert torch.equal(parameter, loaded), name
            moments, loaded_moments = optimiser.state[parameter], other_optimiser.state[loaded]
            assert moments.keys() == loaded_moments.keys() == {"step", "exp_avg", "exp_avg_sq"}
            assert all(torch.equal(moments[key], loaded_moments[key]) for key in moments), name
        train(model, optimiser)
        train(other, other_optimiser)


def test_only_the_last_state_is_kept(make_model: MakeModel, tmp_path: Path) -> None:
    """The one before the first step has no moments."""
    model = make_model()
    assert latest_resume_step(tmp_path) is None
    for step in (0, 7, 7, 11):
        save(tmp_path, model, step)
        assert latest_resume_step(tmp_path) == step
        assert folders(tmp_path) == [f"step-{step:07d}"]
        optimiser = adam(model)
        assert load(tmp_path, model, optimiser) == (step, 5)
        assert not any(optimiser.state.values())


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")])
def test_an_interrupted_save_leaves_the_former_state(
    make_model: MakeModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    model = make_model()
    save(tmp_path, model, 3)
    former = [parameter.clone() for parameter in model.parameters()]
    with torch.no_grad():
        model.unembedding.weight.zero_()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, model, 7)

    assert load(tmp_path, model, adam(model)) == (3, 5)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), former, strict=True))
    save(tmp_path, model, 7)
    assert folders(tmp_path) == ["step-0000007"]


def test_a_state_of_an_earlier_version_is_restored(make_model: MakeModel, tmp_path: Path) -> None:
    """It contains the number of processes, which no longer matters, and no loss."""
    model = make_model()
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
    make_model: MakeModel,
    tmp_path: Path,
    name: str,
    damage: bytes | Callable[[bytes], bytes] | None,
) -> None:
    model = make_model()
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
def test_the_state_of_another_model_is_refused(
    make_model: MakeModel, tmp_path: Path, changes: dict[str, int]
) -> None:
    save(tmp_path, make_model(), 3)
    other = make_model(**changes)
    with pytest.raises(CheckpointError, match="cannot be resumed from"):
        load(tmp_path, other, adam(other))
