"""Word alignments of a tiny run and of a shipped one by command."""

from __future__ import annotations

import json
import re
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import (
    CHECKPOINTS,
    TrainedRun,
    load_weights,
    save_weights,
    weights_path,
)
from headwise.model.files import CheckpointError
from headwise.model.runs import open_run
from headwise.model.training.corpora import stream_corpus
from headwise.model.training.data import DataError
from headwise.model.transformer import Transformer
from headwise.viz_app import measure
from headwise.viz_app.align import HeadAlignArguments, main
from headwise.viz_app.analysis.attention import to_words
from headwise.viz_app.core.batches import LeftOutCounts, encode
from headwise.viz_app.measuring.alignments import (
    Alignments,
    Links,
    format_links,
    parse_links,
    symmetrise,
    write_alignments,
)
from headwise.viz_app.measuring.files import measures_path, read_measures
from headwise.viz_app.measuring.words import identity_links
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import rounding
from tests.viz_app.conftest import ENGLISH, SPANISH, RunCommand

pytestmark = pytest.mark.usefixtures("datasets_cache")

PAIRS = [*zip(ENGLISH, SPANISH, strict=True), ("The cat", ""), ("a" * 40, "b"), ("Dog.", "Perro.")]
"""The seventh and the eighth cannot be aligned."""


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> Path:
    lines = [json.dumps({"en": source, "es": target}) for source, target in pairs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.jsonl", PAIRS)


def align(root: Path, data: Path | str, *rest: str, run: str = "tiny") -> None:
    line = ["--run", run, "--checkpoints", str(root), str(data), *rest]
    main(tyro.cli(HeadAlignArguments, args=line))


def aligned(root: Path, data: Path | str, *rest: str, run: str = "tiny") -> list[str]:
    """The lines of a file, which are removed again."""
    out = Path(data).with_name("out.txt")
    align(root, data, "--out", str(out), *rest, run=run)
    lines = out.read_text().splitlines()
    out.unlink()
    return lines


# Lines


@pytest.mark.parametrize("rows", ["predicted", "consumed"])
def test_lines_are_of_the_maps(run_root: Path, run: TrainedRun, data: Path, rows: str) -> None:
    """Words of a trace's map; of both sides, <s> and </s> are left out."""
    lines = aligned(run_root, data, "--head", "cross.2.3", "--rows", rows)
    assert len(lines) == len(PAIRS)
    model = load_weights(run, 60).model
    assert [not line for line in lines] == [False] * 6 + [True, True, False]
    for line, (source, target) in zip(lines, PAIRS, strict=True):
        if line:
            trace = run_trace(model, run.tokenizers, source, target)
            queries = trace.predicted if rows == "predicted" else trace.consumed
            weights = to_words(trace.attention["cross"][1, 2], queries.words, trace.source.words)
            text = slice(None, -1) if rows == "predicted" else slice(1, None)
            chosen = weights[text, :-1].argmax(axis=-1)
            assert line == format_links({(int(s), t) for t, s in enumerate(chosen)})
            assert re.fullmatch(r"\d+-\d+( \d+-\d+)*", line)


def test_lines_go_to_standard_output_and_words_about_them_to_the_other(
    run_root: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = aligned(run_root, data, "--head", "cross.1.2", "--step", "20")
    capsys.readouterr()
    align(run_root, data, "--heads", "cross.1.2", "--step", "20")
    out, err = capsys.readouterr()
    assert out == "".join(f"{line}\n" for line in expected)
    assert out.splitlines() != aligned(run_root, data, "--head", "cross.1.2")
    assert "head cross.1.2 of tiny, checkpoint 20; 7 pairs" in err
    assert "2 pairs got an empty line: 1 with an empty side, 1 too long for tiny" in err
    assert "9pair" in err


# Reference, report, best head


def test_pairs_count_once(
    run_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though they are read once more to compare heads; one pair is not "1 pairs"."""
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS[:1])
    reference = tmp_path / "links.txt"
    reference.write_text("0-0\n")
    out = ["--out", str(tmp_path / "out.txt"), "--reference", str(reference)]
    align(run_root, data, *out)
    err = capsys.readouterr().err
    assert re.findall(r"aligning: (\d+)pair", err)[-1] == "1"
    assert re.findall(r"checkpoint 60; (1 \w+)", err) == ["1 pair"]


def report(root: Path, data: Path, reference: Path, *rest: str, run: str = "tiny") -> Any:
    path = data.with_name("report.json")
    more = ["--reference", str(reference), "--report", str(path), *rest]
    align(root, data, "--out", str(data.with_name("out.txt")), *more, run=run)
    return json.loads(path.read_text())


@pytest.mark.parametrize("rows", ["predicted", "consumed"])
def test_error_rates_are_those_in_the_measures_of_a_shipped_run(tmp_path: Path, rows: str) -> None:
    """The copy task, whose alignment is known: the sentences that were measured."""
    run = open_run("copy")
    stream = stream_corpus("copy:validation", source="", target="x")
    sentences = list(
        islice(
            encode(
                stream.pairs,
                run.tokenizers,
                max_length=run.description.max_length,
                left_out=LeftOutCounts(),
            ),
            512,
        )
    )
    languages = run.source_language, run.target_language
    lines = [json.dumps(dict(zip(languages, s.pair, strict=True))) for s in sentences]
    data, reference = tmp_path / "copy.jsonl", tmp_path / "links.txt"
    data.write_text("\n".join(lines) + "\n")
    links = map(identity_links(run.tokenizers), sentences)
    reference.write_text("".join(f"{format_links(set(one.pairs))}\n" for one in links if one))
    found = report(CHECKPOINTS, data, reference, "--rows", rows, run="copy")
    measures = read_measures(run.folder, run.steps()[-1])
    stored = measures.values[f"aer_{rows}"]["cross"]
    assert (found["run"], found["step"], found["sha256"]) == ("copy", 2000, measures.sha256)
    assert found["sentences"] == measures.corpus.sentences == 512
    rates = [head["aer"] for head in found["heads"]]
    unit = 1e-5  # of the last decimal: both are rounded, one of them in float32
    most = unit + rounding(np.float32, 1)
    np.testing.assert_allclose(rates, stored.flatten(), rtol=0, atol=most)
    assert len(set(rates)) == 4
    best = [stored[layer, head] for layer, head in found["alignment_heads"]]
    assert best == sorted(stored.flatten())
    layer, head = found["alignment_heads"][0]
    assert found["written"]["head"] == f"cross.{layer + 1}.{head + 1}"
    assert found["written"]["aer"] == min(rates)


def test_head_that_is_named_is_compared_too(run_root: Path, data: Path, tmp_path: Path) -> None:
    """Its own lines are the reference."""
    lines = aligned(run_root, data, "--head", "cross.2.1")
    reference = tmp_path / "links.txt"
    reference.write_text("".join(f"{line}\n" for line in lines))
    found = report(run_root, data, reference, "--head", "cross.1.1")
    assert found["alignment_heads"][0] == [1, 0]
    assert sorted(found["alignment_heads"]) == [[a, b] for a in (0, 1) for b in (0, 1, 2)]
    heads = {head.pop("head"): head for head in found["heads"]}
    assert heads["cross.2.1"] == {"aer": 0, "precision": 1, "recall": 1}
    assert found["written"] == {"head": "cross.1.1", **heads["cross.1.1"]}
    assert 0 < heads["cross.1.1"]["aer"] < 1
    assert (found["rows"], found["sentences"]) == ("predicted", 7)
    assert aligned(run_root, data, "--reference", str(reference)) == lines


def test_best_head_is_that_of_the_measures(own_root: Path, data: Path) -> None:
    rest = ["--data", str(data), "--examples", str(_examples(data)), "--steps", "60"]
    line = ["--run", "tiny", "--checkpoints", str(own_root), *rest]
    best = ["--heads", "best", "--rows", "consumed"]
    measure.main(tyro.cli(measure.MeasureArguments, args=line))
    with pytest.raises(ValueError, match="tiny was measured without reference alignments"):
        align(own_root, data, *best)
    sha256 = stream_corpus(str(data), source="en", target="es").sha256
    links = {8: Links(2, 2, frozenset({(0, 0), (1, 1)}))}
    write_alignments(own_root / "tiny", Alignments(data.name, sha256, "by hand", links))
    measure.main(tyro.cli(measure.MeasureArguments, args=line))
    rates = read_measures(own_root / "tiny", 60).values["aer_consumed"]["cross"]
    layer, head = divmod(int(rates.argmin()), 3)
    named = aligned(own_root, data, "--head", f"cross.{layer + 1}.{head + 1}", *best[2:])
    assert aligned(own_root, data, *best) == named
    with pytest.raises(ValueError, match="tiny has no measures of step 20"):
        align(own_root, data, *best, "--step", "20")
    path = measures_path(own_root / "tiny", 60)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": "0"}))
    with pytest.raises(ValueError, match="those of tiny are of other weights; measure again"):
        align(own_root, data, *best)


def _examples(data: Path) -> Path:
    path = data.with_name("examples.jsonl")
    path.write_text(json.dumps({"source": ENGLISH[0], "reference": SPANISH[0]}) + "\n")
    return path


# Both directions


@pytest.fixture
def both_root(own_root: Path, trained: Transformer) -> Path:
    """The run ``tiny``, and ``back``, the same but said to be from Spanish to English."""
    folder = shutil.copytree(own_root / "tiny", own_root / "back")
    save_weights(folder, trained, run="back", step=60)
    info = json.loads((folder / "run.json").read_text())
    info |= {"name": "back", "source_language": "es", "target_language": "en"}
    (folder / "run.json").write_text(json.dumps(info))
    for step in (0, 20):
        weights_path(folder, step).unlink()
    return own_root


def test_both_directions(both_root: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heads = ["--head", "cross.2.1", "--reverse-head", "cross.1.3"]
    forward = aligned(both_root, data, "--head", "cross.2.1")
    back = aligned(both_root, data, "--head", "cross.1.3", run="back")
    ways = {"intersection": set.__and__, "union": set.__or__, "grow-diag-final-and": symmetrise}
    for how, combine in ways.items():
        lines = aligned(both_root, data, *heads, "--reverse", "back", "--symmetrise", how)
        for line, one, other in zip(lines, forward, back, strict=True):
            others = {(s, t) for t, s in parse_links(other)}
            both = combine(parse_links(one), others) if one and other else set()
            assert parse_links(line) == both
    assert sum(bool(one and other) for one, other in zip(forward, back, strict=True)) == 5
    assert "1 too long for tiny, 3 too long for back" in capsys.readouterr().err


# What cannot be done


def test_options_that_do_not_fit_are_refused(both_root: Path, data: Path, tmp_path: Path) -> None:
    links = tmp_path / "links.txt"
    links.write_text("0-0\n" * len(PAIRS))
    for rest, message in (
        (["--symmetrise", "union"], "symmetrise: expected --reverse with a run that translates"),
        (["--reverse", "back"], "reverse: expected --symmetrise with one of intersection, union"),
        (["--report", "report.json"], "report: expected --reference"),
        (["--reference", "nowhere.txt"], r"nowhere\.txt: no such file; expected a line of links"),
        (["--head", "cross.2"], "expected a head such as cross.2.4, got 'cross.2'"),
        (["--head", "cross.0.1"], "expected a head such as cross.2.4, got 'cross.0.1'"),
        (["--head", "encoder_self.1.1"], "a head of cross-attention .*, got encoder_self.1.1"),
        (["--head", "cross.2.4"], "a head of tiny from cross.1.1 to cross.2.3, got cross.2.4"),
        (["--out", str(tmp_path / "no" / "out.txt")], "no: no such folder; create it first"),
        ([], "tiny has no measures of step 60; headwise.viz_app.measure makes them"),
        (["--reverse", "tiny", "--symmetrise", "union"], "expected a run from es to en, got tiny"),
    ):
        with pytest.raises(ValueError, match=message):
            align(both_root, data, *rest)
    with pytest.raises(CheckpointError, match="no weights of step 7"):
        align(both_root, data, "--step", "7", "--head", "cross.1.1")


def test_files_that_cannot_be_used_are_refused_and_none_is_left(
    run_command: RunCommand, run_root: Path, data: Path, tmp_path: Path
) -> None:
    broken, nothing, links = (tmp_path / f"{name}.jsonl" for name in ("broken", "nothing", "links"))
    broken.write_text(data.read_text() + "{\n")
    nothing.touch()
    links.write_text("0-0\n" * len(PAIRS))
    empty = write_pairs(tmp_path / "empty.jsonl", [("", "")] * len(PAIRS))
    scored = ["--reference", str(links), "--report", str(tmp_path / "report.json")]
    rest = ["--head", "cross.1.1", "--out", str(tmp_path / "out.txt")]
    before = set(tmp_path.iterdir())
    for path, more, message in (
        (Path("nowhere.jsonl"), [], r"nowhere\.jsonl: no such file"),
        (empty, scored, "pairs that can be aligned, got none but 9 with an empty"),
        (broken, [], r"broken\.jsonl, line 10: expected a JSON object"),
        (nothing, [], "the file is empty"),
    ):
        with pytest.raises(DataError, match=message):
            align(run_root, path, *rest, *more)
    assert set(tmp_path.iterdir()) == before
    line = ["--run", "tiny", "--checkpoints", str(run_root), str(data)]
    said = run_command("headwise.viz_app.align", *line)
    assert said.startswith("error: expected the name of a head")
