"""The three programs as a person runs them, without starting Python anew each time."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import model.translate
from model.checkpoint import Run, load_weights, open_run, weights_path
from model.data import load_corpus
from model.decoding import translate
from model.evaluation import evaluate

Command = Callable[..., str]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs a program on arguments; its output, or SystemExit with what it says on failing."""

    def run(program: str, *arguments: object) -> str:
        name = f"model.{program}"
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", [program, *map(str, arguments)])
            patch.delitem(sys.modules, name, raising=False)
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        return capfd.readouterr().out

    return run


@pytest.fixture
def stdin() -> Iterator[Callable[[Path], None]]:
    """Makes a file the standard input."""
    saved = os.dup(0)

    def use(path: Path) -> None:
        handle = os.open(path, os.O_RDONLY)
        os.dup2(handle, 0)
        os.close(handle)

    yield use
    os.dup2(saved, 0)
    os.close(saved)


def options(kind: type, prefix: str = "") -> Iterator[str]:
    for name, hint in typing.get_type_hints(kind).items():
        option = prefix + name.replace("_", "-")
        if dataclasses.is_dataclass(hint):
            yield from options(typing.cast(type, hint), f"{option}.")
        else:
            yield option


@pytest.mark.parametrize("program", ["train", "translate", "evaluate"])
def test_help_names_every_option(
    command: Command,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    with pytest.raises(SystemExit) as ended:
        command(program, "--help")
    assert ended.value.code == 0
    text = capfd.readouterr().out
    for option in options(importlib.import_module(f"model.{program}").Arguments):
        wanted = "Text in UTF-8" if option == "file" else rf"--{re.escape(option)}[ ,│\n]"
        assert re.search(wanted, text), option


# translate

LINES = ["The book is on the table.", "", "Where is the key?", "   ", "We want water."]


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def translations(trained_run: Run) -> list[str]:
    """Of the lines, by the model of step 0, whose translations differ."""
    model, full = load_weights(trained_run, 0).model, [line for line in LINES if line.strip()]
    translated = translate(model, trained_run.tokenizers, full)
    assert len(set(translated)) == len(full)
    by_line = dict(zip(full, translated, strict=True))
    return [by_line.get(line, "") for line in LINES]


def test_one_line_out_for_each_line_in(
    command: Command, trained_root: Path, text_file: Path, translations: list[str]
) -> None:
    flags = ["--run", "tiny", "--step", 0, "--checkpoints", trained_root]
    assert command("translate", *flags, text_file).split("\n") == [*translations, ""]
    one_by_one = command("translate", *flags, "--batch-size", 1, text_file)
    assert one_by_one.split("\n") == [*translations, ""]


@pytest.mark.parametrize("dash", [[], ["-"]])
def test_standard_input_is_read(
    command: Command,
    stdin: Callable[[Path], None],
    trained_root: Path,
    text_file: Path,
    translations: list[str],
    dash: list[str],
) -> None:
    stdin(text_file)
    output = command(
        "translate", "--run", "tiny", "--step", 0, "--checkpoints", trained_root, *dash
    )
    assert output.split("\n") == [*translations, ""]


def test_without_a_step_the_last_one_translates(trained_root: Path) -> None:
    run, checkpoint = model.translate.open_checkpoint("tiny", None, trained_root)
    assert (run.info.name, checkpoint.step) == ("tiny", 8)


def test_a_line_too_long_is_named(trained_run: Run) -> None:
    """Also beyond the lines that are translated together; those before it come out."""
    lines = [""] * 600 + ["a " * 100]
    checkpoint = load_weights(trained_run, 8)
    output = model.translate.translate_lines(lines, trained_run, checkpoint, batch_size=2)
    for _ in range(512):
        assert next(output) == ""
    with pytest.raises(ValueError, match=r"line 601: expected at most 61 pieces, got \d+; split"):
        next(output)


@pytest.mark.parametrize(
    "text",
    [
        "a\nb",
        "a\rb",
        "a\r\nb",
        "a\u2028b",
        "a\x0bb",
    ],
)
def test_a_translation_with_line_breaks_is_one_line(
    trained_run: Run, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(model.translate, "translate", lambda *_, **__: [text])
    checkpoint = load_weights(trained_run, 8)
    [line] = model.translate.translate_lines(["x"], trained_run, checkpoint, batch_size=1)
    assert line.splitlines() == ["a b"]


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"Hi\nni\xf1o\n", [], "error: the text is not UTF-8"),
        (b"Hi\n" + b"a " * 100, [], "error: line 2: expected at most 61 pieces"),
        (b"Hi\n", ["--batch-size", "0"], "error: batch_size: expected at least 1, got 0"),
        (
            b"Hi\n",
            ["--step", "4"],
            "error: .* no weights of step 4; there are those of: 0, 3, 5, 8",
        ),
        (b"Hi\n", ["--run", "huge"], "error: no run named 'huge' .* there is: tiny"),
    ],
)
def test_translate_says_what_is_wrong(
    command: Command,
    trained_root: Path,
    tmp_path: Path,
    content: bytes,
    flags: list[str],
    message: str,
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    run = [] if "--run" in flags else ["--run", "tiny"]
    with pytest.raises(SystemExit, match=message):
        command("translate", *run, "--checkpoints", trained_root, *flags, tmp_path / "a.txt")


def test_translate_names_a_missing_file(command: Command, trained_root: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: .*'nowhere\.txt'"):
        command("translate", "--run", "tiny", "--checkpoints", trained_root, "nowhere.txt")


def test_a_run_without_weights_says_so(
    command: Command, trained_run: Run, tmp_path: Path, data_folder: Path
) -> None:
    for name in ("run.json", "tokenizer.json"):
        target = tmp_path / "tiny" / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((trained_run.folder / name).read_bytes())
    flags = ["--run", "tiny", "--checkpoints", tmp_path]
    with pytest.raises(SystemExit, match=r"error: .* there are no weights yet"):
        command("translate", *flags, data_folder / "README.md")
    with pytest.raises(SystemExit, match=r"error: .* there are no weights yet"):
        command("evaluate", *flags, "--data", data_folder / "valid.jsonl")


# evaluate


@pytest.mark.parametrize(
    ("flags", "steps"),
    [
        ([], [8]),
        (["--step", "last"], [8]),
        (["--step", "3"], [3]),
        (["--step", "all"], [0, 3, 5, 8]),
    ],
)
def test_evaluate_prints_a_line_of_json_for_each_checkpoint(
    command: Command,
    trained_run: Run,
    trained_root: Path,
    data_folder: Path,
    flags: list[str],
    steps: list[int],
) -> None:
    data = data_folder / "valid.jsonl"
    output = command(
        "evaluate", "--run", "tiny", "--data", data, "--checkpoints", trained_root, *flags
    )
    rows = [json.loads(line) for line in output.splitlines()]
    assert [row["step"] for row in rows] == steps
    checkpoint = load_weights(trained_run, steps[-1])
    pairs = load_corpus(str(data), source="en", target="es").pairs
    assert rows[-1] == {
        "run": "tiny",
        "step": steps[-1],
        "sha256": checkpoint.sha256,
        "data": "valid.jsonl",
        **vars(evaluate(checkpoint.model, trained_run.tokenizers, pairs)),
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--step", "first"], "error: step: expected a number, last or all, got 'first'"),
        (["--step", "-1"], "error: step: expected a number, last or all, got '-1'"),
        (["--step", "4"], "error: .* no weights of step 4"),
        (["--data", "nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
    ],
)
def test_evaluate_says_what_is_wrong(
    command: Command, trained_root: Path, data_folder: Path, flags: list[str], message: str
) -> None:
    data = [] if "--data" in flags else ["--data", data_folder / "valid.jsonl"]
    with pytest.raises(SystemExit, match=message):
        command("evaluate", "--run", "tiny", "--checkpoints", trained_root, *data, *flags)


def test_evaluate_names_a_broken_checkpoint(
    command: Command, trained_run: Run, tmp_path: Path, data_folder: Path
) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in ("run.json", "tokenizer.json"):
        (folder / name).write_bytes((trained_run.folder / name).read_bytes())
    weights_path(folder, 8).write_bytes(b"x" * 100)
    with pytest.raises(SystemExit, match=r"error: .*step-0000008\.safetensors: truncated"):
        command(
            "evaluate", "--run", "tiny", "--checkpoints", tmp_path,
            "--data", data_folder / "valid.jsonl",
        )  # fmt: skip


# train


def test_a_run_is_trained_from_the_shell(
    tmp_path: Path, data_folder: Path, datasets_cache: Path
) -> None:
    flags = (
        f"--run new --train {data_folder}/train.jsonl --valid {data_folder}/valid.jsonl"
        f" --checkpoints {tmp_path} --source es --target en --training.steps 2"
        " --training.precision no --training.milestones 1 --training.log-every 2"
        " --model.d-model 12 --model.n-heads 3 --model.n-layers 1 --model.d-ff 16"
        " --model.source-vocab-size 390 --model.target-vocab-size 400 --model.tied output"
    )
    finished = subprocess.run(
        [sys.executable, "-m", "model.train", *flags.split()],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HF_DATASETS_CACHE": str(datasets_cache), "OMP_NUM_THREADS": "1"},
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == ""
    assert "48 pairs kept of 48" in finished.stderr
    assert "milestone 2: {'step': 2, 'valid_loss'" in finished.stderr
    run = open_run("new", root=tmp_path)
    assert run.steps() == [1, 2]
    assert (run.info.source_language, run.info.target_language) == ("es", "en")
    assert not run.tokenizers.shared
    assert run.info.model.head_width == 4
    assert load_weights(run, 2).model.config == run.info.model


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train", "nowhere.jsonl"], "error: nowhere.jsonl: no such file"),
        (
            ["--model.source-vocab-size", "100"],
            "error: vocab_size: expected more than 260, got 100",
        ),
    ],
)
def test_train_says_what_is_wrong(
    command: Command, tmp_path: Path, data_folder: Path, flags: list[str], message: str
) -> None:
    train = [] if "--train" in flags else ["--train", data_folder / "train.jsonl"]
    with pytest.raises(SystemExit, match=message):
        command(
            "train", "--run", "new", "--checkpoints", tmp_path, *train,
            "--valid", data_folder / "valid.jsonl", "--model.tied", "none", *flags,
        )  # fmt: skip
    assert not list(tmp_path.iterdir())
