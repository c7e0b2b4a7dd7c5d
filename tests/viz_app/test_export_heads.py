"""Composition, paths and dictionaries exported: in every form, and as they are computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import CheckpointError, TrainedRun, load_weights
from headwise.model.interface import Head, head_name
from headwise.model.training.data import Pair
from headwise.viz_app.export import ExportArguments, main
from headwise.viz_app.measuring.composition import composition
from headwise.viz_app.measuring.dictionaries import head_dictionary, mean_values, values_in
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.measuring.plain import encode_all
from headwise.viz_app.trace.circuits import run_path
from headwise.viz_app.trace.sentence import run_trace
from tests.viz_app.measures import SENTENCES, made_up_measures

TEXT = "Where is the old dog?"


def export(root: Path, out: Path, content: str, *rest: str) -> None:
    line = ["--run", "tiny", "--checkpoints", str(root), "--content", content, *rest]
    main(tyro.cli(ExportArguments, args=[str(out), *line]))


def table(path: Path) -> dict[str, list[str]]:
    titles, *rows = (line.split("\t") for line in path.read_text().splitlines())
    return dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


def test_composition_has_all_edges_the_strongest_first(
    run_root: Path, run: TrainedRun, tmp_path: Path
) -> None:
    for ending in (".tsv", ".npz", ".json"):
        export(run_root, tmp_path / f"edges{ending}", "composition")
    rows, found = table(tmp_path / "edges.tsv"), arrays(tmp_path / "edges.npz")
    written = json.loads((tmp_path / "edges.json").read_text())
    assert list(rows) == list(found) == list(written)
    model = load_weights(run, 60).model
    computed = composition(model)
    edges = {
        (head_name(edge.earlier), head_name(edge.later), str(edge.role)): edge
        for edge in map(computed.edge, range(len(computed.score)))
    }
    for place, name in enumerate(zip(rows["earlier"], rows["later"], rows["role"], strict=True)):
        edge = edges.pop(name)
        for title in ("score", "error", "chance"):
            value = getattr(edge, title)
            assert float(np.float32(rows[title][place])) == value == found[title][place]
            assert written[title][place] == value
        assert rows["stands_out"][place] == str(edge.score > 3 * edge.error)
    assert not edges
    assert (np.diff(found["score"]) <= 0).all()


def test_a_path_has_its_maps_and_as_a_table_only_its_sizes(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("path.tsv", "path.npz"):
        rest = ("--text", TEXT, "--heads", "cross.1.2", "cross.2.3")
        export(run_root, tmp_path / name, "path", *rest)
    rows, found = table(tmp_path / "path.tsv"), arrays(tmp_path / "path.npz")
    model = load_weights(run, 60).model
    trace = run_trace(model, run.tokenizers, TEXT)
    expected = run_path(model, trace, Head("cross", 0, 1), Head("cross", 1, 2))
    np.testing.assert_array_equal(found["weights"], expected.weights)
    np.testing.assert_array_equal(found["map_query"], expected.maps["query"])
    assert (found["earlier"], found["later"]) == ("cross.1.2", "cross.2.3")
    assert list(rows) == ["without", "distance_query"]  # its keys and values are the encoder's
    assert rows["without"] == ["cross.1.1", "cross.1.2", "cross.1.3"]
    said = capsys.readouterr().out.splitlines()[0]
    assert f"move by {float(rows['distance_query'][1]):.3f} on average" in said


@pytest.mark.parametrize("by_sentence", [True, False])
def test_a_dictionary_is_by_the_sentence_or_by_the_example_sentences(
    own_root: Path, run: TrainedRun, tmp_path: Path, by_sentence: bool
) -> None:
    model, out = load_weights(run, 60).model, tmp_path / "words.tsv"
    rest = ("--heads", "cross.2.3", *(["--text", TEXT] if by_sentence else []))
    pairs = [Pair(each.source, each.reference) for each in SENTENCES]
    if by_sentence:
        pairs = [Pair(TEXT, run_trace(model, run.tokenizers, TEXT).target_text)]
    else:
        with pytest.raises(CheckpointError, match="no measures of step 60"):
            export(own_root, out, "dictionary", *rest)
        sha256 = load_weights(run, 60).sha256
        write_measures(own_root / "tiny", made_up_measures(60, sha256=sha256))
    export(own_root, out, "dictionary", *rest)
    rows = table(out)
    encoded = encode_all(pairs, run.tokenizers, max_length=31)
    values = mean_values(values_in(model, encoded, "cross"))
    expected = head_dictionary(model, Head("cross", 1, 2), values)
    [at] = [
        n
        for n, id in enumerate(expected.ids.tolist())
        if run.tokenizers.source.tokens([id]) == [" dog"]
    ]
    row = rows["token"].index("dog")
    assert int(rows["places"][row]) == expected.counts[at]
    assert float(rows["raised_by_1"][row]) == pytest.approx(expected.raised_by[at, 0], rel=1e-4)
    [name] = run.tokenizers.target.tokens([int(expected.lowered[at, 0])])
    assert rows["lowers_1"][row].lstrip("·") == name.strip()


@pytest.mark.parametrize(
    ("content", "rest", "message"),
    [
        ("sentence", ["--heads", "cross.1.1"], "--heads: expected 0 for --content sentence, got 1"),
        ("composition", ["--heads", "cross.1.1"], "--heads: expected 0 for --content composition"),
        ("path", ["--heads", "cross.1.1"], "--heads: expected 2 for --content path, got 1"),
        ("path", ["--heads", "cross.1.1", "cross.2.1"], "--text: expected a sentence"),
        (
            "path",
            ["--text", TEXT, "--heads", "cross.1.1", "cross.9.1"],
            r"no head cross\.9\.1: expected one of encoder_self\.1\.1 to encoder_self\.2\.3",
        ),
        (
            "path",
            ["--text", TEXT, "--heads", "cross.2.1", "cross.1.1"],
            "expected a head that reads",
        ),
        (
            "dictionary",
            ["--text", TEXT, "--heads", "encoder_self.1.1"],
            "expected a head of the dec",
        ),
        ("dictionary", ["--text", TEXT, "--heads", "cross.1.9"], r"no head cross\.1\.9"),
        ("composition", ["--trace", "a.npz"], "expected --run, and no --trace"),
    ],
)
def test_what_cannot_be_exported_of_heads_is_refused(
    run_root: Path, tmp_path: Path, content: str, rest: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        export(run_root, tmp_path / "out.npz", content, *rest)
    with pytest.raises(ValueError, match=r"expected a name that ends in \.tsv, \.npz or \.json"):
        export(run_root, tmp_path / "out.html", "composition")
    assert not [*tmp_path.iterdir()]
