"""Further checkpoints of a training are filled into copies of the modules of its first."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from headwise.model.files import CheckpointError
from headwise.model.interface import Seq2SeqModel
from headwise.model.pretrained.run import PretrainedRun
from tests.model.pretrained.tiny import FOLDERS, WEIGHTS, MakeFolder

SOURCE, TARGET = torch.tensor([[3, 5, 4, 6]]), torch.tensor([[1, 7, 8]])


@pytest.fixture(params=FOLDERS)
def two(request: pytest.FixtureRequest, make_folder: MakeFolder, tmp_path: Path) -> Path:
    """The folder of a training of each family, with two checkpoints whose weights differ."""
    return _two(make_folder(request.param), tmp_path)


def _two(single: Path, root: Path) -> Path:
    for step in (1, 2):
        place = shutil.copytree(single, root / "training" / f"checkpoint-{step}")
        weights = load_file(place / WEIGHTS)
        save_file({name: step * x for name, x in weights.items()}, place / WEIGHTS)
    return root / "training"


def _logits(model: Seq2SeqModel) -> torch.Tensor:
    with torch.inference_mode():
        return model.unembed(model.decode(TARGET, *model.encode(SOURCE)))


def test_a_second_checkpoint_is_as_if_it_were_the_only_one(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = PretrainedRun(two, "alone").load(2).model
    run = PretrainedRun(two, "both")
    first = run.load(1).model
    before = _logits(first)
    monkeypatch.delattr(PreTrainedModel, "from_pretrained")  # which is not asked again
    second = run.load(2).model
    assert torch.equal(_logits(second), _logits(expected))
    assert torch.equal(_logits(first), before)
    assert not torch.equal(before, _logits(second))
    reference = second.reference(SOURCE, TARGET).logits
    torch.testing.assert_close(_logits(second), reference, rtol=1e-4, atol=1e-4)


def test_a_checkpoint_with_other_tensors_is_refused_as_the_first_would_be(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    folder = _two(make_folder("marian"), tmp_path)
    path = folder / "checkpoint-2" / WEIGHTS
    weights = load_file(path)
    lost = next(name for name in weights if "layers.1" in name)
    save_file({name: x for name, x in weights.items() if name != lost}, path)
    run = PretrainedRun(folder, "both")
    run.load(1)
    with pytest.raises(CheckpointError, match=f"missing tensors: {lost}"):
        run.load(2)


def test_weights_that_are_not_numbers_are_refused_in_a_second_checkpoint(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    folder = _two(make_folder("t5"), tmp_path)
    path = folder / "checkpoint-2" / WEIGHTS
    weights = load_file(path)
    name = sorted(weights)[0]
    weights[name].view(-1)[0] = float("nan")
    save_file(weights, path)
    run = PretrainedRun(folder, "both")
    run.load(1)
    with pytest.raises(CheckpointError, match="expected finite numbers"):
        run.load(2)


def test_a_file_is_hashed_once_until_it_is_another(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = PretrainedRun(_two(make_folder("t5"), tmp_path), "both")
    before = run.load(1).sha256
    with monkeypatch.context() as patch:
        patch.delattr(hashlib, "file_digest")  # which reads it
        assert run.sha256(1) == before
    path = run.weights_path(1)
    weights = load_file(path)
    save_file({name: 3 * x for name, x in weights.items()}, path)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))  # however coarse the system's clock is
    assert run.sha256(1) != before
    assert run.load(1).sha256 == run.sha256(1)
