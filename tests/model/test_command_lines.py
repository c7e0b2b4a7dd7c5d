"""What the command lines have in common, and ``headwise.model.train`` and ``convert``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise.model.checkpoint import open_trained_run
from headwise.model.training.corpora import load_corpus
from tests.commands import run_module
from tests.model.tutorials import from_torch, tutorial_model
from tests.tiny import DATA

Command = Callable[..., str]


@pytest.mark.parametrize(
    "module",
    [
        *(f"headwise.model.{name}" for name in ("train", "translate", "evaluate", "convert")),
        *(f"headwise.viz_app.{name}" for name in ("measure", "export", "align", "measuring.align")),
    ],
)
def test_usage_is_what_a_person_types(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the path of a file, which cannot be run."""
    monkeypatch.setattr(sys, "argv", ["/a/path.py", "--help"])
    with pytest.raises(SystemExit):
        run_module(module, monkeypatch)
    assert capsys.readouterr().out.startswith(f"usage: python -m {module} ")


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # by nn.Transformer
def test_convert_converts_and_says_what_is_wrong(tmp_path: Path, command: Command) -> None:
    arguments = from_torch(tmp_path, tutorial_model().state_dict())
    given = ["from-torch", arguments.file, "--layout", "torch-nn", "--run", "tutorial"]
    given += ["--source-vocab", arguments.source_vocab, "--target-vocab", arguments.target_vocab]
    given += ["--step", 7, "--checkpoints", arguments.checkpoints, "--source-language", "de"]
    assert "step-0000007.safetensors" in command("convert", *given, "--heads", 2, "--pad", "<pad>")
    assert open_trained_run("tutorial", root=arguments.checkpoints).source_language == "de"
    with pytest.raises(SystemExit, match="error: heads: expected a divisor"):
        command("convert", *given, "--heads", 3)


# Training


def test_commands_do_not_wait_for_libraries_that_they_do_not_need() -> None:
    code = (
        "import sys, headwise.model.train, headwise.model.convert\n"
        "from headwise.model.training.corpora import load_corpus\n"
        f"file = {str(DATA / 'train.jsonl')!r}\n"
        "assert load_corpus(file, source='en', target='es').pairs\n"
        "print(sorted({'datasets', 'pandas', 'tensorboard', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.usefixtures("datasets_cache")
def test_validation_data_are_held_back_if_none_are_given(
    command: Command, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """They are a file of the run, on which it can be evaluated; the training goes on as before."""
    run_of = ("--run", "new", "--checkpoints", tmp_path)
    flags = [
        *(*run_of, "--train", DATA / "train.jsonl"),
        *("--training.precision", "no", "--model.d-model", 12, "--model.d-ff", 16),
        "--training.milestones",
    ]
    command("train", *flags, "--training.steps", 1)
    run = open_trained_run("new", root=tmp_path)
    held_back = run.folder / "valid.jsonl"
    valid = load_corpus(str(held_back), source="en", target="es")
    assert run.info.data is not None
    assert (run.info.data.valid_file, run.info.data.valid_sha256) == ("valid.jsonl", valid.sha256)
    assert (run.info.data.train_pairs, run.info.data.held_back) == (46, 2)
    assert len(valid.pairs) == 2

    evaluated = json.loads(command("evaluate", *run_of, "--data", held_back))
    assert round(evaluated["loss"], 4) == run.metrics()[-1]["valid_loss"]
    train = ("--data", DATA / "train.jsonl", "--train-sample")
    assert json.loads(command("evaluate", *run_of, *train))["pairs"] == 46

    other = ("--training.steps", 2, "--resume", "--valid", DATA / "valid.jsonl")
    with pytest.raises(SystemExit, match="the validation data is not that which the run began"):
        command("train", *flags, *other)
    capfd.readouterr()
    with pytest.raises(SystemExit, match="step 1 is behind it already"):  # only the rates differ
        command("train", *flags, *other[:-2])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train", "nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
        (["--run", "../new"], r"error: --run: expected a plain folder name, got '\.\./new'"),
        (["--run", ".."], r"error: --run: expected a plain folder name, got '\.\.'"),
        (
            ["--model.source-vocab-size", "100"],
            "error: --model.source-vocab-size .* vocab_size: expected more than 260, got 100",
        ),
        (["--tensorboard"], r'TensorBoard is not installed; .*: pip install -e "\.\[tensorboard'),
    ],
)
def test_train_reports_bad_arguments(
    command: Command,
    tmp_path: Path,
    flags: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    data = ("--train", DATA / "train.jsonl", "--valid", DATA / "valid.jsonl")
    given = ("--run", "new", "--checkpoints", tmp_path, "--model.tied", "none")
    with pytest.raises(SystemExit, match=message):
        command("train", *given, *data, *flags)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_noticed_before_data_are_read(
    command: Command, tmp_path: Path, trained_root: Path
) -> None:
    """A folder that cannot be made, and a run that is there already."""
    (tmp_path / "file").touch()
    for run, root, message in [
        ("new", tmp_path / "file", r"file/new: .*[Nn]ot a directory"),
        ("tiny", trained_root, r"tiny: there is a run already; go on with it by --resume"),
    ]:
        with pytest.raises(SystemExit, match=message):
            command("train", "--run", run, "--train", "nowhere.jsonl", "--checkpoints", root)
