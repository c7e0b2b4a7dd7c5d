"""Adapters of PEFT are merged into their base, and compute what PEFT computes with both."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from headwise.model.files import CheckpointError, NoCheckpointYetError
from headwise.model.pretrained import adapters
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.runs import open_folder, open_run, steps_in
from tests.floats import PASS, assert_near
from tests.model.pretrained.tiny import MakeFolder, change_json, trainer_state

peft = pytest.importorskip("peft")
SOURCE, TARGET = [7, 11, 5, 1], [0, 9, 4, 13]
KINDS: dict[str, dict[str, Any]] = {
    "LORA": {"r": 3, "lora_alpha": 7, "target_modules": ["q", "v", "wi_0"]},
    "IA3": {"target_modules": ["k", "v", "wo"], "feedforward_modules": ["wo"]},
}
CONFIG, WEIGHTS = adapters.CONFIG, adapters.WEIGHTS


def adapt(
    base: Path,
    folder: Path,
    kind: str = "LORA",
    seed: int = 0,
    *,
    tokens: int = 0,
    save: Any = "auto",
    **changes: Any,
) -> Any:
    """Write an adapter with random weights, as a training leaves it; return what PEFT runs.

    It may have some ``tokens`` more than its base, whose places are counted from their end.
    """
    torch.manual_seed(seed)
    config = {"LORA": peft.LoraConfig, "IA3": peft.IA3Config}[kind]
    with quiet():
        model = AutoModelForSeq2SeqLM.from_pretrained(base)
        if tokens:
            model.resize_token_embeddings(model.config.vocab_size + tokens)
        if last := changes.get("trainable_token_indices"):
            changes["trainable_token_indices"] = [model.config.vocab_size + at for at in last]
        adapted = peft.get_peft_model(
            model, config(task_type="SEQ_2_SEQ_LM", **(KINDS[kind] | changes))
        )
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.data = torch.randn_like(parameter)
        adapted.save_pretrained(folder, save_embedding_layers=save)
    return adapted.eval()


def logits(model: Any) -> torch.Tensor:
    """What a model of transformers, or of ours, makes of one sentence: (T, V)."""
    source, target = torch.tensor([SOURCE]), torch.tensor([TARGET])
    with torch.no_grad():
        if hasattr(model, "encode"):
            return model.unembed(model.decode(target, *model.encode(source)))[0]
        return model(input_ids=source, decoder_input_ids=target).logits[0]


@pytest.mark.parametrize("kind", [*KINDS])
def test_an_adapter_is_two_checkpoints_its_base_and_both_together(
    make_folder: MakeFolder, tmp_path: Path, kind: str
) -> None:
    base, folder = make_folder("t5"), tmp_path / "adapter"
    expected = logits(adapt(base, folder, kind))
    run = open_run(str(folder), root=tmp_path)
    assert (run.steps(), run.name) == ([0, 1], "adapter")
    assert run.adapter == f"adapter ({adapters.MERGED[kind]}) of {base.name}; step 0 is without it"
    plain, merged = (run.load(step) for step in (0, 1))
    whole = open_folder(base, "base")
    assert whole.adapter == ""
    assert plain.sha256 == whole.sha256(0) != merged.sha256 == run.sha256(1)
    assert torch.equal(logits(plain.model), logits(whole.load(0).model))
    size = float(expected.abs().max())
    assert_near(logits(merged.model), expected, size=size, operations=PASS)
    assert (expected - logits(plain.model)).abs().max() > 0.01 * size
    assert run.tokenizers.encode_source("the dog") == whole.tokenizers.encode_source("the dog")
    assert [path.name for path in folder.iterdir() if path.name not in (CONFIG, WEIGHTS)] == [
        "README.md"
    ]


def test_checkpoints_are_steps_after_the_base(make_folder: MakeFolder, tmp_path: Path) -> None:
    """The base may be named by a path beside the training, or by its name on the hub."""
    base, folder = shutil.copytree(make_folder("t5"), tmp_path / "base"), tmp_path / "out"
    (folder / "checkpoint-20").mkdir(parents=True)
    with pytest.raises(NoCheckpointYetError):
        open_folder(folder, "out").steps()
    expected = [logits(adapt(base, folder / f"checkpoint-{step}", seed=step)) for step in (20, 40)]
    for step in (20, 40):
        place = folder / f"checkpoint-{step}"
        change_json(place / CONFIG, base_model_name_or_path="../base")
        (place / "trainer_state.json").write_text(trainer_state(step))
    run = open_folder(folder, "out")
    assert (run.steps(), steps_in(folder)) == ([0, 20, 40], [20, 40])
    for step, found in zip((20, 40), expected, strict=True):
        size = float(found.abs().max())
        assert_near(logits(run.load(step).model), found, size=size, operations=PASS)
    assert run.metrics()[-1]["step"] == 40
    assert len({run.sha256(step) for step in run.steps()}) == 3
    change_json(folder / "checkpoint-40" / CONFIG, lora_alpha=14)
    assert run.sha256(40) not in {run.sha256(0), run.sha256(20)}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"peft_type": "PREFIX_TUNING"}, "of the kind 'PREFIX_TUNING'; those that are opened are"),
        ({"base_model_name_or_path": None}, "does not name its model; write the path"),
        ({"base_model_name_or_path": "no/such/place"}, "neither a folder with config.json nor in"),
        ({"target_modules": ["nothing"]}, "cannot be merged into its model"),
        ({"target_modules": ["q"]}, "cannot be merged into its model .*fit nothing there"),
        ({"r": 5}, "cannot be merged into its model"),
        ({"r": 10**8}, "r: expected a rank of at most"),
        ({"rank_pattern": {"q": 10**8}}, "r: expected a rank of at most"),
        ({"trainable_token_indices": [10**8]}, r"has [\d,]+ weights, these files"),
    ],
)
def test_what_cannot_be_merged_says_why(
    make_folder: MakeFolder, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    folder = tmp_path / "adapter"
    adapt(make_folder("t5"), folder)
    change_json(folder / CONFIG, **change)
    with pytest.raises(CheckpointError, match=told):
        open_folder(folder, "a").load(1)


def test_weights_that_two_modules_share_are_not_merged_by_halves(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    """Trained whole, in place of the output layer, they are."""
    adapt(make_folder("t5"), tmp_path / "tied", target_modules=["q", "shared"])
    with pytest.raises(CheckpointError, match="shared has its weights in common with another"):
        open_folder(tmp_path / "tied", "a").load(1)
    whole = adapt(make_folder("t5"), tmp_path / "whole", modules_to_save=["lm_head"])
    expected = logits(whole)
    found = logits(open_folder(tmp_path / "whole", "a").load(1).model)
    assert_near(found, expected, size=float(expected.abs().max()), operations=PASS)


def test_damaged_weights_and_pickles_are_named(make_folder: MakeFolder, tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    adapt(make_folder("t5"), folder)
    weights = load_file(folder / WEIGHTS)
    [name, *_] = sorted(weights)
    save_file({**weights, name: weights[name] * torch.nan}, folder / WEIGHTS)
    with pytest.raises(CheckpointError, match="expected finite numbers"):
        open_folder(folder, "a").load(1)
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-9])
    with pytest.raises(CheckpointError, match=rf"{WEIGHTS}: .*(merged|truncated)"):
        open_folder(folder, "a").load(1)
    (folder / WEIGHTS).rename(folder / "adapter_model.bin")
    with pytest.raises(CheckpointError, match=r"pickled weights \(adapter_model\.bin\)"):
        PretrainedRun(folder, "a").steps()


def test_without_peft_its_installation_is_asked_for(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapt(make_folder("t5"), tmp_path / "adapter")
    monkeypatch.setattr(adapters, "find_spec", lambda name: None)
    with pytest.raises(CheckpointError, match=r"needed: pip install 'headwise\[adapters\]'"):
        open_folder(tmp_path / "adapter", "a").steps()


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("t5", {}),  # PEFT saves the embeddings that were resized by itself
        ("bart", {}),
        ("t5", {"modules_to_save": ["shared", "lm_head"]}),
        ("bart", {"modules_to_save": ["embed_tokens", "lm_head"]}),
        ("bart", {"trainable_token_indices": [-3, -2, -1]}),
        ("t5", {"modules_to_save": ["lm_head"], "tokens": 0}),
        ("t5", {"save": True, "tokens": 0}),
        ("t5", {"save": False, "trainable_token_indices": [-3, -2, -1]}),
    ],
    ids=str,
)
def test_a_base_gets_the_tokens_with_which_its_adapter_was_trained(
    make_folder: MakeFolder, tmp_path: Path, family: str, changes: dict[str, Any]
) -> None:
    base, folder = make_folder(family), tmp_path / "adapter"
    values = {"tokens": 3, "target_modules": ["q", "q_proj"]} | changes
    tokens, before = values["tokens"], open_folder(base, "base").description.source_vocab_size
    adapted = adapt(base, folder, **values)
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(base)
        tokenizer.add_tokens(["<one>", "<two>", "<three>"][:tokens])
        tokenizer.save_pretrained(folder)
    run = open_folder(folder, "a")
    source = torch.tensor([[7, 11, 5, before + tokens - 1]])
    with torch.no_grad():
        expected = adapted(input_ids=source, decoder_input_ids=source).logits[0]
        loaded = run.load(1).model
        found = loaded.unembed(loaded.decode(source, *loaded.encode(source)))[0]
    assert_near(found, expected, size=float(expected.abs().max()), operations=PASS)
    assert run.description == loaded.description
    assert run.description.source_vocab_size == before + tokens
    assert run.parameters == sum(each.numel() for each in loaded.inner.parameters())
    if tokens:
        assert run.steps() == [1]
        [remark] = run.remarks
        assert f"the {before + tokens} of the adapter; its own path opens it: {base}" in remark
        assert run.adapter == f"adapter (LoRA) of {base.name}"
    else:
        assert (run.steps(), run.remarks) == ([0, 1], [])
        assert run.load(0).model.description.source_vocab_size == before
