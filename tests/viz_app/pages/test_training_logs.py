"""The sections "curves" and "translations" of the page Training."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu

from headwise.model.checkpoint import TrainedRun, open_trained_run, weights_path, write_info
from headwise.model.files import append_log, read_log, write_log
from tests.floats import near
from tests.viz_app.pages.driver import (
    CATS,
    CATS_TRANSLATED,
    STEPS,
    Calls,
    Folders,
    Page,
    Start,
    array,
    break_file,
    break_lines,
    patch_views,
    row_names,
    table,
    traced,
    unescaped,
    without_weights,
)

LOG = [
    {"step": 0, "valid_loss": 5.0, "bleu": 0.0, "chrf": 1.0},
    {"step": 10, "tokens": 50, "train_loss": 4.0, "learning_rate": 0.01, "gradient_norm": 2.0},
    {"step": 20, "tokens": 99, "train_loss": 3.0, "learning_rate": 0.01, "gradient_norm": 1.0},
    {"step": 20, "valid_loss": 3.5, "bleu": 4.0, "chrf": 9.0},
]
PAGE, ADDRESS = "training", {"training": "curves"}
BATCHES = "training batches, with label smoothing 0.1 and dropout 0.1"
"""What the run's ``train_loss`` is the mean of."""
OTHER = "Where is the dog?"
"""A sentence that is none of the samples."""


@pytest.fixture
def root(own_root: Path) -> Path:
    """With a log, and samples of two steps."""
    append_log(own_root / "tiny" / "metrics.jsonl", LOG)
    samples = own_root / "tiny" / "samples.jsonl"
    samples.unlink()
    sample = {"source": CATS, "reference": CATS_TRANSLATED, "shows": "negation"}
    rows = [
        {"step": 0, **sample, "translation": "<b>gatos"},
        {"step": 0, "source": "No more.", "translation": "No."},
        {"step": 20, **sample, "translation": CATS_TRANSLATED},
    ]
    append_log(samples, rows)
    return own_root


def drawn(app: Page, axis: str = "y") -> dict[str, list[Any]]:
    """Return the values of the curves by their names."""
    traces = app.charts["curves"]["data"]
    named = [trace for trace in traces if axis in trace]
    return {each.get("name", "").replace("<br>", " "): array(each[axis]).tolist() for each in named}


def alt_text(app: Page) -> str:
    """Return what a screen reader says of the curves."""
    [chart] = app.get("plotly_chart")
    return str(chart.proto.alt)


# Curves


def test_the_curves_are_those_of_the_log(start: Start, root: Path) -> None:
    app = start(root)
    values = drawn(app)
    assert drawn(app, "x")[BATCHES] == [10, 20]
    assert (values[BATCHES], values["valid"], values["BLEU"]) == ([4, 3], [5, 3.5], [0, 4])
    app.choose(smoothing=0.5)
    smooth = [4.0, (2 + 3) / 1.5]
    assert drawn(app)[BATCHES] == near(smooth, dtype=np.float32, operations=1)
    assert drawn(app)["valid"] == [5.0, 3.5]
    app.choose(steps_axis="log")
    assert app.charts["curves"]["layout"]["xaxis"]["type"] == "log"


def test_a_log_is_followed_as_it_grows(start: Start, own_root: Path) -> None:
    app = start(own_root)
    assert [info for info in app.info if "no line in the log yet" in info.value]
    log = own_root / "tiny" / "metrics.jsonl"
    append_log(log, LOG)
    with log.open("a", encoding="utf-8") as file:
        file.write('{"step": 30, "train_')  # which is ignored until it is whole
    assert app.run().errors == []
    assert drawn(app, "x")[BATCHES] == [10, 20]
    with log.open("a", encoding="utf-8") as file:
        file.write('loss": 2.0}\n')
    assert drawn(app.run(), "x")[BATCHES] == [10, 20, 30]


def test_train_samples_and_exact_translations_are_drawn(start: Start, root: Path) -> None:
    log = root / "tiny" / "metrics.jsonl"
    first, *between, last = LOG
    rows = [first | {"train_sample_loss": 4.25}, *between, last | {"train_sample_loss": 2.25}]
    write_log(log, [*rows, {"step": 60, "exact": 0.75}])
    app = start(root, smoothing="0.5")
    assert drawn(app)["train sample"] == [4.25, 2.25]
    assert drawn(app)["exact translations"] == [0.75]
    assert drawn(app, "customdata")["train sample"] == ["0,tiny", "20,tiny"]
    assert "loss of a sample of the training pairs from 4.25 to 2.25, valid loss" in alt_text(app)
    assert "exact translations 75%" in alt_text(app)


def test_training_batches_are_named_by_what_their_loss_contains(start: Start, root: Path) -> None:
    info = open_trained_run("tiny", root=root).info
    assert info.training is not None
    plain: dict[str, Any] = {"label_smoothing": 0.0}
    every = {
        "plain": ({"dropout": 0.0}, plain, ""),
        "all": (
            {"dropout": 0.3, "hidden_dropout": 0.1},
            {"join": 0.2},
            ", with label smoothing 0.1, dropout 0.3, hidden dropout 0.1 and joined pairs",
        ),
    }
    for name, (of_model, options, _) in every.items():
        shutil.copytree(root / "tiny", root / name)
        training, model = replace(info.training, **options), replace(info.model, **of_model)
        write_info(root / name, replace(info, model=model, training=training))
        without_weights(root / name)  # they are of another model now
    app = start(root, run="tiny", beside=[*every])
    said = {trace["hovertemplate"].split("<br>")[0] for trace in app.charts["curves"]["data"]}
    for name, (*_, told) in every.items():
        assert {f"{name}: training batches{told}", f"{name}: valid"} <= said


def test_where_a_run_changes_its_pairs_is_said_with_the_reason(start: Start, root: Path) -> None:
    """Of a run that does from its third epoch on, one from the first on, and one never."""
    run = open_trained_run("tiny", root=root)
    assert run.info.training is not None
    assert run.info.data is not None
    assert run.counts is not None
    epoch = sum(run.counts.target) - run.info.data.train_pairs  # <s> is predicted nowhere
    losses = {10: (epoch, 3.0), 20: (2 * epoch, 2.5), 30: (2 * epoch + 1, 4.25)}
    rows = [{"step": at, "tokens": t, "train_loss": loss} for at, (t, loss) in losses.items()]
    for name, options in (
        ("later", {"join": 0.25, "replace": 0.5, "plain_epochs": 2}),
        ("at once", {"join": 0.25}),
        ("never", {"plain_epochs": 2}),
    ):
        shutil.copytree(root / "tiny", root / name)
        write_info(root / name, replace(run.info, training=replace(run.info.training, **options)))
        write_log(root / name / "metrics.jsonl", rows)
    app = start(root, run="later", beside=["at once", "never"])
    assert app.captions.count(" on it trains with ") == 1
    assert "later: from step 21 on it trains with joined pairs and replaced names" in app.captions
    layout = app.charts["curves"]["layout"]
    assert [each["x"] for each in layout["annotations"] if "hovertext" in each] == [21]
    write_log(root / "later" / "metrics.jsonl", rows[:2])  # it has not come so far
    assert "it trains with" not in app.run().captions


def test_scores_of_other_validation_data_are_not_to_be_compared(start: Start, root: Path) -> None:
    """Of the same data, of other data, and of data that nobody knows."""
    shutil.copytree(root / "tiny", root / "other")
    warning = "Do not compare BLEU"
    info = open_trained_run("other", root=root).info
    assert info.data is not None
    write_info(root / "other", replace(info, data=replace(info.data, name="renamed")))
    app = start(root, run="tiny", beside=["other"])
    assert warning not in app.captions
    data = replace(info.data, valid_sha256="0" * 64, valid_file="more.jsonl", name="a *corpus*")
    write_info(root / "other", replace(info, data=data))
    app = start(root, run="tiny", beside=["other"])
    assert f"{warning}, chrF and exact translations of these runs" in app.captions
    assert "other (a *corpus*, more.jsonl)" in unescaped(app.captions)
    log = root / "other" / "metrics.jsonl"
    rows = list(read_log(log))
    counted = {"valid_pairs": 30, "valid_sources": 20}
    write_log(log, [row | counted if "bleu" in row else row for row in rows])
    app = start(root, run="tiny", beside=["other"])
    assert "more.jsonl, 1.50 references a sentence)" in unescaped(app.captions)


def test_what_a_trainer_evaluated_has_charts_under_its_own_names(
    start_model: Start, folders: Folders, tmp_path: Path
) -> None:
    """Of several data sets, of one's own metrics, and with names and values of any kind."""
    folder = shutil.copytree(folders("marian", trained=True), tmp_path / "work" / "theirs")
    newest = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    step = int(newest.name[11:])
    evaluated = {
        "eval_de_loss": 2.5,
        "eval_fr_loss": 3.5,
        "eval_sacrebleu": 31.5,
        "eval_gen_len": 5_000,
        "eval_<b>_$x$_*%{y}": 0.25,
        "kl": 0.125,
    }
    odd = {"eval_text": "good", "eval_nan": float("nan"), "eval_list": [1], "eval_huge": 10**400}
    unmeasured = {"eval_runtime": 2.0, "eval_samples_per_second": 9.0, "eval_ok": True}
    history = [
        {"step": 1, "epoch": 1, "loss": 3.0, **{name: 2 * v for name, v in evaluated.items()}},
        {"step": step, "epoch": 2, **evaluated, **odd, **unmeasured},
        {"step": step, "train_loss": 99.0, "train_runtime": 5.0, "total_flos": 1e12},
    ]
    state = {"global_step": step, "log_history": history}
    (newest / "trainer_state.json").write_text(json.dumps(state))
    app = start_model("training", folder, training="curves", smoothing="0.9")
    assert (app.errors, app.exception) == ([], [])
    lines = {line["name"]: line for line in app.charts["curves"]["data"] if "name" in line}
    escaped = "eval_&lt;b&gt;_&#36;x&#36;_*%&#123;y}"
    names = {name: escaped if "<" in name else name for name in evaluated}
    assert lines.keys() == {"training batches", *names.values()}
    assert array(lines["training batches"]["y"]).tolist() == [3.0]
    for name, value in evaluated.items():
        values = array(lines[names[name]]["y"]).tolist()
        assert values == [2 * value, value] or name == "kl"  # what is evaluated is not smoothed
    axes = [line["yaxis"] for line in lines.values()]
    assert len(axes) == len(set(axes))  # 5,000 and 0.25 in charts of their own


def test_several_runs_are_drawn_and_broken_or_gone_ones_left_out(start: Start, root: Path) -> None:
    shutil.copytree(root / "tiny", root / "other")
    app = start(root, run="tiny")
    app.choose(beside=["other"])
    assert {"tiny", "other"} <= set(drawn(app))
    log = (root / "tiny" / "metrics.jsonl").read_bytes()
    break_lines(root / "tiny" / "metrics.jsonl")
    (message,) = app.run().errors
    assert message.startswith("tiny/metrics.jsonl, line 1: not JSON")
    assert drawn(app)["valid"] == [5.0, 3.5]
    (root / "tiny" / "metrics.jsonl").write_bytes(log)
    shutil.rmtree(root / "other")
    assert app.run().errors == []
    assert {BATCHES, "valid"} <= set(drawn(app))


# Translations


@pytest.fixture
def translations(start: Start, root: Path) -> Start:
    """Open the section on the run with samples."""
    return lambda **address: start(root, training="translations", **address)


def test_samples_are_read_step_by_step_or_all_of_one(translations: Start, lists: Calls) -> None:
    app = translations(step="20", q=OTHER, sample="No more.")
    assert table(lists, "sample_table") == [["0", "No."]]  # nothing to measure by
    assert lists["sample_table"]["given"][0] == ["step", "translation"]
    app.choose(sentence="No more.")
    assert app.widget("sample").options == ["yours: No more.", CATS]
    app.choose(sample=CATS)
    assert app.address["sample"] == CATS
    first = sacrebleu.CHRF().sentence_score("<b>gatos", [CATS_TRANSLATED]).score
    assert table(lists, "sample_table") == [
        ["0", "<b>gatos", f"{first:.1f}"],
        ["20", f"{CATS_TRANSLATED} ✓", "100.0"],
    ]
    assert lists["sample_table"]["chosen"] == "20"

    app.choose(samples_by="one step").choose(step=0)
    samples = table(lists, "sample_table")
    assert samples[0][:3] == [CATS, CATS_TRANSLATED, "<b>gatos"]
    assert samples[1] == ["No more.", "", "No.", ""]
    app.choose(step=60)
    assert [info for info in app.info if "no translations of step 60" in info.value]


def test_every_checkpoint_translates_the_own_sentence(
    translations: Start, run: TrainedRun, lists: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = translations(q=OTHER)
    expected = [traced(run, OTHER, step=step).target_text or "(no text)" for step in STEPS]
    own = table(lists, "own_table")
    assert [row[1] for row in own] == expected
    assert all(len(row) == 4 and float(row[2].replace(",", "")) < 0 for row in own)
    app.choose(own_reference=expected[-1])
    own = table(lists, "own_table")
    assert (own[-1][1], own[-1][4]) == (f"{expected[-1]} ✓", "100.0")
    first = STEPS[expected.index(expected[-1])]
    assert f"to the letter, first at step {first:,}." in app.captions
    seen: list[dict[str, int]] = []
    with monkeypatch.context() as patch:
        patch_views(patch, "session", change_view=lambda *_, **choices: seen.append(choices))
        lists["own_table"]["on_click"]("20")
    assert seen == [{"step": 20}]
    app.button(key="to_compare").click().run()
    view = app.view.training
    assert (view.training, view.other_step) == ("compare", 20)


def test_what_is_broken_is_left_out_by_name(translations: Start, root: Path, lists: Calls) -> None:
    path = weights_path(root / "tiny", 20)
    content = path.read_bytes()
    break_file(path)
    (message,) = translations().errors
    assert message.startswith(f"tiny/{path.name}: truncated")
    assert [bool(row[1]) for row in table(lists, "own_table")] == [True, False, True]
    path.write_bytes(content)
    break_lines(root / "tiny" / "samples.jsonl")
    app = translations(q="Where?")
    assert {told.split(":")[0] for told in app.errors} == {"tiny/samples.jsonl, line 1"}
    assert row_names(lists, "own_table") == ["0", "20", "60"]
