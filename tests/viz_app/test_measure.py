"""Measures of a tiny run by command, by one process and by two."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tyro

from model.checkpoint import Run, load_weights
from model.corpora import stream_corpus
from model.data import DataError
from viz_app.alignments import Alignments, Links, write_alignments
from viz_app.measure import Arguments, main
from viz_app.measure_files import measured_steps, read_measures
from viz_app.measure_records import MEASURES, Corpus, Measures
from viz_app.records import KINDS

pytestmark = pytest.mark.usefixtures("datasets_cache")

PAIRS = [
    ("The cats don't see the dog.", "Los gatos no ven al perro."),
    ("Where is the old dog?", "¿Dónde está el perro viejo?"),
    ("Where is the old dog?", "¿Dónde está?"),
    ("She gave him a book.", "Ella le dio un libro."),
    ("The cat", "El gato"),
    ("a" * 40, "a"),
]
"""Four can be measured."""
LINKS = {4: Links(2, 2, frozenset({(0, 0), (1, 1)}))}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "valid.jsonl"
    lines = [json.dumps({"translation": {"en": en, "es": es}}) for en, es in PAIRS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    path = tmp_path / "examples.jsonl"
    sentences = (("We don't know.", "No sabemos."), ("Where?", "¿Dónde?"), ("a" * 40, "b"))
    lines = [json.dumps({"source": en, "reference": es}) for en, es in sentences]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def line(root: Path, *rest: str) -> list[str]:
    return ["--run", "tiny", "--checkpoints", str(root), *rest]


def measure(root: Path, *rest: str) -> None:
    main(tyro.cli(Arguments, args=line(root, *rest)))


def align(folder: Path, data: Path) -> None:
    sha256 = stream_corpus(str(data), source="en", target="es").sha256
    write_alignments(folder, Alignments(data.name, sha256, "by hand", LINKS))


def test_every_checkpoint_is_measured(
    own_root: Path, run: Run, data: Path, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    align(own_root / "tiny", data)
    measure(own_root, "--data", str(data), "--examples", str(examples))
    folder = own_root / "tiny"
    assert measured_steps(folder) == [0, 20, 60]
    sha256 = stream_corpus(str(data), source="en", target="es").sha256
    pieces = [len(run.tokenizers.encode_target(PAIRS[n][1])) - 1 for n in (0, 1, 3, 4)]
    for step in (0, 20, 60):
        measures = read_measures(folder, step)
        assert measures.sha256 == load_weights(run, step).sha256
        assert measures.corpus == Corpus("valid.jsonl", sha256, 4, sum(pieces))
        assert [s.source for s in measures.sentences] == ["We don't know.", "Where?"]
        assert measures.examples_corpus.sentences == len(measures.translated) == 2
        assert measures.values["entropy"]["cross"].shape == (2, 3)
        assert measures.distance_to == 60
        assert {len(found) for found in measures.examples.values()} == {2}
        assert np.isfinite(measures.values["aer_predicted"]["cross"]).all()
    said = capsys.readouterr().err
    assert "alignments: by hand" in said
    assert "0 with an empty side, 1 with a source that stood there before, 1 too long" in said
    assert "2 sentences of examples.jsonl; left out: 0 with an empty side, 0 with a source" in said
    assert "step 60: 4 sentences measured; the figures are rough" in said
    assert "1536/1536" in said  # of 512 a step, as many as there are


def test_steps_and_sentences_can_be_chosen_and_files_are_replaced(
    own_root: Path, data: Path, examples: Path
) -> None:
    common = ("--data", str(data), "--examples", str(examples), "--steps")
    measure(own_root, *common, "60", "0", "--sentences", "1")
    assert measured_steps(own_root / "tiny") == [0, 60]
    assert read_measures(own_root / "tiny", 60).corpus.sentences == 1
    measure(own_root, *common, "60")
    assert read_measures(own_root / "tiny", 60).corpus.sentences == 4
    assert read_measures(own_root / "tiny", 0).corpus.sentences == 1


def test_without_examples_of_its_languages_the_corpus_gives_them(
    own_root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data.parent / "sentences"
    folder.mkdir()
    monkeypatch.setattr("viz_app.measure.SENTENCES", folder)

    def sources() -> list[str]:
        measure(own_root, "--data", str(data), "--steps", "60")
        return [sentence.source for sentence in read_measures(own_root / "tiny", 60).sentences]

    assert sources() == [PAIRS[number][0] for number in (0, 1, 3, 4)]
    (folder / "en-es.jsonl").write_text('{"source": "Good night!", "reference": "Noche."}')
    assert sources() == ["Good night!"]


@pytest.mark.parametrize("other", [False, True], ids=["none", "another"])
def test_without_alignments_of_the_corpus_there_are_no_error_rates(
    own_root: Path, data: Path, examples: Path, capsys: pytest.CaptureFixture[str], other: bool
) -> None:
    if other:
        align(own_root / "tiny", examples.rename(data.parent / "other.jsonl"))
        examples = data.parent / "other.jsonl"
    measure(own_root, "--data", str(data), "--examples", str(examples), "--steps", "60")
    values = read_measures(own_root / "tiny", 60).values
    assert np.isnan(values["aer_predicted"]["cross"]).all()
    said = capsys.readouterr().err
    assert "alignment error rates are left out" in said
    expected = "is of another corpus, other.jsonl with" if other else "benchmarks/align.py makes it"
    assert expected in said


# What cannot be done


def test_the_corpus_is_asked_for_where_its_name_does_not_lead_to_it(own_root: Path) -> None:
    message = (
        r"expected --data with .* that tiny was validated with: six sentences, file valid.jsonl"
    )
    with pytest.raises(ValueError, match=message):
        measure(own_root)


def test_unknown_steps_and_files_and_no_sentences_are_refused(own_root: Path, data: Path) -> None:
    with pytest.raises(ValueError, match=r"no weights of 7; there are those of 0, 20, 60"):
        measure(own_root, "--data", str(data), "--steps", "20", "7")
    with pytest.raises(ValueError, match="sentences: expected at least 1, got 0"):
        measure(own_root, "--data", str(data), "--sentences", "0")
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        measure(own_root, "--data", "nowhere.jsonl")
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        measure(own_root, "--data", str(data), "--examples", "nowhere.jsonl")
    data.write_text("")
    with pytest.raises(DataError, match="the file is empty"):
        measure(own_root, "--data", str(data))
    assert measured_steps(own_root / "tiny") == []


def test_the_program_ends_with_what_is_wrong(
    own_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["measure", *line(own_root)])
    monkeypatch.delitem(sys.modules, "viz_app.measure")  # run anew, as -m does
    with pytest.raises(SystemExit, match=r"^error: expected --data"):
        runpy.run_module("viz_app.measure", run_name="__main__", alter_sys=True)


# Several processes


def test_two_processes_write_what_one_does(own_root: Path, data: Path) -> None:
    """Forty sentences more, so that there are batches for both."""
    with data.open("a", encoding="utf-8") as file:
        for number in range(40):
            file.write(json.dumps({"en": f"cat {number}", "es": "gato " * (number % 7 + 1)}) + "\n")
    align(own_root / "tiny", data)
    rest = ("--data", str(data), "--examples", str(_as_examples(data)), "--steps", "0", "60")
    measure(own_root, *rest)
    one = [read_measures(own_root / "tiny", step) for step in (0, 60)]
    for path in (own_root / "tiny" / "measures").iterdir():
        path.unlink()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "--", "viz_app.measure", *line(own_root, *rest)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    for alone in one:
        together = read_measures(own_root / "tiny", alone.step)
        assert _rest(together) == _rest(alone)
        for name in MEASURES:
            for kind in KINDS:
                np.testing.assert_allclose(
                    together.values[name][kind], alone.values[name][kind], atol=1.1e-5
                )
    assert ended.stderr.count("step 60: 44 sentences measured") == 1


def _as_examples(data: Path) -> Path:
    path = data.with_name("as_examples.jsonl")
    pairs = stream_corpus(str(data), source="en", target="es").pairs
    lines = [json.dumps({"source": pair.source, "reference": pair.target}) for pair in pairs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _rest(measures: Measures) -> dict[str, object]:
    return {name: value for name, value in vars(measures).items() if name != "values"}
