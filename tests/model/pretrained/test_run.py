"""Folders of models and of trainings, whole and damaged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.model.decoding.greedy import greedy
from headwise.model.files import CheckpointError
from headwise.model.placement import Placement
from headwise.model.pretrained.folders import is_pretrained
from headwise.model.pretrained.quiet import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.runs import load_checkpoint, open_run
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.model.pretrained.saved import WEIGHTS, MakeFolder, change_json
from tests.model.pretrained.tiny import random_ids


@pytest.mark.parametrize("name", ["t5", "marian", "marian_separate", "bart", "mbart", "nllb"])
def test_trace_of_a_sentence_passes_its_checks(name: str, make_folder: MakeFolder) -> None:
    run = open_run(str(make_folder(name)))
    loaded = run.load(run.steps()[-1])
    for target in (None, "El gato duerme."):
        trace = run_trace(loaded.model, run.tokenizers, "The cat sleeps.", target, run=run.name)
        assert [check.name for check in trace.checks if not check.passed] == []
        assert {kind: maps.shape[:2] for kind, maps in trace.attention.items()} == (
            run.description.shapes
        )
        relative = run.description.positions == "relative"
        assert (trace.source_embedding.positions is None) == relative
    assert trace.target_text == "El gato duerme."


def test_a_folder_is_a_run_of_one_step(make_folder: MakeFolder) -> None:
    folder = make_folder("t5")
    assert is_pretrained(folder)
    run = PretrainedRun(folder, "mine")
    assert run.steps() == [0]
    assert run.weights_path(0) == folder / WEIGHTS
    loaded = run.load(0)
    assert (loaded.run, loaded.step, len(loaded.sha256)) == ("mine", 0, 64)
    assert not any(module.training for _, module in loaded.model.named_modules())
    assert loaded.model.description == run.description
    assert run.parameters == sum(tensor.numel() for tensor in loaded.model.inner.parameters())
    assert run.metrics() == []
    assert run.planned_steps is None
    with pytest.raises(CheckpointError, match="no weights of step 7; there are those of: 0"):
        run.load(7)


def test_languages_are_those_of_a_marian_s_tokenizer(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    folder = shutil.copytree(make_folder("marian"), tmp_path / "marian")
    config = folder / "tokenizer_config.json"
    written = json.loads(config.read_text()) | {"source_lang": "en", "target_lang": "es"}
    config.write_text(json.dumps(written))
    run = PretrainedRun(folder, "mine")
    assert (run.source_language, run.target_language) == ("en", "es")
    assert PretrainedRun(make_folder("t5"), "theirs").source_language == ""


def test_weights_are_those_in_the_file(make_folder: MakeFolder) -> None:
    from transformers import AutoModelForSeq2SeqLM

    folder = make_folder("marian")
    with quiet():
        theirs = AutoModelForSeq2SeqLM.from_pretrained(folder)
    ours = PretrainedRun(folder, "m").load(0).model.inner
    assert all(map(torch.equal, theirs.state_dict().values(), ours.state_dict().values()))
    assert PretrainedRun(folder, "m").load(0).sha256 == PretrainedRun(folder, "m").load(0).sha256


def test_a_t5_with_an_output_of_its_own_keeps_it(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["lm_head.weight"] = weights["shared.weight"].flip(0).contiguous()
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    run = PretrainedRun(folder, "t5")
    loaded = run.load(0)
    assert run.description.tied == loaded.model.description.tied == "none"
    assert run.parameters == sum(tensor.numel() for tensor in loaded.model.inner.parameters())
    assert torch.equal(loaded.model.inner.lm_head.weight, weights["lm_head.weight"])


def test_an_output_that_is_stored_beside_its_equal_is_tied(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["lm_head.weight"] = weights["shared.weight"].clone()
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    run = PretrainedRun(folder, "t5")
    assert run.description.tied == run.load(0).model.description.tied == "all"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["t5", "marian", "bart", "mbart", "nllb"])
def test_traces_with_short_weights_are_those_of_float32_but_for_rounding(
    name: str, dtype: Any, make_folder: MakeFolder
) -> None:
    run = open_run(str(make_folder(name)))
    whole, short = (
        load_checkpoint(run, 0, placement).model
        for placement in (Placement("cpu"), Placement("cpu", dtype))
    )
    assert {tensor.dtype for _, tensor in short.named_parameters()} == (
        {torch.float16, torch.float32}  # T5 keeps the larger type where the shorter overflows
        if (name, dtype) == ("t5", "float16")
        else {Placement(dtype=dtype).torch_dtype}
    )
    short_type = Placement(dtype=dtype).torch_dtype
    text = "The cat sleeps."
    translated = run_trace(short, run.tokenizers, text)
    assert len(translated.predicted) > 0
    expected = run_trace(whole, run.tokenizers, text, translated.target_ids)
    assert [check.name for check in translated.checks if not check.passed] == []
    for kind, maps in translated.attention.items():
        assert maps.dtype == np.float32
        assert_near(maps.sum(-1), 1)
        assert_near(maps, expected.attention[kind], dtype=short_type, size=1, operations=16)
    found, wanted = (trace.predictions.log_probability for trace in (translated, expected))
    assert_near(found, wanted, dtype=short_type, operations=16)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", ["t5", "marian", "bart", "mbart", "nllb"])
def test_traces_on_a_gpu_are_those_of_the_cpu(name: str, make_folder: MakeFolder) -> None:
    run = open_run(str(make_folder(name)))
    cpu, gpu = (
        run_trace(
            load_checkpoint(run, 0, placement).model, run.tokenizers, "The cat sleeps.", "El gato."
        )
        for placement in (Placement("cpu"), Placement("cuda"))
    )
    for kind, maps in gpu.attention.items():
        assert_near(maps, cpu.attention[kind], size=1, operations=PASS)


def test_weights_in_several_files_are_one_checkpoint(folder: Path) -> None:
    whole = PretrainedRun(folder, "t5").load(0)
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(weights)
    halves = {"model-00001-of-00002": names[::2], "model-00002-of-00002": names[1::2]}
    places = {}
    for half, inside in halves.items():
        save_file(
            {name: weights[name] for name in inside},
            folder / f"{half}.safetensors",
            {"format": "pt"},
        )
        places |= dict.fromkeys(inside, f"{half}.safetensors")
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))
    run = PretrainedRun(folder, "t5")
    source = random_ids(7, padding=0).tolist()
    loaded = run.load(0)
    assert loaded.sha256 != whole.sha256
    assert greedy(loaded.model, source) == greedy(whole.model, source)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"no complete model\.safetensors"):
        PretrainedRun(folder, "t5").steps()


def test_a_training_has_a_step_for_each_checkpoint(training: Path) -> None:
    assert is_pretrained(training)
    run = PretrainedRun(training, "out")
    assert run.steps() == [20, 100]
    assert run.planned_steps == 60
    first, last = (run.load(step) for step in run.steps())
    assert first.sha256 != last.sha256
    assert run.weights_path(20) == training / "checkpoint-20" / WEIGHTS
    assert run.tokenizers.encode_source("The cat sleeps.")  # from the folder above
    assert run.metrics() == [
        {"step": 10, "train_loss": 2.5, "learning_rate": 1e-3},
        {"step": 100, "valid_loss": 2.0, "bleu": 12.5},
    ]


@pytest.mark.parametrize("share", [0, 4, 300, -1])
def test_truncated_weights_are_named(folder: Path, share: int) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[:share])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*; restore the file"):
        PretrainedRun(folder, "t5").load(0)


def test_truncated_weights_of_an_earlier_step_are_named(training: Path) -> None:
    path = training / "checkpoint-20" / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    run = PretrainedRun(training, "out")
    assert run.steps() == [20, 100]
    with pytest.raises(CheckpointError, match=r"checkpoint-20/model\.safetensors: .*restore"):
        run.load(20)
    run.load(100)


def test_corrupt_weights_are_named(folder: Path) -> None:
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[8:40] = b"x" * 32
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors: .*; restore the file"):
        PretrainedRun(folder, "t5").load(0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["decoder.layers.1.fc1.bias", "final_logits_bias"])
def test_weights_that_are_not_numbers_are_refused(training: Path, name: str, value: float) -> None:
    path = training / "checkpoint-20" / WEIGHTS
    weights = load_file(path)
    weights[next(key for key in weights if key.endswith(name))].view(-1)[3] = value
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match=rf"{WEIGHTS}: .*{name}: expected finite numbers"):
        PretrainedRun(training, "out").load(20)


def _without(weights: dict[str, torch.Tensor], name: str) -> None:
    del weights[name]


def _misshapen(weights: dict[str, torch.Tensor], name: str) -> None:
    weights[name] = weights[name][:-1].contiguous()


@pytest.mark.parametrize("damage", [_without, _misshapen])
def test_weights_that_lack_what_the_configuration_wants_are_refused(
    folder: Path, damage: Callable[..., None]
) -> None:
    name = "decoder.block.1.layer.1.EncDecAttention.o.weight"
    weights = load_file(folder / WEIGHTS)
    damage(weights, name)
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    with pytest.raises(CheckpointError, match=re.escape(WEIGHTS)) as caught:
        PretrainedRun(folder, "t5").load(0)
    assert name in str(caught.value)
    assert "config.json" in str(caught.value)


def test_weights_of_a_deeper_model_are_refused(folder: Path) -> None:
    change_json(folder / "config.json", num_layers=2)
    with pytest.raises(CheckpointError, match=r"spare tensors: encoder\.block\.2\..*config\.json"):
        PretrainedRun(folder, "t5").load(0)


def test_a_missing_tokenizer_is_named(folder: Path) -> None:
    for path in (*folder.glob("tokenizer*"), *folder.glob("spiece*")):
        path.unlink()
    run = PretrainedRun(folder, "t5")
    with pytest.raises(CheckpointError, match=r"there is no tokenizer; save it beside the model"):
        _ = run.tokenizers
    run.load(0)  # all else can be looked at


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b"{}"])
def test_a_broken_tokenizer_is_named(folder: Path, content: bytes) -> None:
    (folder / "spiece.model").unlink(missing_ok=True)
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="the tokenizer cannot be loaded"):
        _ = PretrainedRun(folder, "t5").tokenizers


def test_a_tokenizer_larger_than_the_embedding_is_refused(
    folder: Path, make_folder: MakeFolder
) -> None:
    for path in (*folder.glob("tokenizer*"), *folder.glob("spiece*")):
        path.unlink()
    for path in make_folder("bart").glob("*"):
        if path.name not in ("config.json", "generation_config.json", WEIGHTS):
            shutil.copy(path, folder)
    with pytest.raises(CheckpointError, match=r"tokens, the model embeds .* of this model\?"):
        _ = PretrainedRun(folder, "t5").tokenizers


def test_a_changed_tokenizer_has_another_hash(folder: Path) -> None:
    before = PretrainedRun(folder, "t5").tokenizers_sha256
    assert before == PretrainedRun(folder, "t5").tokenizers_sha256
    change_json(folder / "tokenizer_config.json", model_max_length=99)
    assert before != PretrainedRun(folder, "t5").tokenizers_sha256


def test_a_pickle_is_refused_with_the_command_that_converts_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = load_file(folder / WEIGHTS)
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin: pickled weights") as caught:
        PretrainedRun(folder, "t5").steps()
    command = re.search(r'python -c "(.*)"', str(caught.value))
    assert command is not None
    monkeypatch.chdir(folder)
    with quiet():
        exec(command[1], {})
    model = PretrainedRun(folder, "t5").load(0).model
    assert torch.equal(model.embedding_table("source"), weights["shared.weight"])


def test_pickled_checkpoints_of_a_training_are_refused_with_the_command(training: Path) -> None:
    for step in (20, 100):
        place = training / f"checkpoint-{step}"
        (place / WEIGHTS).rename(place / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"checkpoint-20/pytorch_model\.bin: .*convert it"):
        open_run(str(training)).steps()
