"""Measures of a tiny run by command, by one process and by two."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
import tyro

from headwise.model.checkpoint import TrainedRun, load_weights, write_info
from headwise.model.forced import forced_stream
from headwise.model.hooks import capture
from headwise.model.interface import KINDS
from headwise.model.interventions import head_costs, mean_shapes
from headwise.model.training.corpora import stream_corpus
from headwise.model.training.data import DataError
from headwise.viz_app.measure import MeasureArguments, main
from headwise.viz_app.measuring.alignments import Alignments, Links, write_alignments
from headwise.viz_app.measuring.checkpoint_measures import STAGES
from headwise.viz_app.measuring.files import measured_steps, measures_path, read_measures
from headwise.viz_app.measuring.head_measures import MEASURES, RESAMPLED, SCORE_MEASURES
from headwise.viz_app.measuring.pair_files import read_measured_pairs, shipped_pairs
from headwise.viz_app.measuring.pairs import read_pairs
from headwise.viz_app.measuring.sentence_costs import SentenceCosts
from headwise.viz_app.measuring.tensor_files import (
    CheckpointRecord,
    HeadMeans,
    Resamples,
    neurons_path,
    read_neurons,
)
from headwise.viz_app.records.measures import CorpusSummary, Measures
from tests.floats import near, rounding
from tests.viz_app.conftest import RunCommand

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
CONTRASTS = [
    {"source": PAIRS[0][0], "right": PAIRS[0][1], "wrong": "Los gatos ven.", "phenomenon": "not"},
    {"source": PAIRS[1][0], "right": PAIRS[1][1], "wrong": "¿Dónde el perro?", "phenomenon": "is"},
]
UNIT = 1e-5
ROUNDED = {"atol": UNIT + rounding(np.float32, UNIT), "rtol": np.finfo(np.float32).eps}
"""Sums in another order may be rounded to the next unit of the last decimal in a file; what is read
from there is rounded to float32."""
LINKS = {4: Links(2, 2, frozenset({(0, 0), (1, 1)}))}


def write(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def write_corpus(folder: Path) -> Path:
    """Write pairs, and ``examples.jsonl`` beside them."""
    sentences = (("We don't know.", "No sabemos."), ("Where?", "¿Dónde?"), ("a" * 40, "b"))
    write(folder / "examples.jsonl", [{"source": en, "reference": es} for en, es in sentences])
    pairs = [{"translation": {"en": en, "es": es}} for en, es in PAIRS]
    return write(folder / "valid.jsonl", pairs)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_corpus(tmp_path)


@pytest.fixture
def examples(data: Path) -> Path:
    return data.with_name("examples.jsonl")


@pytest.fixture(scope="module")
def measured_root(
    run_root: Path, datasets_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """As ``run_root``, with the last checkpoint measured. Not to be changed."""
    folder = tmp_path_factory.mktemp("measured")
    root, data = shutil.copytree(run_root, folder / "checkpoints"), write_corpus(folder)
    examples = str(data.with_name("examples.jsonl"))
    measure(root, "--data", str(data), "--examples", examples, "--steps", "60")
    return root


@pytest.fixture
def measured(measured_root: Path, tmp_path: Path) -> Path:
    """A copy of ``measured_root``."""
    return shutil.copytree(measured_root, tmp_path / "measured")


def line(root: Path, *rest: str) -> list[str]:
    return ["--run", "tiny", "--checkpoints", str(root), *rest]


def measure(root: Path, *rest: str) -> None:
    main(tyro.cli(MeasureArguments, args=line(root, *rest)))


def align(folder: Path, data: Path) -> None:
    sha256 = stream_corpus(str(data), source="en", target="es").sha256
    write_alignments(folder, Alignments(data.name, sha256, "by hand", LINKS))


def arrays_of(kept: type[CheckpointRecord], folder: Path, step: int = 60) -> dict[str, Any]:
    """What stands in a file beside the measures of a step, of the same weights and sentences."""
    found = kept.read(folder, step)
    assert found is not None
    if step in measured_steps(folder):
        measures = read_measures(folder, step)
        assert (found.sha256, found.corpus) == (measures.sha256, measures.corpus)
    return found.arrays()


def test_every_checkpoint_is_measured(
    own_root: Path, run: TrainedRun, data: Path, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    align(own_root / "tiny", data)
    measure(own_root, "--data", str(data), "--examples", str(examples))
    folder = own_root / "tiny"
    assert measured_steps(folder) == [0, 20, 60]
    sha256 = stream_corpus(str(data), source="en", target="es").sha256
    tokens = [len(run.tokenizers.encode_target(PAIRS[n][1])) - 1 for n in (0, 1, 3, 4)]
    for step in (0, 20, 60):
        measures = read_measures(folder, step)
        assert measures.sha256 == load_weights(run, step).sha256
        assert measures.corpus == CorpusSummary("valid.jsonl", sha256, 4, sum(tokens))
        assert [s.source for s in measures.sentences] == ["We don't know.", "Where?"]
        assert measures.examples_corpus.sentences == len(measures.translated) == 2
        assert measures.values["entropy"]["cross"].shape == (2, 3)
        assert measures.distance_to == 60
        assert {len(found) for found in measures.examples.values()} == {2}
        assert np.isfinite(measures.values["aer_predicted"]["cross"]).all()
    said = capsys.readouterr().err
    assert "alignments: by hand" in said
    assert "0 with an empty side, 1 with a repeated source, 1 too long" in said
    assert "2 sentences of examples.jsonl; left out: 0 with an empty side, 0 with a rep" in said
    assert "step 60: 4 sentences measured; the figures are rough" in said
    # Each of 3 checkpoints passes over the 4 sentences, and over the 2 examples twice.
    assert "24/24" in said
    assert "step 60: strongest of 4 sentences, by neuron" in said
    assert [path.name for path in sorted((folder / "measures").glob("neurons*"))] == [
        "neurons-0000060.safetensors"
    ]


def test_costs_by_sentence_sum_to_the_cost(measured_root: Path, run: TrainedRun) -> None:
    """Places are those in the corpus, of which one sentence is repeated and one too long."""
    measures = read_measures(measured_root / "tiny", 60)
    costs = SentenceCosts.read(measured_root / "tiny", 60)
    assert costs is not None
    assert (costs.sha256, costs.corpus) == (measures.sha256, measures.corpus)
    assert costs.places.tolist() == [0, 1, 3, 4]
    pairs = [PAIRS[place] for place in costs.places]
    tokens = [len(run.tokenizers.encode_target(target)) - 1 for _, target in pairs]
    assert costs.tokens.tolist() == tokens
    model = load_weights(run, 60).model
    for kind in KINDS:
        whole = costs.costs[kind].astype(np.float64).sum(axis=0) / costs.tokens.sum()
        largest = np.abs(costs.costs[kind]).max()
        bound = UNIT + rounding(np.float16, largest, 1)
        np.testing.assert_allclose(whole, measures.values["cost"][kind], rtol=0, atol=bound)
        for row, (source, target) in enumerate(pairs):
            ids = run.tokenizers.encode_source(source), run.tokenizers.encode_target(target)
            alone = head_costs(model, *ids)[kind].numpy()
            np.testing.assert_allclose(costs.costs[kind][row], alone, rtol=0, atol=bound)


@pytest.mark.parametrize("kept", [HeadMeans, Resamples])
def test_records_stand_beside_and_can_be_measured_alone(
    measured: Path, run: TrainedRun, data: Path, kept: type[CheckpointRecord]
) -> None:
    folder = measured / "tiny"
    beside, measures = arrays_of(kept, folder), read_measures(folder, 60)
    if kept is Resamples:
        place = RESAMPLED.index("by_token")
        spread = beside["deviation_cross"][place].astype(np.float64).std(0, ddof=1)
        expected = measures.errors["by_token"]["cross"]
        np.testing.assert_allclose(spread, expected, rtol=2.0**-9, atol=UNIT)
    else:
        shapes = {kind: beside[f"mean_{kind}"].shape for kind in KINDS}
        assert shapes == mean_shapes(run.description)
    kept.path(folder, 60).unlink()
    measure(measured, "--data", str(data), "--steps", "60", "0", "--only", kept.what)
    assert measured_steps(folder) == [60]
    alone, first = (arrays_of(kept, folder, step) for step in (60, 0))
    for name, array in beside.items():
        np.testing.assert_allclose(alone[name], array, rtol=0, atol=UNIT)
        assert not np.array_equal(alone[name], first[name])


def test_what_explains_scores_is_added_later(measured: Path, data: Path) -> None:
    common = ("--data", str(data), "--steps", "60")
    path = measures_path(measured / "tiny", 60)
    whole, file = (orjson.loads(path.read_bytes()) for _ in range(2))
    for name in SCORE_MEASURES:
        del file["values"][name], file["errors"][name]
    path.write_bytes(orjson.dumps(file))
    measure(measured, *common, "--only", "scores")
    assert orjson.loads(path.read_bytes()) == whole
    with pytest.raises(ValueError, match=r"on 4 sentences of .* got 1 sentences of .* all again"):
        measure(measured, *common, "--only", "scores", "--sentences", "1")
    assert orjson.loads(path.read_bytes()) == whole


def test_mean_ablation_is_by_the_means_over_the_same_corpus_and_can_be_added(
    measured: Path, run: TrainedRun, data: Path
) -> None:
    folder, before = measured / "tiny", read_measures(measured / "tiny", 60)
    kept = HeadMeans.read(folder, 60)
    assert kept is not None
    means = {kind: torch.tensor(of_kind) for kind, of_kind in kept.means.items()}
    assert all(np.isnan(before.values["mean_ablation"][kind]).all() for kind in KINDS)
    measure(measured, "--data", str(data), "--steps", "60", "--only", "mean-ablation")
    after, model = read_measures(folder, 60), load_weights(run, 60).model
    ids = [
        (run.tokenizers.encode_source(PAIRS[n][0]), run.tokenizers.encode_target(PAIRS[n][1]))
        for n in (0, 1, 3, 4)
    ]
    tokens = sum(len(target) - 1 for _, target in ids)
    for kind in KINDS:
        costs = [head_costs(model, *each, means=means)[kind].numpy() for each in ids]
        expected = np.sum(costs, axis=0) / tokens
        np.testing.assert_allclose(after.values["mean_ablation"][kind], expected, atol=2 * UNIT)
        assert after.errors["mean_ablation"][kind].shape == expected.shape
        np.testing.assert_array_equal(after.values["cost"][kind], before.values["cost"][kind])


def test_strongest_texts_are_measured_alone(own_root: Path, run: TrainedRun, data: Path) -> None:
    """Sentence by sentence, they are the first of all activations by their size."""
    measure(own_root, "--data", str(data), "--only", "neurons", "--neurons", "all")
    assert measured_steps(own_root / "tiny") == []
    for step in (0, 20, 60):
        found = read_neurons(own_root / "tiny", step)
        assert found.sha256 == load_weights(run, step).sha256
        assert found.corpus.sentences == 4
    model = load_weights(run, 60).model
    pairs = [PAIRS[number] for number in (0, 1, 3, 4)]
    assert {each.source for each in found.sentences} <= {pair[0] for pair in pairs}
    for stack, places in found.stacks.items():
        points = [f"{stack}.layers.{layer}.feed_forward.hidden" for layer in range(2)]
        largest = []
        for source, target in pairs:
            ids = run.tokenizers.encode_source(source), run.tokenizers.encode_target(target)[:-1]
            with torch.inference_mode(), capture(model, points) as seen:
                forced_stream(model, *(torch.tensor([side]) for side in ids))
            hidden = np.stack([seen[point][0][0].numpy() for point in points])  # (L, n, F)
            largest.append(np.abs(hidden).max(axis=1))
        expected = -np.sort(-np.stack(largest, axis=-1))  # (L, F, 4)
        np.testing.assert_allclose(np.abs(places.activation), expected, rtol=2.0**-10, atol=1e-6)
        for at in np.argwhere(expected[..., 0] > 1.1 * expected[..., 1]):
            first = found.sentences[places.sentence[*at, 0]].source
            assert first == pairs[int(np.argmax([each[*at] for each in largest]))][0]


def test_corpus_gives_examples_for_other_languages(
    own_root: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data.parent / "sentences"
    folder.mkdir()
    monkeypatch.setattr("headwise.viz_app.measure.SENTENCES", folder)

    def sources() -> list[str]:
        measure(own_root, "--data", str(data), "--steps", "60")
        return [sentence.source for sentence in read_measures(own_root / "tiny", 60).sentences]

    assert sources() == [PAIRS[number][0] for number in (0, 1, 3, 4)]
    (folder / "en-es.jsonl").write_text('{"source": "Good night!", "reference": "Noche."}')
    assert sources() == ["Good night!"]


@pytest.mark.parametrize("other", [False, True], ids=["none", "another"])
def test_no_error_rates_without_alignments(
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
    expected = (
        "is of another corpus, other.jsonl with"
        if other
        else f"--run tiny --data {data} --checkpoints {own_root} makes it"
    )
    assert expected in said


def test_stages_are_measured_with_a_given_text(own_root: Path, data: Path, examples: Path) -> None:
    def stages(*rest: str) -> dict[str, float]:
        common = ("--data", str(data), "--examples", str(examples), "--steps", "0")
        measure(own_root, *common, *rest)
        return dict(read_measures(own_root / "tiny", 0).stages)

    other = write(data.with_name("other.jsonl"), [{"en": "Who knows?", "es": "No lo sabemos."}])
    an_example = {"en": "We don't.", "es": "No sabemos."}
    found = stages()
    assert set(found) == set(STAGES)
    assert 0 <= found["chrf"] < 100
    assert 0 <= found["reordering_reference"] <= 1
    assert found["language_model"] < found["language_model_reference"] < 0
    assert stages("--text", str(data)) == near(found)
    assert stages("--text", str(other))["language_model"] != found["language_model"]
    without = stages("--text", str(write(data.with_name("none.jsonl"), [an_example])))
    assert np.isnan(without["language_model"])
    assert without["chrf"] == found["chrf"]


def test_a_run_is_measured_on_the_pairs_that_it_held_back(
    own_root: Path, run: TrainedRun, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are in its folder, so that nobody needs to name them; what aligns them is told."""
    folder = own_root / "tiny"
    assert run.info.data is not None
    write_info(folder, replace(run.info, data=replace(run.info.data, held_back=len(PAIRS))))
    data.rename(folder / "valid.jsonl")
    measure(own_root, "--columns", "en", "es", "--steps", "60")
    assert read_measures(folder, run.steps()[-1]).corpus.sentences == 4
    command = f"--data {folder / 'valid.jsonl'} --columns en es --checkpoints {own_root} makes it"
    assert command in capsys.readouterr().err


def test_pairs_are_measured_alone_or_with_the_rest(
    own_root: Path, data: Path, examples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, path = own_root / "tiny", write(data.with_name("two.jsonl"), CONTRASTS)
    measure(own_root, "--pairs", str(path), "--steps", "20")
    found = read_measured_pairs(folder)
    assert found is not None
    assert (found.name, found.pairs) == ("two.jsonl", read_pairs(path))
    assert (list(found.checkpoints), found.heads_step) == ([20], None)
    assert measured_steps(folder) == []
    rest = ("--data", str(data), "--examples", str(examples), "--steps", "60")
    measure(own_root, "--pairs", str(path), *rest)
    found = read_measured_pairs(folder)
    assert found is not None
    assert (list(found.checkpoints), found.heads_step) == ([20, 60], 60)
    assert measured_steps(folder) == [60]
    share = found.checkpoints[60].outcomes.mean()
    assert f"step 60: right in {share:.1%} of 2 pairs" in capsys.readouterr().err


def test_the_pairs_that_ship_are_those_of_the_languages(own_root: Path, run: TrainedRun) -> None:
    """A tiny model cannot take them: what is read is what the error names."""
    path = shipped_pairs("en", "es")
    assert path is not None
    longest = max(read_pairs(path), key=lambda pair: len(run.tokenizers.encode_source(pair.source)))
    assert len(run.tokenizers.encode_source(longest.source)) > run.description.max_length
    with pytest.raises(DataError, match=r"pair \d+: expected at most 31 tokens"):
        measure(own_root, "--pairs", "shipped")
    write_info(own_root / "tiny", replace(run.info, target_language="fi"))
    with pytest.raises(ValueError, match="--pairs: the program has none for en to fi; name a file"):
        measure(own_root, "--pairs", "shipped")


# What cannot be done


def test_the_unmeasurable_is_refused(run_command: RunCommand, own_root: Path, data: Path) -> None:
    nowhere = r"nowhere\.jsonl: no such file"
    empty = str(write(data.with_name("empty.jsonl"), []))
    for rest, error, message in (
        ([], ValueError, "--data with .* that tiny was validated with: six sentences, file valid"),
        (["--steps", "20", "7"], ValueError, "no weights of 7; there are those of 0, 20, 60"),
        (["--sentences", "0"], ValueError, "sentences: expected at least 1, got 0"),
        (["--data", "nowhere.jsonl"], DataError, nowhere),
        (["--examples", "nowhere.jsonl"], DataError, nowhere),
        (["--text", "nowhere.jsonl"], DataError, nowhere),
        (["--pairs", "nowhere.jsonl"], DataError, nowhere),
        (["--data", empty], DataError, "the file is empty"),
    ):
        given = [] if not rest or rest[0] == "--data" else ["--data", str(data)]
        with pytest.raises(error, match=message):
            measure(own_root, *given, *rest)
    assert measured_steps(own_root / "tiny") == []
    said = run_command("headwise.viz_app.measure", *line(own_root))
    assert said.startswith("error: expected --data")


# Several processes


def test_two_processes_write_the_same_as_one(own_root: Path, data: Path) -> None:
    """Forty sentences and pairs more, so that there are batches for both."""
    with data.open("a", encoding="utf-8") as file:
        for number in range(40):
            file.write(json.dumps({"en": f"cat {number}", "es": "gato " * (number % 7 + 1)}) + "\n")
    align(own_root / "tiny", data)
    contrasts = write(data.with_name("pairs.jsonl"), CONTRASTS * 20)
    rest = ("--data", str(data), "--examples", str(_as_examples(data)), "--steps", "60")
    rest += ("--pairs", str(contrasts))
    measure(own_root, *rest)
    alone = read_measures(own_root / "tiny", 60)
    kept = {each: arrays_of(each, own_root / "tiny") for each in (HeadMeans, SentenceCosts)}
    by_one = read_measured_pairs(own_root / "tiny")
    neurons = neurons_path(own_root / "tiny", 60).read_bytes()
    for path in (own_root / "tiny" / "measures").iterdir():
        path.unlink()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        together = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        together["MASTER_PORT"] = str(free.getsockname()[1])
    command = [sys.executable, "-m", "headwise.viz_app.measure", *line(own_root, *rest)]
    started = [
        subprocess.Popen(
            command,
            env=os.environ | together | {"RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    said = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    most = UNIT + rounding(np.float64, 100)  # of chrF; the others are smaller
    both = read_measures(own_root / "tiny", 60)
    assert _rest(both) == _rest(alone)
    for kind in KINDS:
        pairs = [(both.values[name][kind], alone.values[name][kind]) for name in MEASURES]
        pairs += [(both.errors[name][kind], of[kind]) for name, of in alone.errors.items()]
        for there, here in (*pairs, (both.cost_errors[kind], alone.cost_errors[kind])):
            np.testing.assert_allclose(there, here, **ROUNDED)
    assert both.stages == pytest.approx(alone.stages, abs=most, nan_ok=True)
    assert both.stage_errors == pytest.approx(alone.stage_errors, abs=most, nan_ok=True)
    for each, arrays in kept.items():
        for name, there in arrays_of(each, own_root / "tiny").items():
            close = (1e-6, 1e-7) if each is HeadMeans else (1e-3, 1e-4)
            np.testing.assert_allclose(there, arrays[name], *close)
    assert "".join(said).count("step 60: 44 sentences measured") == 1
    by_two = read_measured_pairs(own_root / "tiny")
    assert by_one is not None
    assert by_two is not None
    there, here = (found.checkpoints[60] for found in (by_two, by_one))
    np.testing.assert_allclose(there.right, here.right, rtol=0, atol=2 * most)
    np.testing.assert_allclose(there.wrong, here.wrong, rtol=0, atol=2 * most)
    for kind in KINDS:
        np.testing.assert_array_equal(by_two.without_heads[kind], by_one.without_heads[kind])
    assert neurons_path(own_root / "tiny", 60).read_bytes() == neurons


def _as_examples(data: Path) -> Path:
    pairs = stream_corpus(str(data), source="en", target="es").pairs
    rows = ({"source": pair.source, "reference": pair.target} for pair in pairs)
    return write(data.with_name("as_examples.jsonl"), rows)


def _rest(measures: Measures) -> dict[str, object]:
    numbers = ("values", "cost_errors", "errors", "stages", "stage_errors")
    rest = {name: value for name, value in vars(measures).items() if name not in numbers}
    return rest | {
        "translated": str(measures.translated),
        "even": str(measures.even),
    }  # a NaN does not equal itself
