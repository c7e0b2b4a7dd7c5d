"""Rooms curves and translations of the page Training, run without a browser on the tiny run."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from streamlit.testing.v1 import AppTest

from model.checkpoint import Run, load_weights, weights_path
from model.decoding import greedy
from model.files import append_log

Start = Callable[..., AppTest]
CATS, SPANISH = "The cats don't see the dog.", "Los gatos no ven al perro."
LOG = [
    {"step": 0, "valid_loss": 5.0, "bleu": 0.0, "chrf": 1.0},
    {"step": 10, "tokens": 50, "train_loss": 4.0, "learning_rate": 0.01, "gradient_norm": 2.0},
    {"step": 20, "tokens": 99, "train_loss": 3.0, "learning_rate": 0.01, "gradient_norm": 1.0},
    {"step": 20, "valid_loss": 3.5, "bleu": 4.0, "chrf": 9.0},
]


@pytest.fixture
def root(own_root: Path) -> Path:
    """With a log, and samples of two steps."""
    append_log(own_root / "tiny" / "metrics.jsonl", LOG)
    samples = own_root / "tiny" / "samples.jsonl"
    samples.unlink()
    sample = {"source": CATS, "reference": SPANISH, "shows": "negation"}
    append_log(
        samples,
        [
            {"step": 0, **sample, "translation": "<b>gatos"},
            {"step": 0, "source": "No more.", "translation": "No."},
            {"step": 20, **sample, "translation": SPANISH},
        ],
    )
    return own_root


def errors(app: AppTest) -> list[str]:
    assert not app.exception
    return [re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", error.value) for error in app.error]


def array(written: Any) -> list[float]:
    if isinstance(written, list):
        return written
    return np.frombuffer(base64.b64decode(written["bdata"]), written["dtype"]).tolist()


def drawn(app: AppTest) -> dict[str, Any]:
    """Traces of the curves by their names."""
    [chart] = app.get("plotly_chart")
    return {trace.get("name"): trace for trace in json.loads(chart.proto.spec)["data"]}


def tables(app: AppTest) -> list[list[list[str]]]:
    """Texts of the cells of each table."""
    found = [html.proto.body for html in app.get("html") if "<table" in html.proto.body]
    return [
        [
            [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall("<td.*?</td>", row)]
            for row in re.findall("<tr.*?</tr>", html)[1:]
        ]
        for html in found
    ]


# Curves


def test_the_curves_are_those_of_the_log(start_page: Start, root: Path) -> None:
    app = start_page("training", root)
    assert errors(app) == []
    traces = drawn(app)
    assert array(traces["train"]["x"]) == [10, 20]
    assert array(traces["train"]["y"]) == [4.0, 3.0]
    assert array(traces["valid"]["y"]) == [5.0, 3.5]
    assert array(traces["BLEU"]["y"]) == [0.0, 4.0]


def test_a_line_half_written_is_ignored_until_it_is_whole(start_page: Start, root: Path) -> None:
    path = root / "tiny" / "metrics.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('{"step": 30, "train_')
    app = start_page("training", root)
    assert errors(app) == []
    assert array(drawn(app)["train"]["x"]) == [10, 20]
    with path.open("a", encoding="utf-8") as file:
        file.write('loss": 2.0}\n')
    app.run()
    assert array(drawn(app)["train"]["x"]) == [10, 20, 30]


def test_a_broken_log_is_named_and_another_run_is_drawn(start_page: Start, root: Path) -> None:
    shutil.copytree(root / "tiny", root / "other")
    path = root / "tiny" / "metrics.jsonl"
    path.write_text("{\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    app = start_page("training", root, run="tiny", beside="other")
    (message,) = errors(app)
    assert message.startswith(f"{path}, line 1: not JSON")
    assert array(drawn(app)["valid"]["y"]) == [5.0, 3.5]
    assert array(drawn(app)["valid"]["customdata"]) == ["0,other", "20,other"]


def test_several_runs_are_drawn_and_one_that_goes_is_left_out(
    start_page: Start, root: Path
) -> None:
    shutil.copytree(root / "tiny", root / "other")
    app = start_page("training", root, run="tiny")
    app.multiselect(key="beside").set_value(["other"]).run()
    assert {"tiny", "other"} <= set(drawn(app))
    shutil.rmtree(root / "other")
    app.run()
    assert errors(app) == []
    assert {"train", "valid"} <= set(drawn(app))


def test_without_a_log_it_waits(start_page: Start, own_root: Path) -> None:
    app = start_page("training", own_root)
    assert errors(app) == []
    assert [info for info in app.info if "no line in the log yet" in info.value]


def test_smoothing_and_axes_are_chosen(start_page: Start, root: Path) -> None:
    app = start_page("training", root)
    app.select_slider(key="smoothing").set_value(0.5).run()
    assert array(drawn(app)["train"]["y"]) == pytest.approx([4.0, (2 + 3) / 1.5])
    assert array(drawn(app)["valid"]["y"]) == [5.0, 3.5]
    app.segmented_control(key="steps_axis").set_value("log").run()
    [chart] = app.get("plotly_chart")
    assert json.loads(chart.proto.spec)["layout"]["xaxis"]["type"] == "log"
    assert [note for note in app.caption if "no place for step 0" in note.value]


# Translations


def test_a_sample_is_read_step_by_step(start_page: Start, root: Path) -> None:
    app = start_page("training", root, training="translations", step="20")
    assert errors(app) == []
    first = sacrebleu.CHRF().sentence_score("<b>gatos", [SPANISH]).score
    samples, own = tables(app)
    assert samples == [["0", "&lt;b&gt;gatos", f"{first:.1f}"], ["20", f"{SPANISH} ✓", "100.0"]]
    assert [row[0] for row in own] == ["0", "20", "60"]


def test_all_samples_of_the_step_in_use_are_read(start_page: Start, root: Path) -> None:
    app = start_page("training", root, training="translations", samples_by="one step", step="0")
    samples, _ = tables(app)
    assert [row[:3] for row in samples] == [
        [CATS.replace("'", "&#x27;"), SPANISH, "&lt;b&gt;gatos"],
        ["No more.", "", "No."],
    ]
    assert samples[1][3] == ""  # nothing to measure by
    app.select_slider(key="step").set_value(60).run()
    assert [info for info in app.info if "no translations of step 60" in info.value]


def test_every_checkpoint_translates_the_own_sentence(
    start_page: Start, root: Path, run: Run
) -> None:
    sentence = "Where is the dog?"
    app = start_page("training", root, training="translations", q=sentence)
    source = run.tokenizers.encode_source(sentence)
    expected = []
    for step in run.steps():
        [target] = greedy(load_weights(run, step).model, [source])
        expected.append(run.tokenizers.target.decode(target) or "nothing")
    own = tables(app)[-1]
    assert [row[1] for row in own] == expected
    assert all(len(row) == 4 and float(row[2].replace(",", "")) < 0 for row in own)
    app.text_input(key="own_reference").set_value(expected[-1]).run()
    own = tables(app)[-1]
    assert own[-1][1] == f"{expected[-1]} ✓"
    assert own[-1][4] == "100.0"


def test_a_broken_checkpoint_leaves_a_gap_and_is_named(start_page: Start, root: Path) -> None:
    path = weights_path(root / "tiny", 20)
    path.write_bytes(path.read_bytes()[:-100])
    app = start_page("training", root, training="translations")
    (message,) = errors(app)
    assert message.startswith(f"{path}: truncated")
    own = tables(app)[-1]
    assert [bool(row[1]) for row in own] == [True, False, True]


def test_samples_that_are_broken_are_named_and_the_own_sentence_is_translated(
    start_page: Start, root: Path
) -> None:
    path = root / "tiny" / "samples.jsonl"
    path.write_text("{\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    app = start_page("training", root, training="translations", q="Where?")
    assert {message.split(":")[0] for message in errors(app)} == {f"{path}, line 1"}
