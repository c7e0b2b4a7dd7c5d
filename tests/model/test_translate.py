"""``python -m headwise.model.translate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headwise.model.translate
from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.beam import Beam, beam_search
from headwise.model.decoding.translation import Decoding, translate
from headwise.model.translate import TranslateArguments, translate_lines
from tests.floats import rounding

Command = Callable[..., str]


LINES = ["The book is on the table.", "", "Where is the key?", "   ", "We want water."]


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def translations(trained_run: TrainedRun) -> list[str]:
    """Translate the lines with the model of step 0, whose translations differ."""
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
    command: Command,
    trained_run: TrainedRun,
    trained_root: Path,
    text_file: Path,
    translations: list[str],
    flags: list[object],
    decoding: Decoding,
) -> None:
    run = ["--run", "tiny", "--step", 0, "--checkpoints", trained_root]
    output = command("translate", *run, *flags, text_file).split("\n")
    full = [line for line in LINES if line.strip()]
    model = load_weights(trained_run, 0).model
    found = translate(model, trained_run.tokenizers, full, decoding=decoding)
    wanted = {line: " ".join(text.splitlines()) for line, text in zip(full, found, strict=True)}
    assert output == [*(wanted.get(line, "") for line in LINES), ""]
    assert output[:-1] != translations


def test_n_best_lines_have_number_score_and_text(
    command: Command, trained_run: TrainedRun, trained_root: Path, text_file: Path
) -> None:
    """Lines are numbered from 1; an empty line has no translation."""
    flags = ["--run", "tiny", "--step", 0, "--checkpoints", trained_root]
    best = ["--beam", 4, "--length-penalty", 1, "--n-best", 3]
    outputs = [
        command("translate", *flags, *best, *batch_size, text_file)
        for batch_size in ([], ["--batch-size", 1])
    ]

    model, tokenizers, wanted = load_weights(trained_run, 0).model, trained_run.tokenizers, []
    for number, line in enumerate(LINES, start=1):
        if line.strip():
            [beam] = beam_search(model, [tokenizers.encode_source(line)], size=4, alpha=1)
            for h in beam.hypotheses[:3]:
                text = " ".join(tokenizers.target.decode(h.target).splitlines())
                bound = 0.00005 + rounding(torch.float32, abs(h.score))  # four digits are printed
                score = pytest.approx(h.score, rel=0, abs=bound)
                wanted.append((str(number), score, text))
    assert [number for number, _, _ in wanted] == list("111333555")
    for output in outputs:
        assert output.endswith("\n")
        rows = [line.split("\t") for line in output[:-1].split("\n")]
        assert [len(score.partition(".")[2]) for _, score, _ in rows] == [4] * 9
        assert [(number, float(score), text) for number, score, text in rows] == wanted


@pytest.mark.parametrize(
    ("module", "n_best"),
    [
        ("headwise.model.decoding.translation", []),
        ("headwise.model.decoding.beam", ["--n-best", 2]),
    ],
)
@pytest.mark.parametrize(("flags", "early"), [([], False), (["--early-stopping"], True)])
def test_the_beam_stops_as_asked(
    command: Command,
    trained_root: Path,
    text_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    n_best: list[object],
    flags: list[object],
    early: bool,
) -> None:
    asked = []

    def spy(*arguments: Any, early_stopping: bool, **options: Any) -> list[Beam]:
        asked.append(early_stopping)
        return beam_search(*arguments, early_stopping=early_stopping, **options)

    monkeypatch.setattr(f"{module}.beam_search", spy)
    run = ["--run", "tiny", "--step", 0, "--checkpoints", trained_root]
    command("translate", *run, "--beam", 3, *n_best, *flags, text_file)
    assert asked == [early]


def test_lines_of_different_chunks_have_different_seeds(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def translate(_: Any, __: Any, texts: list[str], **options: Any) -> list[str]:
        starts.append(options["start"])
        return texts

    monkeypatch.setattr(headwise.model.translate, "translate", translate)
    how = TranslateArguments(run="tiny", decoding=Decoding(temperature=1, seed=7))
    lines = ["a"] + [""] * 600 + ["b"]
    assert list(translate_lines(lines, trained_run, load_weights(trained_run, 8), how)) == lines
    assert starts == [0, 512]


def test_without_a_step_the_last_one_translates(trained_root: Path) -> None:
    run, checkpoint = headwise.model.translate.open_checkpoint("tiny", None, trained_root)
    assert (run.info.name, checkpoint.step) == ("tiny", 8)


def test_a_line_too_long_is_named(trained_run: TrainedRun) -> None:
    """It may be in a later chunk; the lines of earlier chunks are printed."""
    lines = [""] * 600 + ["a " * 100]
    checkpoint = load_weights(trained_run, 8)
    how = TranslateArguments(run="tiny", batch_size=2)
    output = translate_lines(lines, trained_run, checkpoint, how)
    for _ in range(512):
        assert next(output) == ""
    with pytest.raises(ValueError, match=r"line 601: expected at most 61 tokens, got \d+; split"):
        next(output)


@pytest.mark.parametrize("text", ["a\nb", "a\rb", "a\r\nb", "a\u2028b", "a\x0bb"])
def test_a_translation_with_line_breaks_is_one_line(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(headwise.model.translate, "translate", lambda *_, **__: [text])
    checkpoint = load_weights(trained_run, 8)
    [line] = translate_lines(["x"], trained_run, checkpoint, TranslateArguments(run="tiny"))
    assert line.splitlines() == ["a b"]


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"Hi\nni\xf1o\n", [], "error: the text is not UTF-8"),
        (b"Hi\n" + b"a " * 100, [], "error: line 2: expected at most 61 tokens"),
        (b"Hi\n", ["--batch-size", "0"], "error: batch_size: expected at least 1, got 0"),
        (
            b"Hi\n",
            ["--step", "4"],
            "error: .* no weights of step 4; there are those of: 0, 3, 5, 8",
        ),
        (b"Hi\n", ["--beam", "0"], "error: beam: expected at least 1, got 0"),
        (
            b"Hi\n",
            ["--n-best", "1", "--temperature", "1"],
            "error: n_best belongs to a beam; leave",
        ),
        (
            b"Hi\n",
            ["--n-best", "2"],
            "error: n_best: expected 0 to 1, .* got 2; give a larger",
        ),
        (b"Hi\n", ["--n-best", "3", "--beam", "2"], "error: n_best: expected 0 to 2, .* got 3"),
        (b"Hi\n", ["--n-best", "-1"], "error: n_best: expected 0 to 1, .* got -1"),
        (b"Hi\n", ["--run", "huge"], "error: no run named 'huge' .* there is: tiny"),
    ],
)
def test_translate_reports_bad_arguments(
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
    command: Command, trained_run: TrainedRun, tmp_path: Path, data_folder: Path
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
