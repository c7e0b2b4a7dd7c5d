"""The page Training draws what the log says; its milestones are clicked, its tables read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from model.checkpoint import Run, load_weights, open_run
from model.decoding import greedy
from viz_app.analysis.curves import curve_of, turn_of
from viz_app.attention_trace import target_log_probability

if TYPE_CHECKING:
    from tests.browser.conftest import App

CURVES = (
    ("train", "train_loss"),
    ("valid", "valid_loss"),
    ("BLEU", "bleu"),
    ("learning rate", "learning_rate"),
    ("chrF", "chrf"),
    ("norm of the gradient", "gradient_norm"),
    ("target pieces per second", "tokens_per_second"),
)
OVERFITTING = "valid loss is lowest at step 2,000, from there on it rises: overfitting"


def step_in_use(app: App, step: int) -> None:
    """Wait until the address has this step."""
    app.wait("s => new URL(location).searchParams.get('step') === `${s}`", step)
    assert f"step={step}" in app.page.url.replace("?", "&").split("&")


def test_curves_are_those_of_the_log_and_their_milestones_are_clicked(app: App) -> None:
    run = open_run("books-small")
    rows = run.metrics()
    app.open("/training", run="books-small")
    app.wait("() => document.querySelector('.st-key-curves .js-plotly-plot')?._fullData?.length")
    for name, key in CURVES:
        trace = f"gd._fullData.find(trace => trace.name === '{name}')"
        drawn = app.read("curves", f"[Array.from({trace}.x), Array.from({trace}.y)]")
        curve = curve_of(rows, key)
        np.testing.assert_array_equal(drawn[0], curve.steps)
        np.testing.assert_allclose(drawn[1], curve.values, rtol=1e-6)

    turn = turn_of(curve_of(rows, "valid_loss"), curve_of(rows, "train_loss"))
    assert turn is not None
    assert turn.step == 2_000
    written = app.page.locator(".st-key-curves .annotation-text").all_text_contents()
    assert [text for text in written if OVERFITTING in text]

    milestone = curve_of(rows, "valid_loss")
    [left, right], [low, high] = app.read(
        "curves", "[gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]"
    )
    at = milestone.steps.tolist().index(5_000)
    app.click_in(
        "curves",
        (5_000 - left) / (right - left),
        (high - milestone.values[at]) / (high - low),
    )
    step_in_use(app, 5_000)
    app.wait(
        """() => document.querySelector('.st-key-curves .js-plotly-plot')
            ._fullLayout.shapes[0].x0 === 5000"""
    )
    slider = app.page.locator(".st-key-step input")
    assert slider.get_attribute("aria-valuetext") == "5,000"


def test_a_sentence_is_read_from_garbage_to_translation(app: App, run: Run) -> None:
    sentence = "Nobody knows my cat."
    app.open("/training", training="translations", q=sentence, step=1_000)
    rows = app.page.locator(".st-key-own_table tbody tr")
    expected = []
    source = tuple(run.tokenizers.encode_source(sentence))
    for step in run.steps():
        model = load_weights(run, step).model
        target = tuple(greedy(model, [source])[0])
        total = target_log_probability(model, source, target).sum()
        text = run.tokenizers.target.decode(target) or "nothing"
        expected.append([f"{step:,}", text, f"{total:,.2f}"])
    app.wait(
        "n => document.querySelectorAll('.st-key-own_table tbody tr').length === n", len(expected)
    )
    read = rows.evaluate_all(
        "rows => rows.map(row => [...row.cells].slice(0, 3).map(c => c.textContent.trim()))"
    )
    assert [line[:2] for line in read] == [line[:2] for line in expected]
    assert [float(line[2]) for line in read] == pytest.approx(
        [float(line[2]) for line in expected], abs=0.011
    )
    samples = [row for row in run.samples() if row["source"] == run.samples()[0]["source"]]
    shown = app.page.locator(".st-key-sample_table tbody tr td:nth-child(2)").all_text_contents()
    assert [text.replace("✓", "").strip() for text in shown] == [
        row["translation"] or "nothing" for row in samples
    ]
    used = app.page.locator("tr.used td:first-child").all_text_contents()
    assert used == ["1,000", "1,000"]
