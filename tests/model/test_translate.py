"""``python -m headwise.model.translate``."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headwise.model.translate
from headwise.model.checkpoint import Checkpoint, TrainedRun, load_weights
from headwise.model.decoding.beam import beam_search
from headwise.model.decoding.translation import Decoding, translate
from headwise.model.translate import TranslateArguments, translate_lines
from tests.floats import rounding
from tests.tiny import DATA

Command = Callable[..., str]

LINES = ["The book is on the table.", "", "Where is the key?", "   ", "We want water."]
FULL = [line for line in LINES if line.strip()]


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def at_0(tiny: Command) -> Command:
    """Return a function that translates with the model of step 0, whose translations differ."""
    return lambda *arguments: tiny("translate", "--step", 0, *arguments)


@pytest.fixture(scope="module")
def first(trained_run: TrainedRun) -> Checkpoint:
    return load_weights(trained_run, 0)


@pytest.fixture(scope="module")
def last(trained_run: TrainedRun) -> Checkpoint:
    return load_weights(trained_run, 8)


@pytest.fixture(scope="module")
def translated(trained_run: TrainedRun, first: Checkpoint) -> Callable[..., str]:
    """Return a function from a way of decoding to the output for the lines."""

    def output(**options: Any) -> str:
        found = translate(first.model, trained_run.tokenizers, FULL, **options)
        assert len(set(found)) == len(FULL)
        by_line = {k: " ".join(v.splitlines()) for k, v in zip(FULL, found, strict=True)}
        return "".join(by_line.get(line, "") + "\n" for line in LINES)

    return output


@pytest.fixture
def from_stdin(text_file: Path) -> Iterator[None]:
    """Make the file of lines the standard input."""
    saved, handle = os.dup(0), os.open(text_file, os.O_RDONLY)
    os.dup2(handle, 0)
    yield
    os.dup2(saved, 0)
    os.close(saved)
    os.close(handle)


def test_one_line_out_for_each_line_in(
    at_0: Command, text_file: Path, translated: Callable[..., str]
) -> None:
    assert at_0(text_file) == translated()
    assert at_0("--batch-size", 1, text_file) == translated()


def test_only_line_feeds_end_a_line(at_0: Command, text_file: Path) -> None:
    """So the lines of the output are those of the input, as ``wc -l`` and corpora count them."""
    text_file.write_bytes("One.\u2028Two.\r\n\x85x\ry\u2029z\r\n\r\nEnd".encode())
    assert list(map(bool, at_0(text_file).split("\n"))) == [True, True, False, True, False]


@pytest.mark.usefixtures("from_stdin")
@pytest.mark.parametrize("dash", [[], ["-"]])
def test_standard_input_is_read(
    at_0: Command, translated: Callable[..., str], dash: list[str]
) -> None:
    assert at_0(*dash) == translated()


@pytest.mark.parametrize(
    ("flags", "decoding"),
    [
        (["--beam", 3], Decoding(beam=3)),
        (["--beam", 3, "--length-penalty", 0], Decoding(beam=3, length_penalty=0)),
        (["--temperature", 1], Decoding(temperature=1)),
        (["--temperature", 1, "--seed", 5], Decoding(temperature=1, seed=5)),
        (["--temperature", 0.7, "--top-p", 0.9], Decoding(temperature=0.7, top_p=0.9)),
    ],
)
def test_beam_search_and_sampling_can_be_chosen(
    at_0: Command,
    text_file: Path,
    translated: Callable[..., str],
    flags: list[object],
    decoding: Decoding,
) -> None:
    output = at_0(*flags, text_file)
    assert output == translated(decoding=decoding)
    assert output != translated()


def test_n_best_lines_have_number_score_and_text(
    at_0: Command, trained_run: TrainedRun, first: Checkpoint, text_file: Path
) -> None:
    """Lines are numbered from 1; an empty line has no translation."""
    tokenizers, wanted = trained_run.tokenizers, []
    for number, line in enumerate(LINES, start=1):
        if line.strip():
            [beam] = beam_search(first.model, [tokenizers.encode_source(line)], size=4, alpha=1)
            for h in beam.hypotheses[:3]:
                text = " ".join(tokenizers.target.decode(h.target).splitlines())
                bound = 0.00005 + rounding(torch.float32, abs(h.score))  # four digits are printed
                score = pytest.approx(h.score, rel=0, abs=bound)
                wanted.append((str(number), score, text))
    assert [number for number, _, _ in wanted] == list("111333555")
    best = ["--beam", 4, "--length-penalty", 1, "--n-best", 3]
    for batch_size in ([], ["--batch-size", 1]):
        output = at_0(*best, *batch_size, text_file)
        assert output.endswith("\n")
        rows = [line.split("\t") for line in output[:-1].split("\n")]
        assert [len(score.partition(".")[2]) for _, score, _ in rows] == [4] * 9
        assert [(number, float(score), text) for number, score, text in rows] == wanted


def test_lines_of_different_chunks_have_different_seeds(
    trained_run: TrainedRun, last: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def translate(_: Any, __: Any, texts: list[str], **options: Any) -> list[str]:
        starts.append(options["start"])
        return texts

    monkeypatch.setattr(headwise.model.translate, "translate", translate)
    how = TranslateArguments(run="tiny", decoding=Decoding(temperature=1, seed=7))
    lines = ["a"] + [""] * 600 + ["b"]
    assert list(translate_lines(lines, trained_run, last, how)) == lines
    assert starts == [0, 512]


def test_a_line_too_long_is_named_after_the_lines_of_earlier_chunks(
    trained_run: TrainedRun, last: Checkpoint
) -> None:
    how = TranslateArguments(run="tiny", batch_size=2)
    output = translate_lines([""] * 600 + ["a " * 100], trained_run, last, how)
    assert [next(output) for _ in range(512)] == [""] * 512
    with pytest.raises(ValueError, match=r"line 601: expected at most 61 tokens, got \d+; split"):
        next(output)


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\r\nb", "a\u2028b", "a\x0bb"])
def test_a_translation_with_line_breaks_is_one_line(
    trained_run: TrainedRun, last: Checkpoint, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(headwise.model.translate, "translate", lambda *_, **__: [text])
    [line] = translate_lines(["x"], trained_run, last, TranslateArguments(run="tiny"))
    assert line.splitlines() == ["a b"]


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"Hi\nni\xf1o\n", "", "error: the text is not UTF-8"),
        (b"Hi\n" + b"a " * 100, "", "error: line 2: expected at most 61 tokens"),
        (b"Hi\n", "--batch-size 0", "error: batch_size: expected at least 1, got 0"),
        (b"Hi\n", "--step 4", "error: .* no weights of step 4; there are those of: 0, 3, 5, 8"),
        (b"Hi\n", "--beam 0", "error: beam: expected at least 1, got 0"),
        (b"Hi\n", "--n-best 1 --temperature 1", "error: n_best belongs to a beam; leave"),
        (b"Hi\n", "--n-best 2", "error: n_best: expected 0 to 1, .* got 2; give a larger"),
        (b"Hi\n", "--n-best 3 --beam 2", "error: n_best: expected 0 to 2, .* got 3"),
        (b"Hi\n", "--n-best -1", "error: n_best: expected 0 to 1, .* got -1"),
        (b"Hi\n", "--run huge", "error: no run named 'huge' .* there is: tiny"),
        (b"", "nowhere.txt", r"error: .*'nowhere\.txt'"),
    ],
)
def test_translate_reports_bad_arguments(
    tiny: Command, tmp_path: Path, content: bytes, flags: str, message: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    file = [tmp_path / "a.txt"] if content else []
    with pytest.raises(SystemExit, match=message):
        tiny("translate", *flags.split(), *file)


def test_runs_without_weights_say_so(
    tiny: Command, trained_run: TrainedRun, tmp_path: Path
) -> None:
    for name in ("run.json", "tokenizer.json"):
        (tmp_path / "tiny").mkdir(exist_ok=True)
        shutil.copy(trained_run.folder / name, tmp_path / "tiny")
    for program, text in (
        ("translate", [DATA / "README.md"]),
        ("evaluate", ["--data", DATA / "valid.jsonl"]),
    ):
        with pytest.raises(SystemExit, match=r"error: .* there are no weights yet"):
            tiny(program, "--checkpoints", tmp_path, *text)
