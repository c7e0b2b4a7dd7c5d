"""Traces exported, what is computed of heads, and rows of maps that are searched for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tyro

from headwise.model.checkpoint import CheckpointError, TrainedRun, load_weights
from headwise.model.interface import Head, head_name, parse_head
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.model.runs import load_checkpoint
from headwise.model.turned import Turned
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.core.written import head_dictionary
from headwise.viz_app.export import COMPUTED, ExportArguments, main
from headwise.viz_app.find import FindArguments
from headwise.viz_app.find import main as find
from headwise.viz_app.heads.composition.scores import composition
from headwise.viz_app.heads.dictionary.scores import mean_values
from headwise.viz_app.measuring.files import write_measures
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import to_html
from headwise.viz_app.trace.saved import read_trace, to_json, to_npz
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import near
from tests.viz_app.measures import SENTENCES, made_up_measures

TEXT = "Where is the old dog?"


def export(out: Path, *line: str) -> None:
    main(tyro.cli(ExportArguments, args=[str(out), *line]))


def of_run(root: Path, *rest: str) -> list[str]:
    return ["--run", "tiny", "--text", TEXT, "--checkpoints", str(root), *rest]


def traced(run: TrainedRun, placement: Placement = DEFAULT_PLACEMENT) -> Trace:
    checkpoint = load_checkpoint(run, 60, placement)
    return run_trace(checkpoint.model, run.tokenizers, TEXT)


@pytest.mark.parametrize("name", ["out.npz", "out.json"])
def test_last_checkpoint_is_exported(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    export(tmp_path / name, *of_run(run_root))
    expected, read = traced(run), read_trace(tmp_path / name)
    assert (read.run, read.step, read.sha256) == ("tiny", 60, expected.sha256)
    assert read.forced is False
    np.testing.assert_array_equal(read.attention["cross"], expected.attention["cross"])
    assert capsys.readouterr().out == f"{tmp_path / name}: ¿Dónde está el perro viejo?\n"


def test_step_target_device_type_and_page(run_root: Path, run: TrainedRun, tmp_path: Path) -> None:
    given, short, page = (tmp_path / name for name in ("a.json", "b.npz", "c.html"))
    export(given, *of_run(run_root, "--step", "20", "--target", "El gato."))
    read = read_trace(given)
    assert (read.step, read.target_text, read.forced) == (20, "El gato.", True)
    export(short, *of_run(run_root, "--device", "cpu", "--dtype", "bfloat16"))
    expected = traced(run, Placement("cpu", "bfloat16")).attention["cross"]
    np.testing.assert_array_equal(read_trace(short).attention["cross"], expected)
    export(page, *of_run(run_root))
    assert page.read_bytes() == to_html(traced(run))


def test_heads_are_turned_and_rows_pinned(run_root: Path, run: TrainedRun, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    line = ["--turn", "cross.2.1", "cross.2.2:-0.5", "--pin", "cross.1.1:2:4", "cross.1.1:3:mean"]
    export(out, *of_run(run_root, *line))
    turned = Turned.of(
        {("cross", 1, 0): 0, ("cross", 1, 1): -0.5},
        [(("cross", 0, 0), 1, 3), (("cross", 0, 0), 2, None)],
    )
    read = read_trace(out)
    assert read.turned == turned
    expected = run_trace(
        load_checkpoint(run, 60, DEFAULT_PLACEMENT).model, run.tokenizers, TEXT, turned=turned
    )
    assert read.target_ids == expected.target_ids
    assert read.attention["cross"][0, 0, 1].tolist() == [0, 0, 0, 1, *[0] * (len(read.source) - 4)]
    with pytest.raises(ValueError, match="expected -1 to 3"):
        export(out, *of_run(run_root, "--turn", "cross.2.1:4"))


def test_saved_trace_is_written_in_every_format(
    trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, page = (tmp_path / name for name in ("a.npz", "b.json", "c.html"))
    first.write_bytes(to_npz(trace))
    export(second, "--trace", str(first))
    assert second.read_bytes() == to_json(trace)
    export(page, "--trace", str(second))
    assert page.read_bytes() == to_html(trace)
    said = capsys.readouterr().out.splitlines()
    assert said == [f"{path}: {trace.target_text}" for path in (second, page)]


NEITHER = r"^expected --run and --text, or --trace with a saved trace$"
SUFFIX = r": expected a name that ends in .html, .npz or .json$"


@pytest.mark.parametrize(
    ("out", "line", "error", "message"),
    [
        ("out.npz", [], ValueError, NEITHER),
        ("out.npz", ["--run", "tiny"], ValueError, NEITHER),
        ("out.npz", ["--text", TEXT], ValueError, NEITHER),
        ("out", of_run(Path()), ValueError, f"out{SUFFIX}"),
        ("out.npz.gz", of_run(Path()), ValueError, rf"out\.npz\.gz{SUFFIX}"),
        ("no/out.npz", of_run(Path()), ValueError, r"no: no such folder; create it first$"),
        ("out.html", ["--trace", "broken.json"], ValueError, r"broken\.json: not a saved trace"),
        ("out.html", ["--trace", "nowhere.npz"], FileNotFoundError, "nowhere"),
        (
            "out.npz",
            of_run(Path(), "--step", "7"),
            CheckpointError,
            "no weights of step 7; .* 0, 20",
        ),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_no_file(
    run_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    out: str,
    line: list[str],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{}")
    with pytest.raises(error, match=message):
        export(Path(out), *line, "--checkpoints", str(run_root))
    assert list(tmp_path.iterdir()) == [tmp_path / "broken.json"]


# Of heads


def export_heads(root: Path, out: Path, content: str, *rest: str) -> None:
    export(out, "--run", "tiny", "--checkpoints", str(root), "--content", content, *rest)


def table(path: Path) -> dict[str, list[str]]:
    titles, *rows = (line.split("\t") for line in path.read_text().splitlines())
    return dict(zip(titles, map(list, zip(*rows, strict=True)), strict=True))


def arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


OF_TRACE = ("--text", TEXT, "--turn", "cross.1.1:0.5")
OF_PATH = ("earlier", "later", "without")


@pytest.mark.parametrize(
    ("content", "rest", "columns"),
    [
        ("composition", (), ["earlier", "later", "role", "score", "error", "chance", "stands_out"]),
        # Keys and values of cross-attention are the encoder's.
        ("path", (*OF_TRACE, "--heads", "cross.1.2", "cross.2.3"), [*OF_PATH, "distance_query"]),
        (
            "path",
            (*OF_TRACE, "--heads", "encoder_self.1.1", "encoder_self.2.1"),
            [*OF_PATH, "distance_query", "distance_key", "change_value"],
        ),
    ],
)
def test_files_have_what_is_computed_in_every_form(
    run_root: Path,
    run: TrainedRun,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    rest: tuple[str, ...],
    columns: list[str],
) -> None:
    for ending in (".tsv", ".npz", ".json"):
        export_heads(run_root, tmp_path / f"out{ending}", content, *rest)
    model = load_weights(run, 60).model
    asked: list[object] = [parse_head(name) for name in rest[5:]]
    if content == "path":
        turned = Turned.of({Head("cross", 0, 0): 0.5})
        asked.insert(0, run_trace(model, run.tokenizers, TEXT, turned=turned))
    computed = COMPUTED[content](model, *asked)
    rows, found = table(tmp_path / "out.tsv"), arrays(tmp_path / "out.npz")
    written = json.loads((tmp_path / "out.json").read_text())
    expected = computed.arrays()
    assert list(found) == list(written) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
        assert written[name] == array.tolist()
    assert list(rows) == columns
    for name, cells in rows.items():
        assert cells == np.broadcast_to(expected[name].astype(str), len(cells)).tolist()
    assert capsys.readouterr().out.splitlines()[0].endswith(f"out.tsv: {computed.said}")


def test_exported_edges_are_all_and_the_strongest_first(run: TrainedRun) -> None:
    computed = composition(load_weights(run, 60).model)
    found = computed.arrays()
    assert (np.diff(found["score"]) <= 0).all()
    names = [*map("-".join, zip(found["earlier"], found["later"], found["role"], strict=True))]
    assert len({*names}) == len(computed.score)
    for place, name in enumerate(names):
        edge = computed.named(name)
        assert edge is not None
        assert edge.name == name
        assert edge[3:] == tuple(float(found[each][place]) for each in ("score", "error", "chance"))
        assert found["stands_out"][place] == (edge.score > 3 * edge.error)
    for other in ("", "key", "encoder_self.1.2-encoder_self.2.3-mood", "a-b-key"):
        assert computed.named(other) is None


@pytest.mark.parametrize("by_sentence", [True, False])
def test_a_dictionary_is_by_the_sentence_or_by_the_example_sentences(
    own_root: Path, run: TrainedRun, tmp_path: Path, by_sentence: bool
) -> None:
    model, out = load_weights(run, 60).model, tmp_path / "words.tsv"
    rest = ("--heads", "cross.2.3", *(["--text", TEXT] if by_sentence else []))
    pairs = [(each.source, each.reference) for each in SENTENCES]
    if by_sentence:
        pairs = [(TEXT, run_trace(model, run.tokenizers, TEXT).target_text)]
    else:
        with pytest.raises(CheckpointError, match="no measures of step 60"):
            export_heads(own_root, out, "dictionary", *rest)
        sha256 = load_weights(run, 60).sha256
        write_measures(own_root / "tiny", made_up_measures(60, sha256=sha256))
    export_heads(own_root, out, "dictionary", *rest)
    rows = table(out)
    sentences = Sentences.of(run.tokenizers, pairs, max_length=31)
    values = mean_values(model, sentences, "cross")
    expected = head_dictionary(model, run.tokenizers, Head("cross", 1, 2), values)
    [dog] = [id for id in expected.ids if run.tokenizers.source.tokens([id]) == [" dog"]]
    at, row = expected.ids.tolist().index(dog), rows["token"].index("dog")
    assert int(rows["places"][row]) == expected.places[at]
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
        ("path", ["--text", TEXT, "--heads", "cross.1.1", "cross.9.1"], r"no head cross\.9\.1"),
        ("path", ["--text", TEXT, "--heads", "cross.2.1", "cross.1.1"], "a head that reads"),
        ("dictionary", ["--text", TEXT, "--heads", "encoder_self.1.1"], "a head of the decoder"),
        ("dictionary", ["--text", TEXT, "--heads", "cross.1.9"], r"no head cross\.1\.9"),
        ("composition", ["--trace", "a.npz"], "expected --run, and no --trace"),
    ],
)
def test_what_cannot_be_exported_of_heads_is_refused(
    run_root: Path, tmp_path: Path, content: str, rest: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        export_heads(run_root, tmp_path / "out.npz", content, *rest)
    with pytest.raises(ValueError, match=r"expected a name that ends in \.tsv, \.npz or \.json"):
        export_heads(run_root, tmp_path / "out.html", "composition")
    assert not [*tmp_path.iterdir()]


# Search


PAIRS = [("Where is the old dog?", "¿Dónde está el perro viejo?"), ("The cats.", "Los gatos.")]


def test_rows_are_written_with_their_sentences(
    run_root: Path, run: TrainedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "rows.json"
    data.write_text("en\tes\n" + "".join(f"{s}\t{t}\n" for s, t in PAIRS), encoding="utf-8")
    line = ["--run", "tiny", "--checkpoints", str(run_root), "--data", str(data), str(out)]
    line += ["--on", "special", "--head", "cross.2.1", "--least", "0.05", "--most", "3"]
    find(tyro.cli(FindArguments, args=line))
    found = json.loads(out.read_text())
    model, of = load_weights(run, 60).model, 0
    weights: dict[tuple[str, int], float] = {}
    for source, target in PAIRS:
        encoded = run.tokenizers.encode_target(target)
        trace = run_trace(model, run.tokenizers, source, tuple(encoded))
        on_end = trace.attention["cross"][1, 0, :, -1]
        of += len(on_end)
        weights |= {(source, row): float(w) for row, w in enumerate(on_end) if w >= 0.05}
    assert (found["count"], found["of"]) == (len(weights), of)
    assert capsys.readouterr().out == f"{len(weights)} of {of} rows of 2 sentences\n"
    largest = sorted(weights.values(), reverse=True)[:3]
    assert [row["weight"] for row in found["rows"]] == near(largest, dtype="float32", size=1)
    for row in found["rows"]:
        assert row["head"] == head_name(Head("cross", 1, 0))
        assert (row["source"], row["target"]) in PAIRS
        assert row["weight"] == near(weights[row["source"], row["query"]], dtype="float32", size=1)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (["--on", "token", "rows.json"], "expected a word to look for"),
        (["--on", "special", "rows.txt"], "ends in .json"),
        (["--on", "special", "--head", "cross.9.9", "rows.json"], "no head cross"),
    ],
)
def test_what_cannot_be_searched_is_refused(
    run_root: Path, tmp_path: Path, rest: list[str], message: str
) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("en\tes\nA dog.\tUn perro.\n", encoding="utf-8")
    line = ["--run", "tiny", "--checkpoints", str(run_root), "--data", str(data)]
    arguments = tyro.cli(FindArguments, args=[*line, *rest[:-1], str(tmp_path / rest[-1])])
    with pytest.raises(ValueError, match=message):
        find(arguments)
