"""``python -m model.translate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import model.translate
from model.checkpoint import Run, load_weights
from model.decoding import translate

Command = Callable[..., str]


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
