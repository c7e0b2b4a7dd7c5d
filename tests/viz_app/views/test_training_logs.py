"""The sections "curves" and "translations" of the page Training."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from streamlit.testing.v1 import AppTest

from headwise.model.checkpoint import (
    TrainedRun,
    load_weights,
    open_trained_run,
    weights_path,
    write_info,
)
from headwise.model.decoding.greedy import greedy
from headwise.model.files import append_log, write_log
from headwise.viz_app.components.row_table import Cell, MarkedText, Row
from headwise.viz_app.views.training import translations
from tests.floats import near
from tests.viz_app.views.driver import (
    CATS,
    CATS_TRANSLATED,
    Start,
    array,
    break_file,
    break_lines,
    captions,
    charts,
    choose,
    errors,
    widget,
)

LOG = [
    {"step": 0, "valid_loss": 5.0, "bleu": 0.0, "chrf": 1.0},
    {"step": 10, "tokens": 50, "train_loss": 4.0, "learning_rate": 0.01, "gradient_norm": 2.0},
    {"step": 20, "tokens": 99, "train_loss": 3.0, "learning_rate": 0.01, "gradient_norm": 1.0},
    {"step": 20, "valid_loss": 3.5, "bleu": 4.0, "chrf": 9.0},
]

PAGE = "training"
BATCHES = "training batches, with label smoothing 0.1 and dropout 0.1"
"""What the run's ``train_loss`` is the mean of."""


@pytest.fixture
def root(own_root: Path) -> Path:
    """With a log, and samples of two steps."""
    append_log(own_root / "tiny" / "metrics.jsonl", LOG)
    samples = own_root / "tiny" / "samples.jsonl"
    samples.unlink()
    sample = {"source": CATS, "reference": CATS_TRANSLATED, "shows": "negation"}
    append_log(
        samples,
        [
            {"step": 0, **sample, "translation": "<b>gatos"},
            {"step": 0, "source": "No more.", "translation": "No."},
            {"step": 20, **sample, "translation": CATS_TRANSLATED},
        ],
    )
    return own_root


def drawn(app: AppTest) -> dict[str, Any]:
    """Return the traces of the curves by their names, each as one line."""
    traces = charts(app)["curves"]["data"]
    return {trace.get("name", "").replace("<br>", " "): trace for trace in traces}


def alt_text(app: AppTest) -> str:
    """Return what a screen reader says of the curves."""
    [chart] = app.get("plotly_chart")
    return str(chart.proto.alt)


Tables = dict[str, dict[str, Any]]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Tables:
    """What the page gives to the component of tables, by key; the newest."""
    seen: Tables = {}

    def keep(titles: list[str], rows: list[Row], **given: Any) -> None:
        cells = [[written(cell) for cell in row.cells] for row in rows]
        seen[given["key"]] = {"titles": titles, "names": [row.name for row in rows]} | given
        seen[given["key"]]["cells"] = cells

    monkeypatch.setattr(translations, "row_table", keep)
    return seen


def written(cell: Cell) -> str:
    """Return the text of a cell."""
    if isinstance(cell, MarkedText):
        return "".join(part.text for part in cell.parts)
    return cell if isinstance(cell, str) else cell.text


# Curves


def test_the_curves_are_those_of_the_log(start: Start, root: Path) -> None:
    app = start(root)
    assert errors(app) == []
    traces = drawn(app)
    assert array(traces[BATCHES]["x"]).tolist() == [10, 20]
    assert array(traces[BATCHES]["y"]).tolist() == [4.0, 3.0]
    assert array(traces["valid"]["y"]).tolist() == [5.0, 3.5]
    assert array(traces["BLEU"]["y"]).tolist() == [0.0, 4.0]


def test_a_bleu_of_0_beside_exact_translations_is_explained(start: Start, root: Path) -> None:
    """BLEU needs four words; where targets are shorter the exact translations are what counts."""
    log = root / "tiny" / "metrics.jsonl"
    app = start(root)
    assert "read exact translations" not in captions(app)
    write_log(log, [{"step": 20, "valid_loss": 0.5, "bleu": 0.0, "chrf": 99.0, "exact": 0.75}])
    choose(app, smoothing=0.5)
    assert array(drawn(app)["exact translations"]["y"]).tolist() == [0.75]
    assert "tiny: BLEU counts sequences of four words" in captions(app)
    assert "exact translations 75%" in alt_text(app)


def test_the_sample_of_training_pairs_is_the_other_of_the_pair(start: Start, root: Path) -> None:
    log = root / "tiny" / "metrics.jsonl"
    app = start(root)
    assert "train sample" not in drawn(app)
    assert "the loss of training batches cannot be compared with it" in captions(app)
    assert f"valid loss from 5.00 to 3.50, loss of {BATCHES}, from 4.00 to 3.00" in alt_text(app)
    write_log(
        log, [row | {"train_sample_loss": row.get("valid_loss", 9) - 0.75} for row in LOG[:1]]
    )
    append_log(log, [*LOG[1:3], LOG[3] | {"train_sample_loss": 2.25}])
    choose(app, smoothing=0.5)
    assert array(drawn(app)["train sample"]["y"]).tolist() == [4.25, 2.25]
    assert array(drawn(app)["train sample"]["customdata"]).tolist() == ["0,tiny", "20,tiny"]
    assert "Train sample and valid are measured alike" in captions(app)
    assert "cannot be compared" not in captions(app)
    assert "loss of a sample of the training pairs from 4.25 to 2.25, valid loss" in alt_text(app)


@pytest.mark.parametrize(
    ("model", "training", "name"),
    [
        ({"dropout": 0.0}, {"label_smoothing": 0.0}, "training batches"),
        ({"dropout": 0.0}, {}, "training batches, with label smoothing 0.1"),
        ({"dropout": 0.25}, {"label_smoothing": 0.0}, "training batches, with dropout 0.25"),
        (
            {"dropout": 0.3, "hidden_dropout": 0.1},
            {"join": 0.2, "replace": 0.5},
            "training batches, with label smoothing 0.1, dropout 0.3, hidden dropout 0.1, joined "
            "pairs and replaced names",
        ),
        (
            {"dropout": 0.0},
            {"label_smoothing": 0.0, "bpe_dropout": 0.1, "address": 0.2},
            "training batches, with BPE-dropout 0.1 and names put before sentences",
        ),
    ],
)
def test_training_batches_are_named_by_what_their_loss_contains(
    start: Start, root: Path, model: dict[str, float], training: dict[str, float], name: str
) -> None:
    other = shutil.copytree(root / "tiny", root / "other")
    info = open_trained_run("other", root=root).info
    assert info.training is not None
    info = replace(
        info, model=replace(info.model, **model), training=replace(info.training, **training)
    )
    write_info(other, info)
    for weights in other.glob("*.safetensors"):  # they are of another model now
        weights.unlink()
    app = start(root, run="tiny", beside="other")
    assert errors(app) == []
    said = [
        trace["hovertemplate"].split("<br>")[0]
        for trace in charts(app)["curves"]["data"]
        if trace["name"] == "other" and trace["yaxis"] == "y"
    ]
    assert said == [f"other: {name}", "other: valid"]


def test_a_line_half_written_is_ignored_until_it_is_whole(start: Start, root: Path) -> None:
    path = root / "tiny" / "metrics.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 30, "train_')
    app = start(root)
    assert errors(app) == []
    assert array(drawn(app)[BATCHES]["x"]).tolist() == [10, 20]
    with path.open("a", encoding="utf-8") as file:
        file.write('loss": 2.0}\n')
    app.run()
    assert array(drawn(app)[BATCHES]["x"]).tolist() == [10, 20, 30]


def test_a_broken_log_is_named_and_another_run_is_drawn(start: Start, root: Path) -> None:
    shutil.copytree(root / "tiny", root / "other")
    break_lines(root / "tiny" / "metrics.jsonl")
    app = start(root, run="tiny", beside="other")
    (message,) = errors(app)
    assert message.startswith("tiny/metrics.jsonl, line 1: not JSON")
    assert array(drawn(app)["valid"]["y"]).tolist() == [5.0, 3.5]
    assert array(drawn(app)["valid"]["customdata"]).tolist() == ["0,other", "20,other"]


def test_several_runs_are_drawn_and_one_that_goes_is_left_out(start: Start, root: Path) -> None:
    shutil.copytree(root / "tiny", root / "other")
    app = start(root, run="tiny")
    choose(app, beside=["other"])
    assert {"tiny", "other"} <= set(drawn(app))
    shutil.rmtree(root / "other")
    app.run()
    assert errors(app) == []
    assert {BATCHES, "valid"} <= set(drawn(app))


def test_without_a_log_it_waits(start: Start, own_root: Path) -> None:
    app = start(own_root)
    assert errors(app) == []
    assert [info for info in app.info if "no line in the log yet" in info.value]


def test_smoothing_and_axes_are_chosen(start: Start, root: Path) -> None:
    app = start(root)
    choose(app, smoothing=0.5)
    smooth = array(drawn(app)[BATCHES]["y"]).tolist()
    assert smooth == near([4.0, (2 + 3) / 1.5], dtype=np.float32, operations=1)
    assert array(drawn(app)["valid"]["y"]).tolist() == [5.0, 3.5]
    choose(app, steps_axis="log")
    assert charts(app)["curves"]["layout"]["xaxis"]["type"] == "log"
    assert [note for note in app.caption if "no place for step 0" in note.value]


# Translations


def test_a_sample_is_read_step_by_step(start: Start, root: Path, tables: Tables) -> None:
    app = start(root, training="translations", step="20", q="Where is the dog?")
    assert errors(app) == []
    first = sacrebleu.CHRF().sentence_score("<b>gatos", [CATS_TRANSLATED]).score
    assert tables["sample_table"]["cells"] == [
        ["0", "<b>gatos", f"{first:.1f}"],
        ["20", f"{CATS_TRANSLATED} ✓", "100.0"],
    ]
    assert tables["sample_table"]["chosen"] == "20"
    assert tables["own_table"]["names"] == ["0", "20", "60"]


def test_a_sample_that_is_the_own_sentence_is_not_drawn_again(
    start: Start, root: Path, tables: Tables
) -> None:
    told = "Your sentence is one of these: its translations stand above."
    app = start(root, training="translations", q=CATS)
    assert widget(app, "sample").value == "No more."
    assert tables["sample_table"]["cells"] == [["0", "No."]]
    assert told in captions(app)
    tables.clear()
    choose(app, sample=CATS)
    assert "own_table" in tables
    assert "sample_table" not in tables
    assert told in captions(app)
    app = start(root, training="translations", q="Where is the dog?")
    assert told not in captions(app)


def test_the_own_sentence_stands_above_the_samples(
    start: Start, root: Path, tables: Tables
) -> None:
    app = start(root, training="translations")
    headings = [each.value for each in app.markdown if each.value.startswith("#####")]
    assert headings == ["##### Your sentence", "##### Sample sentences"]


def test_a_click_on_a_step_uses_its_checkpoint(start: Start, root: Path, tables: Tables) -> None:
    app = start(root, training="translations")
    compare = app.button(key="to_compare")
    assert compare.label == "Compare step 60 with another"
    seen: list[dict[str, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translations, "change_view", lambda **choices: seen.append(choices))
        tables["own_table"]["on_click"]("20")
    assert seen == [{"step": 20}]
    compare.click().run()
    view = app.session_state["session"].view.training
    assert (view.training, view.other_step) == ("compare", 20)


def test_all_samples_of_the_step_in_use_are_read(start: Start, root: Path, tables: Tables) -> None:
    app = start(root, training="translations", samples_by="one step", step="0")
    samples = tables["sample_table"]["cells"]
    assert [row[:3] for row in samples] == [
        [CATS, CATS_TRANSLATED, "<b>gatos"],
        ["No more.", "", "No."],
    ]
    assert samples[1][3] == ""  # nothing to measure by
    choose(app, step=60)
    assert [info for info in app.info if "no translations of step 60" in info.value]


def test_every_checkpoint_translates_the_own_sentence(
    start: Start, root: Path, run: TrainedRun, tables: Tables
) -> None:
    sentence = "Where is the dog?"
    app = start(root, training="translations", q=sentence)
    source = run.tokenizers.encode_source(sentence)
    expected = []
    for step in run.steps():
        [target] = greedy(load_weights(run, step).model, [source])
        expected.append(run.tokenizers.target.decode(target) or "(no text)")
    own = tables["own_table"]["cells"]
    assert [row[1] for row in own] == expected
    assert all(len(row) == 4 and float(row[2].replace(",", "")) < 0 for row in own)
    choose(app, own_reference=expected[-1])
    own = tables["own_table"]["cells"]
    assert own[-1][1] == f"{expected[-1]} ✓"
    assert own[-1][4] == "100.0"
    first = run.steps()[expected.index(expected[-1])]
    assert f"to the letter, first at step {first:,}." in captions(app)
    choose(app, own_reference="Quien sabe.")
    assert "No checkpoint translates as the reference, to the letter." in captions(app)


def test_a_broken_checkpoint_leaves_a_gap_and_is_named(
    start: Start, root: Path, tables: Tables
) -> None:
    path = weights_path(root / "tiny", 20)
    break_file(path)
    app = start(root, training="translations")
    (message,) = errors(app)
    assert message.startswith(f"tiny/{path.name}: truncated")
    assert [bool(row[1]) for row in tables["own_table"]["cells"]] == [True, False, True]


def test_samples_that_are_broken_are_named_and_the_own_sentence_is_translated(
    start: Start, root: Path, tables: Tables
) -> None:
    break_lines(root / "tiny" / "samples.jsonl")
    app = start(root, training="translations", q="Where?")
    assert {message.split(":")[0] for message in errors(app)} == {"tiny/samples.jsonl, line 1"}
