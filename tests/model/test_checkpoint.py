"""Runs on disk: weights, ``run.json``, tokenizers and counts."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from headwise.model.checkpoint import (
    CHECKPOINTS,
    NEW_RUNS,
    CheckpointError,
    TrainedRun,
    create_run,
    list_runs,
    load_weights,
    open_trained_run,
    save_weights,
    steps_of,
    weights_path,
)
from headwise.model.config import to_dict
from headwise.model.transformer import Transformer

Values = dict[str, Any]
ChangeFile = Callable[[dict[str, Tensor], dict[str, str]], object]
TABLE = "encoder.embedding.table.weight"


@pytest.fixture
def run(trained_root: Path, tmp_path: Path) -> TrainedRun:
    """Copy the trained run, for tests that damage it."""
    shutil.copytree(trained_root, tmp_path, dirs_exist_ok=True)
    return open_trained_run("tiny", root=tmp_path)


def refused(run: TrainedRun, step: int, message: str) -> None:
    """Assert that loading fails with the file's name and the message."""
    with pytest.raises(CheckpointError, match=message) as error:
        load_weights(run, step)
    assert str(error.value).startswith(f"{weights_path(run.folder, step)}: ")


def not_opened(run: TrainedRun, message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as error:
        open_trained_run("tiny", root=run.folder.parent)
    assert str(run.folder) in str(error.value)


# Weights


def split(content: bytes) -> tuple[Values, bytes]:
    """Split a file of weights by hand into header and tensors."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def sha256_of_tensors(content: bytes) -> str:
    table, tensors = split(content)
    table.pop("__metadata__", None)
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode() + tensors).hexdigest()


def forge(run: TrainedRun, step: int, change: ChangeFile) -> None:
    """Change tensors or header of a file and make its hash fit again."""
    path = weights_path(run.folder, step)
    with safetensors.safe_open(path, "pt") as file:
        names = file.keys()
        tensors, metadata = {name: file.get_tensor(name) for name in names}, file.metadata()
    change(tensors, metadata)
    metadata |= {"sha256": sha256_of_tensors(safetensors.torch.save(tensors))}
    path.write_bytes(safetensors.torch.save(tensors, metadata))


def test_weights_come_back_as_rounded_to_float16(run: TrainedRun) -> None:
    torch.manual_seed(3)
    model = Transformer(run.info.model)
    sha256 = save_weights(run.folder, model, run="tiny", step=7)
    checkpoint = load_weights(run, 7)
    loaded = checkpoint.model.state_dict()
    assert loaded.keys() == model.state_dict().keys()
    for name, weights in model.state_dict().items():
        assert loaded[name].dtype == torch.float32
        assert torch.equal(loaded[name], weights.half().float()), name
    assert (checkpoint.run, checkpoint.step, checkpoint.sha256) == ("tiny", 7, sha256)
    assert not checkpoint.model.training
    assert not any(parameter.requires_grad for parameter in checkpoint.model.parameters())


def test_loaded_checkpoints_share_nothing(run: TrainedRun) -> None:
    """Not even where they are of one step; a hook or a weight of one is none of the other's."""
    first, second = (load_weights(run, 8).model for _ in range(2))
    modules = [set(model.modules()) for model in (first, second)]
    parameters = [set(model.parameters()) for model in (first, second)]
    assert not modules[0] & modules[1]
    assert not parameters[0] & parameters[1]
    ids, consumed = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 6]])

    def logits(model: Any) -> Tensor:
        with torch.inference_mode():
            return model.unembed(model.decode(consumed, *model.encode(ids)))

    expected = logits(second)
    first.encoder.layers[0].output.register_forward_hook(lambda *given: -given[-1])
    with torch.no_grad():
        first.decoder.layers[0].feed_forward.expand.weight.zero_()
    assert not torch.equal(logits(first), expected)
    assert torch.equal(logits(second), expected)
    assert torch.equal(logits(load_weights(run, 8).model), expected)


def test_header_and_tensors_of_a_weights_file(run: TrainedRun) -> None:
    """It has float16 tensors, tied ones once, and a header that identifies it."""
    path = weights_path(run.folder, 5)
    with safetensors.safe_open(path, "pt") as file:
        names, metadata = set(file.keys()), file.metadata()
        assert {file.get_tensor(name).dtype for name in names} == {torch.float16}
    assert len([name for name in names if "embedding" in name]) == 1  # tied="all"
    assert names == {name for name, _ in Transformer(run.info.model).named_parameters()}
    config = to_dict(run.info.model)
    config["n_layers"] = config.pop("n_encoder_layers")  # as before depths could differ
    assert config.pop("n_decoder_layers") == config["n_layers"]
    assert metadata == {
        "format_version": "1",
        "run": "tiny",
        "step": "5",
        "config_sha256": hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest(),
        "sha256": sha256_of_tensors(path.read_bytes()),
    }


def test_a_number_without_decimals_names_the_same_configuration(run: TrainedRun) -> None:
    whole, decimal = (replace(run.info.model, dropout=zero) for zero in (0, 0.0))
    save_weights(run.folder, Transformer(whole), run="tiny", step=7)
    load_weights(replace(run, info=replace(run.info, model=decimal)), 7)


def _four_less(tensors: dict[str, Tensor], _: Any) -> None:
    for side in ("decoder", "encoder"):
        for end in ("weight", "bias"):
            del tensors[f"{side}.layers.0.feed_forward.expand.{end}"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda tensors, _: tensors[TABLE].fill_(float("inf")),
            f"{TABLE}: expected finite numbers",
        ),
        (
            lambda tensors, _: tensors.update({"unembedding.weight": tensors[TABLE].clone()}),
            r"differ in unembedding.weight \(a tied tensor is stored once\)",
        ),
        (
            _four_less,
            r"expected (\d+) tensors, got (?!\1)\d+; they differ in "
            r"decoder\S+bias, decoder\S+weight, encoder\S+bias \(a tied",
        ),
        (
            lambda tensors, _: tensors.update({TABLE: tensors[TABLE].T.contiguous()}),
            rf"{TABLE}: expected shape \((\d+), 14\), got \(14, \1\)",
        ),
        (lambda _, header: header.update(run="other"), "its run should be tiny, .* says other"),
    ],
)
def test_a_foreign_file_is_refused(run: TrainedRun, change: ChangeFile, message: str) -> None:
    forge(run, 5, change)
    refused(run, 5, message)


def test_a_file_that_is_missing_truncated_or_has_a_flipped_bit_is_refused(run: TrainedRun) -> None:
    refused(run, 1234, "no weights of step 1,234; there are those of: 0, 3, 5, 8")
    path = weights_path(run.folder, 5)
    content = path.read_bytes()
    for size in (0, 7, 8, 500, -1):
        path.write_bytes(content[:size])
        refused(run, 5, "truncated, or not safetensors")
    for place in [*range(0, 3000, 53), *range(3000, len(content), 997), len(content) - 1]:
        broken = bytearray(content)
        broken[place] ^= 1
        path.write_bytes(broken)
        refused(run, 5, "truncated, or not safetensors|altered or foreign|restore the file")


def test_steps_are_those_of_weights_files(tmp_path: Path) -> None:
    for name in (
        "step-0000010.safetensors",
        "step-0000002.safetensors",
        "step-3.safetensors",
        "step-0000004.safetensors.bak",
        ".step-0000005.safetensors.x",
    ):
        (tmp_path / name).touch()
    assert steps_of(tmp_path) == [2, 10]
    assert steps_of(tmp_path / "nowhere") == []


# The run


def test_a_run_is_opened_as_it_was_created(run: TrainedRun, tmp_path: Path) -> None:
    """Where folders are missing, or an empty one is."""
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b"):
        create_run(folder, run.info, run.tokenizers, run.counts)
        again = open_trained_run(folder.name, root=folder.parent)
        assert (again.info, again.counts) == (run.info, run.counts)
        assert again.tokenizers.shared
        assert again.tokenizers.source.to_text() == run.tokenizers.source.to_text()
        assert (again.metrics(), again.samples()) == ([], [])
        with pytest.raises(CheckpointError, match="there are no weights yet"):
            again.steps()
    assert list_runs(tmp_path) == ["empty", "tiny"]


@pytest.mark.parametrize("name", ["other", "", ".", "..", "../tiny", "tiny/"])
def test_a_missing_run_is_named_with_the_existing_ones(run: TrainedRun, name: str) -> None:
    with pytest.raises(CheckpointError, match=r"no run named .*; there is: tiny"):
        open_trained_run(name, root=run.folder.parent)
    with pytest.raises(CheckpointError, match="there is: none"):
        open_trained_run(name, root=run.folder.parent / "nowhere")


def edit_json(path: Path, change: Callable[[Values], object]) -> None:
    values = json.loads(path.read_bytes())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("format_version"), "format version None; this program reads 1"),
        (lambda v: v["model"].update(n_head=3), r"model\.n_head: Unexpected keyword argument"),
        (lambda v: v.update(colour="red"), "colour: Unexpected keyword argument, got 'red'"),
        (lambda v: v.pop("model"), "model: Field required"),
        (lambda v: v.update(parameters=-1), "parameters: expected greater than or equal to 0, got"),
        (lambda v: v.update(parameters=10**400), r"expected less than 9223\d{15}, got 10{39}$"),
        (lambda v: v["data"].pop("licence"), r"data\.licence: Field required"),
        (lambda v: v["model"].update(n_layers=0), "n_encoder_layers: expected at least 1, got 0"),
        (lambda v: v["model"].update(source_vocab_size=5, target_vocab_size=5), r"\(5, 5\) tokens"),
        (lambda v: v.update(tokenizer_sha256={}), r"unknown tokenizer files \[\]"),
        (lambda v: v.update(tokenizer_sha256={"../x": ""}), r"unknown tokenizer files \['../x'\]"),
        (lambda v: v.update(source_language="\ud800"), "not JSON"),
    ],
)
def test_a_run_that_does_not_fit_is_refused(
    run: TrainedRun, change: Callable[[Values], object], message: str
) -> None:
    edit_json(run.folder / "run.json", change)
    not_opened(run, message)


@pytest.mark.parametrize(
    "name",
    ["n_encoder_layers", "n_decoder_layers", "n_heads", "d_k", "d_model", "d_ff", "max_length"],
)
def test_sizes_beyond_the_limits_are_refused(run: TrainedRun, name: str) -> None:
    """They are refused before anything of such a size is made."""
    for size in (2_000_000_000, 10**400):
        edit_json(
            run.folder / "run.json", lambda v, to=size: v["model"].update({"d_k": 7, name: to})
        )
        not_opened(run, rf"{name}: expected at most [\d,]+, got {str(size)[:20]}$")


def test_a_model_that_no_weights_file_belongs_to_is_refused(run: TrainedRun) -> None:
    edit_json(run.folder / "run.json", lambda values: values["model"].update(n_layers=5))
    message = r"run\.json: the model is not that of the weights in this folder; restore run.json"
    not_opened(run, message)
    for step in (0, 3, 5):
        weights_path(run.folder, step).write_bytes(b"")
    not_opened(run, message)


def test_foreign_and_broken_weights_do_not_close_a_run(run: TrainedRun) -> None:
    weights_path(run.folder, 5).write_bytes(b"")
    forge(run, 8, lambda _, header: header.update(config_sha256="0"))
    assert open_trained_run("tiny", root=run.folder.parent).steps() == [0, 3, 5, 8]
    for step in (0, 3, 8):
        weights_path(run.folder, step).unlink()
    assert open_trained_run("tiny", root=run.folder.parent).steps() == [5]


# Tokenizers and counts


def test_an_altered_a_missing_or_a_foreign_tokenizer_is_refused(run: TrainedRun) -> None:
    path = run.folder / "tokenizer.json"
    path.write_bytes(path.read_bytes() + b" ")
    not_opened(run, r"tokenizer\.json: altered, its sha256 is not")
    for content in (b"{}", b"\xff\xfe"):  # even if its hash fits
        path.write_bytes(content)
        sha256 = {"tokenizer.json": hashlib.sha256(content).hexdigest()}
        edit_json(run.folder / "run.json", lambda v, new=sha256: v.update(tokenizer_sha256=new))
        not_opened(run, r"tokenizer\.json: (not a tokenizer|'utf-8' codec)")
    path.unlink()
    not_opened(run, r"tokenizer\.json: cannot be read \(No such file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["source"].append(1), r"expected \((\d+), \1\) counts, got \((?!\1)\d+, \1\)"),
        (lambda v: v["target"].pop(), r"expected \((\d+), \1\) counts, got \(\1, (?!\1)\d+\)"),
        (lambda v: v.pop("target"), "expected source and target counts"),
        (lambda v: v.update(source="a" * len(v["source"])), "expected source and target counts"),
        *(
            (lambda v, odd=odd: v["source"].__setitem__(0, odd), "expected source and target")
            for odd in (None, True, -1, 0.5, "1", [1], 2**63)
        ),
    ],
)
def test_counts_that_do_not_fit_are_refused(
    run: TrainedRun, change: Callable[[Values], object], message: str
) -> None:
    edit_json(run.folder / "counts.json", change)
    with pytest.raises(CheckpointError, match=r"counts\.json: " + message):
        _ = run.counts
    (run.folder / "counts.json").unlink()
    with pytest.raises(CheckpointError, match=r"counts\.json: cannot be read"):
        _ = run.counts


def test_installed_without_the_project_runs_are_in_the_folder_of_the_start(tmp_path: Path) -> None:
    """Never beside the packages, where only runs to begin with are, read until there are others."""
    root, installed = Path(__file__).parents[2], tmp_path / "site"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(root / "model", installed / "headwise" / "model")
    shutil.copy(root / "headwise" / "__init__.py", installed / "headwise")
    code = """
import importlib, os
from headwise.model import checkpoint as module
print(module.CHECKPOINTS, module.NEW_RUNS)
os.mkdir("checkpoints")
importlib.reload(module)
print(module.CHECKPOINTS, module.NEW_RUNS)
"""
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=elsewhere, env=environment
    )
    found = [Path(folder).parent for folder in done.stdout.split()]
    assert found == [installed / "headwise", elsewhere, elsewhere, elsewhere]
    assert [CHECKPOINTS.parent, NEW_RUNS.parent] == [root, root]


@pytest.mark.parametrize("more", range(8))
def test_a_rewritten_file_may_have_a_header_of_any_length(run: TrainedRun, more: int) -> None:
    """It is filled up to a multiple of eight bytes. Those below are refused for their change."""
    forge(run, 5, lambda _, header: header.update(said="x" * more))
    load_weights(run, 5)


def test_a_type_that_torch_does_not_have_is_refused(run: TrainedRun) -> None:
    path = weights_path(run.folder, 5)
    header, tensors = split(path.read_bytes())
    tensor = next(value for name, value in header.items() if name != "__metadata__")
    tensor |= {"dtype": "F8_E8M0", "shape": [*tensor["shape"], 2]}  # of one byte each
    changed = json.dumps(header).encode()
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + tensors)
    refused(run, 5, r"expected shape \(14,\), got \(14, 2\)")


class Trap:
    """Unpickling an instance creates a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("unpickled"),)


def test_a_pickle_in_disguise_is_never_opened(
    run: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    weights_path(run.folder, 5).write_bytes(pickle.dumps(Trap()))
    refused(run, 5, "truncated, or not safetensors")
    assert not Path("unpickled").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"null", b"\xff", b"[" * 9**6])
def test_a_run_that_cannot_be_read_is_refused(run: TrainedRun, content: bytes) -> None:
    (run.folder / "run.json").write_bytes(content)
    not_opened(run, r"run\.json: ")
