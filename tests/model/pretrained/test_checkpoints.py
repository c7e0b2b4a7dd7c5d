"""Every checkpoint that is in a training's folder is offered, or a sentence says what it is."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headwise.model.files import CheckpointError, NoCheckpointYetError
from headwise.model.pretrained import checkpoints
from headwise.model.pretrained.checkpoints import is_pretrained
from headwise.model.pretrained.run import PretrainedRun
from headwise.model.runs import log_file, open_run, steps_in
from tests.model.pretrained.tiny import WEIGHTS, MakeFolder, change_json, trainer_state

SHAPES = {"d_model": 24, "vocab_size": 100, "model_type": "t5"}
STATE = "trainer_state.json"


def put(folder: Path, *, state: int | None = None, config: bool = True, **sizes: object) -> Path:
    """Write a checkpoint of one small tensor, which is never loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"shared.weight": torch.zeros(2)}, folder / WEIGHTS)
    if config:
        (folder / "config.json").write_text(json.dumps(SHAPES | sizes))
    if state is not None:
        (folder / STATE).write_text(trainer_state(state))
    return folder


def put_adapter(folder: Path, base: Path) -> Path:
    """Write an adapter of a model."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"peft_type": "LORA", "base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(values))
    save_file({"a": torch.zeros(2)}, folder / "adapter_model.safetensors")
    return folder


def lay_out(top: Path, layout: str) -> None:
    """Write folders from words: a name, ``=`` and the step in its state, ``?`` without weights."""
    for word in layout.split():
        name, _, state = word.rstrip("?").partition("=")
        place = put(top if name == "." else top / name, state=int(state) if state else None)
        if word.endswith("?"):
            (place / WEIGHTS).unlink()


@pytest.mark.parametrize(
    ("layout", "steps", "remarks"),
    [
        ("checkpoint-500=500 checkpoint-1000=1000", [500, 1000], []),
        # Names of others
        ("epoch_10 epoch_2 epoch_0", [0, 2, 10], ["epoch_0, epoch_2, epoch_10: the step is the"]),
        ("step_100 step_20", [20, 100], []),
        ("ckpt-500 ckpt-0700", [500, 700], []),
        ("t5-small-step-7 20", [7, 20], []),
        ("epoch_1=150 epoch_2=300", [150, 300], ["epoch_1: its step is 150, as trainer_state", ""]),
        # Without a number
        ("checkpoint-best=70 checkpoint-100=100", [70, 100], ["checkpoint-best: its step is 70"]),
        ("checkpoint-best checkpoint-100=100", [100], ["checkpoint-best: neither its name nor"]),
        ("best last", None, ["best, last: neither its name nor .* opens it: /.*/out/best"]),
        ("best", [0], []),
        # The model at the top
        (". checkpoint-5 checkpoint-10", [5, 10, 11], ["The model at the top .* is step 11"]),
        (".=10 checkpoint-5=5 checkpoint-10=10", [5, 10, 11], ["The model at the top .* step 11"]),
        (".=12 checkpoint-5=5 checkpoint-10=10", [5, 10, 12], ["The model at the top .* step 12"]),
        (".=5 checkpoint-5=5 checkpoint-10=10", [5, 10], ["at the top .* step of checkpoint-5;"]),
        (".=30", [30], []),
        # Two of one step
        ("checkpoint-5 ckpt-5", [5], ["ckpt-5: its step is 5, as that of checkpoint-5; its own"]),
        ("step_100 epoch_1", [100], ["epoch_1: the number is of an epoch, those of others of"]),
        # Written by save_pretrained before the training, and by the Trainer later
        ("checkpoint-0 checkpoint-500=500", [0, 500], []),
        ("checkpoint-9=9 checkpoint-18", [9], ["checkpoint-18: it has no trainer_state.json yet"]),
        ("checkpoint-9=9 checkpoint-18?", [9], ["checkpoint-18: it is not complete"]),
    ],
)
def test_each_folder_has_a_step_or_a_remark(
    tmp_path: Path, layout: str, steps: list[int] | None, remarks: list[str]
) -> None:
    top = tmp_path / "out"
    lay_out(top, layout)
    assert is_pretrained(top)
    run = open_run(str(top))
    if steps is None:
        with pytest.raises(CheckpointError, match=remarks[0]):
            run.steps()
    else:
        assert (run.steps(), steps_in(top)) == (steps, steps)
    assert len(run.remarks) == len(remarks)
    for told, expected in zip(run.remarks, remarks, strict=True):
        assert re.match(f".*{expected}", told)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["global_step5/zero_pp_rank_0_mp_rank_00_model_states.pt"], "zero_to_fp32.py . ."),
        (["global_step5/x_model_states.pt", "zero_to_fp32.py"], "ZeRO; .*: python zero_to_fp32.py"),
        (["pytorch_model_fsdp_0/__0_0.distcp"], "accelerate merge-weights pytorch_model_fsdp_0 ."),
        (["__0_0.distcp", ".metadata"], "shards of FSDP .*: accelerate merge-weights . .."),
        (["pytorch_model.bin"], "pickled weights .* convert them once"),
        (["flax_model.msgpack"], "weights in this format .flax_model.msgpack. are not read"),
    ],
)
def test_weights_that_are_not_read_say_what_would_open_them(
    tmp_path: Path, files: list[str], told: str
) -> None:
    """Alone, beside checkpoints that are read, and in the folder that is opened."""
    for name in ("checkpoint-5", "checkpoint-10"):
        for file in files:
            (tmp_path / "out" / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "out" / name / file).touch()
    run = PretrainedRun(tmp_path / "out", "out")
    with pytest.raises(CheckpointError, match=f"checkpoint-5, checkpoint-10: .*{told}") as caught:
        run.steps()
    assert not isinstance(caught.value, NoCheckpointYetError)  # which would be waited for
    with pytest.raises(CheckpointError, match=told) as caught:
        open_run(str(tmp_path / "out" / "checkpoint-5"))
    assert not isinstance(caught.value, NoCheckpointYetError)
    put(tmp_path / "out" / "checkpoint-15", state=15)
    assert run.steps() == [15]
    [remark] = run.remarks
    assert re.match(f"checkpoint-5, checkpoint-10: .*{told}", remark)
    with pytest.raises(CheckpointError, match=r"no weights of step 5; .*: 15\. checkpoint-5, "):
        run.load(5)


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ({"d_model": 16}, "d_model is 16, in the newest, checkpoint-9, 24; its own path opens it"),
        ({"vocab_size": 90}, "vocab_size is 90, in the newest, checkpoint-9, 100"),
        ({"model_type": "bart"}, "model_type is 'bart', in the newest, checkpoint-9, 't5'"),
        ({"decoder": {"num_heads": 4}}, r"decoder\.num_heads is 4, .* checkpoint-9, 3"),
    ],
)
def test_other_sizes_are_named(tmp_path: Path, sizes: dict[str, object], told: str) -> None:
    put(tmp_path / "checkpoint-3", **({"decoder": {"num_heads": 3}} | sizes))
    put(tmp_path / "checkpoint-6", decoder={"num_heads": 3}, use_cache=False, dropout=0)
    put(tmp_path / "checkpoint-9", decoder={"num_heads": 3})
    run = PretrainedRun(tmp_path, "out")
    assert run.steps() == [6, 9]
    [remark] = run.remarks
    assert re.match(f"checkpoint-3: {told}", remark)
    assert PretrainedRun(tmp_path / "checkpoint-3", "one").steps() == [0]


def test_adapters_in_folders_below_are_found(tmp_path: Path) -> None:
    """PEFT gives an adapter that has a name a folder of that name."""
    base = put(tmp_path / "base")
    put_adapter(tmp_path / "one" / "mine", base)
    assert PretrainedRun(tmp_path / "one", "one").steps() == [0, 1]
    for step in (5, 10):
        place = tmp_path / "out" / f"checkpoint-{step}"
        put_adapter(place / "mine", base)
        (place / STATE).write_text(trainer_state(step))
    run = PretrainedRun(tmp_path / "out", "out")
    assert (run.steps(), run.remarks) == ([0, 5, 10], [])
    assert run.adapter == "adapter (LoRA) of base; step 0 is without it"
    assert (run.metrics()[-1]["step"], run.planned_steps) == (10, 60)
    put_adapter(tmp_path / "out" / "checkpoint-0" / "mine", base)
    assert run.adapter == "adapter (LoRA) of base"
    # Beside a copy of its base's configuration
    shutil.copy(base / "config.json", tmp_path / "out" / "checkpoint-10" / "mine")
    assert run.steps() == [0, 5, 10]


def test_a_link_to_a_checkpoint_is_that_checkpoint(tmp_path: Path) -> None:
    put(tmp_path / "checkpoint-5", state=5)
    (tmp_path / "checkpoint-best").symlink_to("checkpoint-5")
    run = PretrainedRun(tmp_path, "out")
    assert (run.steps(), run.remarks) == ([5], ["checkpoint-best: the same folder as checkpoint-5"])


def test_the_best_has_the_step_that_its_training_names(tmp_path: Path) -> None:
    put(tmp_path / "best_model")
    best = {"best_model_checkpoint": "elsewhere/out/checkpoint-5"}
    (put(tmp_path / "checkpoint-10") / STATE).write_text(trainer_state(10, **best))
    run = PretrainedRun(tmp_path, "out")
    assert run.steps() == [5, 10]
    [remark] = run.remarks
    assert remark.startswith("best_model: its step is 5")


def test_configuration_and_tokenizer_above_are_those_of_the_checkpoints(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    """As scripts with ``accelerate`` leave them, at the end; each opens by itself, too."""
    top = tmp_path / "out"
    shutil.copytree(make_folder("t5"), top)
    for epoch in (0, 1):
        (top / f"epoch_{epoch}").mkdir()
        shutil.copy(top / WEIGHTS, top / f"epoch_{epoch}")
    (top / WEIGHTS).unlink()
    whole = PretrainedRun(make_folder("t5"), "t5")
    for path, steps in ((top, [0, 1]), (top / "epoch_1", [0]), (top / "epoch_0", [0])):
        run = open_run(str(path))
        assert run.steps() == steps
        assert run.parameters == whole.parameters
        table = run.load(steps[-1]).model.embedding_table("source")
        assert torch.equal(table, load_file(top / "epoch_0" / WEIGHTS)["shared.weight"])
        assert run.tokenizers.encode_source("the dog") == whole.tokenizers.encode_source("the dog")
    (top / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json: there is none, .* in the folder abo"):
        _ = open_run(str(top)).description


def test_the_final_model_has_the_log_of_its_training(tmp_path: Path) -> None:
    for step in (5, 10):
        put(tmp_path / f"checkpoint-{step}", state=step)
    put(tmp_path)
    assert log_file(tmp_path, "metrics.jsonl") == tmp_path / "checkpoint-10" / STATE
    assert PretrainedRun(tmp_path, "out").planned_steps == 60
    (tmp_path / STATE).write_text(trainer_state(10))
    assert log_file(tmp_path, "metrics.jsonl") == tmp_path / STATE
    weights = (tmp_path / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(weights[:-1])  # it is still written
    assert PretrainedRun(tmp_path, "out").steps() == [5, 10]


@pytest.mark.parametrize("make", [put, lambda path: lay_out(path, "checkpoint-5")])
def test_a_folder_of_runs_names_them(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Which is not one that a training has just made, to be waited for."""
    make(tmp_path / "outputs" / "mine" / "checkpoint-3")
    with pytest.raises(CheckpointError, match=r"name one in it: /.*/outputs/mine") as caught:
        open_run(str(tmp_path / "outputs"))
    assert not isinstance(caught.value, NoCheckpointYetError)


def _age(folder: Path) -> None:
    """Make everything in a folder an hour old: what changes next has another time."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3_600))


def test_a_folder_that_stays_as_it_is_is_looked_through_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, "checkpoint-5=5 checkpoint-10=10")
    _age(tmp_path)
    run = PretrainedRun(tmp_path, "one")
    assert run.steps() == [5, 10]
    monkeypatch.delattr(checkpoints, "_find")  # which looks through it
    assert run.steps() == [5, 10]
    assert run.remarks == []


@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (lambda top: put(top / "checkpoint-15", state=15), [5, 10, 15]),
        (lambda top: shutil.rmtree(top / "checkpoint-5"), [10]),
        (lambda top: (top / "checkpoint-5" / WEIGHTS).unlink(), [10]),
        (lambda top: change_json(top / "checkpoint-5" / "config.json", d_model=48), [10]),
        (lambda top: put(top, state=20), [5, 10, 20]),
    ],
)
def test_what_changes_in_a_folder_is_seen_at_once(
    tmp_path: Path, change: Callable[[Path], object], steps: list[int]
) -> None:
    lay_out(tmp_path, "checkpoint-5=5 checkpoint-10=10")
    _age(tmp_path)
    run = PretrainedRun(tmp_path, "one")
    assert run.steps() == [5, 10]
    change(tmp_path)
    assert run.steps() == steps
    _age(tmp_path)
    assert run.steps() == steps


def test_weights_that_are_still_being_written_are_looked_at_each_time(tmp_path: Path) -> None:
    lay_out(tmp_path, "checkpoint-5 checkpoint-10")
    weights = tmp_path / "checkpoint-10" / WEIGHTS
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    _age(tmp_path)
    run = PretrainedRun(tmp_path, "one")
    assert run.steps() == [5]
    stamp = weights.stat().st_mtime_ns
    weights.write_bytes(whole)
    os.utime(weights, ns=(stamp, stamp))
    assert run.steps() == [5, 10]
