"""Folders of models and of trainings, whole and damaged, and how they are opened by a name."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

from headwise.model.checkpoint import TrainedRun
from headwise.model.decoding.greedy import greedy
from headwise.model.files import CheckpointError
from headwise.model.interface import Languages
from headwise.model.placement import Placement
from headwise.model.pretrained.checkpoints import is_pretrained
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.runs import (
    choose_languages,
    find_folder,
    load_checkpoint,
    open_checkpoint,
    open_run,
    require_languages,
    steps_in,
)
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import WEIGHTS, MakeFolder, change_json, random_ids

# Opened by a name


def test_a_run_of_ours_opens_by_name_and_by_path(trained_run: TrainedRun, tmp_path: Path) -> None:
    root = trained_run.folder.parent
    by_name, by_path = open_run("tiny", root=root), open_run(str(trained_run.folder), root=tmp_path)
    assert by_name.folder == by_path.folder == trained_run.folder
    assert steps_in(trained_run.folder) == trained_run.steps()
    assert not by_name.choices.targets
    run, checkpoint = open_checkpoint("tiny", None, root)
    assert checkpoint.step == run.steps()[-1]
    assert checkpoint.sha256 == run.sha256(checkpoint.step)


def test_a_name_on_the_hub_opens_from_the_cache_without_a_network(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "models--someone--tiny-t5"
    shutil.copytree(make_folder("t5"), kept / "snapshots" / "abc")
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    run = open_run("someone/tiny-t5", root=tmp_path / "no-runs")
    assert (run.name, run.steps()) == ("tiny-t5", [0])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.gguf").touch()
    for name, message in (
        ("someone/else", "someone/else: there is no such folder, and it"),
        (str(tmp_path / "other"), r"expected a run \(run.json\), a Hugging Face model"),
        ("nothing", "no run named 'nothing'"),
        ("no/such/folder", "no/such/folder: there is no such folder"),
    ):
        with pytest.raises(CheckpointError, match=message):
            open_run(name, root=tmp_path / "no-runs")
    assert find_folder("nothing", root=tmp_path) is None


def test_languages_are_chosen_among_those_that_a_model_has(
    make_folder: MakeFolder, trained_run: TrainedRun
) -> None:
    folder = make_folder("nllb")
    chosen = Languages(target="fra_Latn")
    run, _ = open_checkpoint(str(folder), None, folder.parent, languages=chosen)
    assert run.tokenizers.target.tokens(run.tokenizers.prefix) == ["</s>", "fra_Latn"]
    with pytest.raises(ValueError, match="has no target language 'french'; it has: '"):
        choose_languages(run, Languages(target="french"))
    with pytest.raises(ValueError, match="tiny has no prefix 'x'; it has: none"):
        choose_languages(trained_run, Languages(prefix="x"))
    run = open_run(str(make_folder("t5")))
    with pytest.raises(ValueError, match=r"does not name its languages: .*--columns en es"):
        require_languages(run, None)
    require_languages(run, ("en", "es"))


# Whole


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
    assert loaded.sha256 == run.sha256(0)
    assert (run.metrics(), run.planned_steps, run.data, run.counts) == ([], None, None, None)
    assert run.source_language == ""
    with pytest.raises(CheckpointError, match="no weights of step 7; there are those of: 0"):
        run.load(7)


def test_languages_are_those_of_the_tokenizer(make_folder: MakeFolder, tmp_path: Path) -> None:
    folder = shutil.copytree(make_folder("marian"), tmp_path / "marian")
    change_json(folder / "tokenizer_config.json", source_lang="en", target_lang="es")
    run = PretrainedRun(folder, "mine")
    assert (run.source_language, run.target_language) == ("en", "es")


def change_weights(folder: Path, name: str, change: Callable[[torch.Tensor], Any]) -> None:
    """Replace a tensor in a folder's file by what a function makes of it; None removes it."""
    weights = load_file(folder / WEIGHTS)
    changed = change(weights.get(name, weights.get("shared.weight")))
    weights.pop(name, None)
    if changed is not None:
        weights[name] = changed.contiguous()
    save_file(weights, folder / WEIGHTS, {"format": "pt"})


@pytest.mark.parametrize(
    ("change", "tied"), [(lambda x: x.flip(0), "none"), (lambda x: x.clone(), "all")]
)
def test_a_t5_with_an_output_that_differs_keeps_it(folder: Path, change: Any, tied: str) -> None:
    """One that is stored beside its equal is tied."""
    change_weights(folder, "lm_head.weight", change)
    run = PretrainedRun(folder, "t5")
    loaded = run.load(0)
    assert run.description.tied == loaded.model.description.tied == tied
    assert run.parameters == sum(tensor.numel() for tensor in loaded.model.inner.parameters())
    weights = load_file(folder / WEIGHTS)
    assert torch.equal(loaded.model.inner.lm_head.weight, weights["lm_head.weight"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["t5", "marian", "bert2bert"])
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


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="no GPU, or HEADWISE_GPU_TESTS is not set"
)
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
    with quiet():
        theirs = AutoModelForSeq2SeqLM.from_pretrained(folder)
        (folder / WEIGHTS).unlink()
        theirs.save_pretrained(folder, max_shard_size="20KB")
    source, loaded = random_ids(7).tolist(), PretrainedRun(folder, "t5").load(0)
    assert loaded.sha256 != whole.sha256
    assert greedy(loaded.model, source) == greedy(whole.model, source)
    max(folder.glob("*.safetensors")).unlink()
    with pytest.raises(CheckpointError, match=r"no complete model\.safetensors"):
        PretrainedRun(folder, "t5").steps()


# Damaged


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda content, share=share: content[:share] for share in (0, 4, 300, -1)),
        lambda content: content[:8] + b"x" * 32 + content[40:],
    ],
)
def test_broken_weights_are_named(training: Path, damage: Callable[[bytes], bytes]) -> None:
    path = training / "checkpoint-20" / WEIGHTS
    path.write_bytes(damage(path.read_bytes()))
    run = PretrainedRun(training, "out")
    assert run.steps() == [20, 100]
    with pytest.raises(CheckpointError, match=r"checkpoint-20/model\.safetensors: .*restore"):
        run.load(20)
    run.load(100)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["model.decoder.layers.1.fc1.bias", "final_logits_bias"])
def test_weights_that_are_not_numbers_are_refused(training: Path, name: str, value: float) -> None:
    place = torch.tensor([3])
    change_weights(
        training / "checkpoint-20", name, lambda x: x.index_fill(x.dim() - 1, place, value)
    )
    with pytest.raises(CheckpointError, match=rf"{WEIGHTS}: .*{name}: expected finite numbers"):
        PretrainedRun(training, "out").load(20)


@pytest.mark.parametrize("change", [lambda _: None, lambda x: x[:-1]])
def test_weights_without_what_a_configuration_wants_are_refused(folder: Path, change: Any) -> None:
    name = "decoder.block.1.layer.1.EncDecAttention.o.weight"
    change_weights(folder, name, change)
    with pytest.raises(CheckpointError, match=rf"{WEIGHTS}: .*{name}.*config\.json"):
        PretrainedRun(folder, "t5").load(0)


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("t5", lambda name: f"_orig_mod.{name}"),  # torch.compile
        ("bart", lambda name: f"module.{name}"),  # DistributedDataParallel
        ("bert2bert", lambda name: f"module._orig_mod.{name}"),
        *((of, lambda name: f"model.{name}") for of in ("t5", "bart")),  # as Lightning wants it
        *(
            (of, lambda name: re.sub(r"(layers?|block)\.1\.", r"\1.1._fsdp_wrapped_module.", name))
            for of in ("t5", "bert2bert")
        ),
    ],
)
def test_weights_of_a_wrapped_model_are_those_of_the_model(
    make_folder: MakeFolder, tmp_path: Path, name: str, wrap: Callable[[str], str]
) -> None:
    folder = shutil.copytree(make_folder(name), tmp_path / name)
    if name == "t5":
        change_weights(folder, "lm_head.weight", lambda x: x.flip(0))
    plain, expected = open_run(str(folder)), open_run(str(folder)).load(0)
    weights = {wrap(tensor): value for tensor, value in load_file(folder / WEIGHTS).items()}
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    run = open_run(str(folder))
    loaded = run.load(0)
    found, wanted = (each.model.inner.state_dict() for each in (loaded, expected))
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[each], wanted[each]) for each in found)
    assert (run.parameters, run.description) == (plain.parameters, plain.description)
    assert loaded.sha256 == run.sha256(0) != expected.sha256


def test_weights_of_which_only_some_are_wrapped_name_both(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    renamed = {name.replace("encoder.", "student.encoder."): t for name, t in weights.items()}
    save_file(renamed, folder / WEIGHTS, {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"missing tensors: encoder\..* \(there is student"):
        PretrainedRun(folder, "t5").load(0)


def test_weights_of_a_deeper_model_are_refused(folder: Path) -> None:
    change_json(folder / "config.json", num_layers=2)
    with pytest.raises(CheckpointError, match=r"spare tensors: encoder\.block\.2\..*config\.json"):
        PretrainedRun(folder, "t5").load(0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no tokenizer; save it beside the model"),
        *((bad, r"/tokenizer\.json: not a tokenizer") for bad in (b"{", b"\xff\xfe", b"[]", b"{}")),
        ("bart", r"tokens, the model embeds .* of this model\?"),
    ],
)
def test_a_missing_broken_or_other_tokenizer_is_named(
    folder: Path, make_folder: MakeFolder, content: bytes | str | None, message: str
) -> None:
    for path in (*folder.glob("tokenizer*"), *folder.glob("spiece*")):
        path.unlink()
    if isinstance(content, bytes):
        (folder / "tokenizer.json").write_bytes(content)
    elif content is not None:
        for path in make_folder(content).glob("*"):
            if path.name not in ("config.json", "generation_config.json", WEIGHTS):
                shutil.copy(path, folder)
    run = PretrainedRun(folder, "t5")
    with pytest.raises(CheckpointError, match=message):
        _ = run.tokenizers
    run.load(0)  # all else can be looked at


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
    with pytest.raises(
        CheckpointError, match=r"t5: pickled weights \(pytorch_model\.bin\)"
    ) as error:
        PretrainedRun(folder, "t5").steps()
    command = re.search(r'python -c "(.*)"', str(error.value))
    assert command is not None
    monkeypatch.chdir(folder)
    with quiet():
        exec(command[1], {})
    model = PretrainedRun(folder, "t5").load(0).model
    assert torch.equal(model.embedding_table("source"), weights["shared.weight"])
