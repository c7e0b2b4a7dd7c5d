"""Further checkpoints of a training are filled into copies of the modules of its first."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

import headwise.model.pretrained.model as wrapped
from headwise.model.hooks import edit, hook_names
from headwise.model.interface import Seq2SeqModel
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.runs import open_run
from headwise.model.turned import AS_IT_IS, Turned
from headwise.viz_app.records.trace import AS_TRANSFORMERS, Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.model.pretrained.tiny import MAKES, WEIGHTS, MakeFolder, Twins, build, inputs, run

SOURCE, TARGET = torch.tensor([[3, 5, 4, 6]]), torch.tensor([[1, 7, 8]])


@pytest.fixture(params=["t5", "bart", "marian_separate", "bert2gpt2"])
def two(request: pytest.FixtureRequest, make_folder: MakeFolder, tmp_path: Path) -> Path:
    """The folder of a training, with two checkpoints whose weights differ."""
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


def test_a_second_checkpoint_is_as_if_alone(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


TEXT, TRANSLATION = "The cat sleeps.", "El gato duerme."


def _hide_end(patch: pytest.MonkeyPatch) -> None:
    """As if padding and ``</s>`` were told apart by nothing."""

    def mask(ids: Tensor) -> Tensor:
        return (torch.arange(ids.shape[1]) < ids.shape[1] - 1).expand(len(ids), 1, 1, -1)

    patch.setattr(wrapped, "padding_mask_if_padded", mask)


@pytest.mark.parametrize("name", ["bart", "t5", "bert2gpt2"])
def test_an_error_that_is_in_all_our_passes_fails_the_check_and_no_other(
    name: str, make_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_run(str(make_folder(name)))
    model = opened.load(0).model
    _hide_end(monkeypatch)
    checks = run_trace(model, opened.tokenizers, TEXT, TRANSLATION).checks
    assert [check.name for check in checks if not check.passed] == [AS_TRANSFORMERS]


def test_it_is_absent_where_a_pass_is_edited(make_folder: MakeFolder) -> None:
    opened = open_run(str(make_folder("bart")))
    model = opened.load(0).model

    def checked(turned: Turned = AS_IT_IS) -> bool:
        trace: Trace = run_trace(model, opened.tokenizers, TEXT, TRANSLATION, turned=turned)
        return AS_TRANSFORMERS in [check.name for check in trace.checks]

    assert checked()
    assert not checked(Turned.off([("cross", 0, 0)]))
    assert not checked(Turned(pinned=Turned.of({}, [(("cross", 1, 0), 1, 1)]).pinned))
    with edit(model, {"decoder.layers.0.output": lambda x: 2 * x}):
        assert not checked()
    with edit(build("bart").ours, {"decoder.layers.0.output": lambda x: 2 * x}):
        assert checked()  # what is edited is another model


@pytest.mark.parametrize("name", MAKES)
def test_it_takes_no_weights_and_leaves_the_model_as_it_is(
    name: str, make_twins: Callable[[str], Twins]
) -> None:
    twins = make_twins(name)
    model = twins.ours
    source, target = inputs(twins, 7)
    names, plain = hook_names(model), run(model, source, target)
    places = {tensor.data_ptr() for tensor in model.inner.state_dict().values()}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.reference(source, target), range(5)))
    twin = model._eager._twin
    assert {tensor.data_ptr() for tensor in twin.state_dict().values()} == places
    assert all(a is b for a, b in zip(twin.parameters(), model.inner.parameters(), strict=True))
    assert all(torch.equal(each.logits, found[0].logits) for each in found)
    assert (twin.config._attn_implementation, model.inner.config._attn_implementation) == (
        "eager",
        ATTENTION,
    )
    assert hook_names(model) == names
    assert torch.equal(run(model, source, target), plain)


def test_it_follows_weights_that_are_changed_or_moved() -> None:
    twins = build("marian")
    model, (source, target) = twins.ours, inputs(twins, 7)
    before = model.reference(source, target).logits
    with torch.no_grad():
        model.inner.model.decoder.layers[0].fc1.weight *= 2
    changed = model.reference(source, target).logits
    assert not torch.allclose(changed, before)
    model.double()
    assert model.reference(source, target).logits.dtype == torch.float64
    model.inner.lm_head.weight = torch.nn.Parameter(torch.zeros_like(model.inner.lm_head.weight))
    bias = model.inner.final_logits_bias[0]
    assert torch.equal(model.reference(source, target).logits[0, 0], bias)
