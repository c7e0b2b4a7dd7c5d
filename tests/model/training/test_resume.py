from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headwise.model.checkpoint import CheckpointError
from headwise.model.training.resume import (
    latest_resume_step,
    read_resume_state,
    restore,
    save_resume_state,
)
from headwise.model.transformer import Transformer

MakeModel = Callable[..., Transformer]
MakeIds = Callable[..., Tensor]


def adam(model: Transformer) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)


def load(folder: Path, model: Transformer, optimiser: torch.optim.Optimizer) -> tuple[int, int]:
    state = read_resume_state(folder)
    restore(state, model, optimiser)
    return state.step, state.tokens


def train(
    model: Transformer, optimiser: torch.optim.Optimizer, make_ids: MakeIds, *, steps: int
) -> None:
    for _ in range(steps):
        model(make_ids([7], 37), make_ids([5], 41)).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()


def test_the_saved_state_is_restored(
    make_model: MakeModel, make_ids: MakeIds, tmp_path: Path
) -> None:
    model = make_model()
    optimiser = adam(model)
    train(model, optimiser, make_ids, steps=3)
    loss = 0.1 + 0.2  # not 0.3
    save_resume_state(
        tmp_path, model, optimiser, step=3, tokens=5, unlogged_loss=loss, unlogged_tokens=2
    )
    other = make_model(dropout=0.5)
    with torch.no_grad():
        other.unembedding.weight.zero_()
    other_optimiser = adam(other)

    assert load(tmp_path, other, other_optimiser) == (3, 5)
    state = read_resume_state(tmp_path)
    assert (state.unlogged_loss, state.unlogged_tokens) == (loss, 2)

    parameters = zip(model.named_parameters(), other.parameters(), strict=True)
    for (name, parameter), loaded in parameters:
        assert torch.equal(parameter, loaded), name
        moments, loaded_moments = optimiser.state[parameter], other_optimiser.state[loaded]
        assert moments.keys() == loaded_moments.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(moments[key], loaded_moments[key]) for key in moments), name


def test_training_resumes_as_if_never_stopped(
    make_model: MakeModel, make_ids: MakeIds, tmp_path: Path
) -> None:
    model, other = make_model(), make_model()
    optimiser, other_optimiser = adam(model), adam(other)
    train(model, optimiser, make_ids, steps=2)
    save_resume_state(tmp_path, model, optimiser, step=2, tokens=5)
    load(tmp_path, other, other_optimiser)
    train(model, optimiser, make_ids, steps=3)
    train(other, other_optimiser, make_ids, steps=3)
    for parameter, resumed in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(parameter, resumed)


def test_a_state_before_the_first_step_has_no_moments(
    make_model: MakeModel, tmp_path: Path
) -> None:
    model = make_model()
    save_resume_state(tmp_path, model, adam(model), step=0, tokens=5)
    optimiser = adam(model)
    assert load(tmp_path, model, optimiser) == (0, 5)
    assert not any(optimiser.state.values())


def test_only_the_last_state_is_kept(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    assert latest_resume_step(tmp_path) is None
    for step in (3, 7, 7, 11):
        save_resume_state(tmp_path, model, adam(model), step=step, tokens=5)
        assert latest_resume_step(tmp_path) == step
        assert [path.name for path in (tmp_path / "resume").iterdir()] == [f"step-{step:07d}"]


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")])
def test_an_interrupted_save_leaves_the_former_state(
    make_model: MakeModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
) -> None:
    model = make_model()
    save_resume_state(tmp_path, model, adam(model), step=3, tokens=5)
    former = [parameter.clone() for parameter in model.parameters()]
    with torch.no_grad():
        model.unembedding.weight.zero_()

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        with pytest.raises(KeyboardInterrupt):
            save_resume_state(tmp_path, model, adam(model), step=7, tokens=5)

    assert load(tmp_path, model, adam(model)) == (3, 5)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), former, strict=True))
    save_resume_state(tmp_path, model, adam(model), step=7, tokens=5)
    assert [path.name for path in (tmp_path / "resume").iterdir()] == ["step-0000007"]


def test_a_state_of_an_earlier_version_is_restored(make_model: MakeModel, tmp_path: Path) -> None:
    """It contains the number of processes, which no longer matters, and no loss."""
    model = make_model()
    save_resume_state(tmp_path, model, adam(model), step=3, tokens=5)
    state = tmp_path / "resume" / "step-0000003" / "state.json"
    state.write_text('{"step": 3, "tokens": 7, "processes": 4}')
    assert load(tmp_path, model, adam(model)) == (3, 7)
    assert read_resume_state(tmp_path).unlogged_loss == 0
    assert read_resume_state(tmp_path).unlogged_tokens == 0


def test_a_missing_state_is_named(make_model: MakeModel, tmp_path: Path) -> None:
    model = make_model()
    with pytest.raises(CheckpointError, match="no resume state; remove the folder and start"):
        load(tmp_path, model, adam(model))


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _empty(path: Path) -> None:
    path.with_name("state.json").write_text("[]")


def _deep(path: Path) -> None:
    path.with_name("state.json").write_text("[" * 100_000)


def _endless(path: Path) -> None:
    path.with_name("state.json").write_text('{"step": 3, "tokens": Infinity}')


def _endless_loss(path: Path) -> None:
    path.with_name("state.json").write_text('{"step": 3, "tokens": 5, "unlogged_loss": Infinity}')


def _half_a_token(path: Path) -> None:
    path.with_name("state.json").write_text('{"step": 3, "tokens": 5, "unlogged_tokens": 0.5}')


def _foreign_type(path: Path) -> None:
    """Set the type of the first tensor to one that safetensors has and torch does not."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    first = min(header)
    header[first] |= {"dtype": "F8_E8M0", "shape": [*header[first]["shape"], 4]}
    changed = json.dumps(header).encode()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + content[8 + length :])


@pytest.mark.parametrize(
    "break_it",
    [Path.unlink, _truncate, _empty, _deep, _endless, _endless_loss, _half_a_token, _foreign_type],
)
def test_a_broken_state_is_named(
    make_model: MakeModel, tmp_path: Path, break_it: Callable[[Path], None]
) -> None:
    model = make_model()
    save_resume_state(tmp_path, model, adam(model), step=3, tokens=5)
    break_it(tmp_path / "resume" / "step-0000003" / "state.safetensors")
    with pytest.raises(CheckpointError, match=r"state\.safetensors: cannot be resumed from"):
        load(tmp_path, model, adam(model))


@pytest.mark.parametrize("changes", [{"d_ff": 29}, {"n_decoder_layers": 3}])
def test_the_state_of_another_model_is_refused(
    make_model: MakeModel, tmp_path: Path, changes: dict[str, int]
) -> None:
    save_resume_state(tmp_path, make_model(), adam(make_model()), step=3, tokens=5)
    other = make_model(**changes)
    with pytest.raises(CheckpointError, match="cannot be resumed from"):
        load(tmp_path, other, adam(other))
