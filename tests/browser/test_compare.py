"""Two checkpoints side by side, and the address that brings all choices back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from model.checkpoint import Run
from viz_app.analysis.grid import Reading, make_grid
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "These houses are more expensive than those."


def compare(app: App) -> None:
    """Switch the comparison of two checkpoints on."""
    app.page.get_by_text("Compare with another checkpoint").click()


def test_two_checkpoints_are_compared_on_the_translation_of_the_newer(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    steps = run.steps()
    newest, others = steps[-1], steps[:-1]
    middle = others[len(others) // 2]
    app.open(q=SENTENCE, step=newest)
    compare(app)
    own = trace_at(newest, SENTENCE)
    app.expect_text(f"own-{newest}", own.target_text)
    app.expect_text(f"own-{middle}", trace_at(middle, SENTENCE).target_text)
    app.press("second", "End")
    second_step = others[-1]
    app.expect_text(f"own-{second_step}", trace_at(second_step, SENTENCE).target_text)
    first, second = (trace_at(step, SENTENCE, own.target_ids) for step in (newest, second_step))
    for kind, name in (("decoder_self", "Decoder self"), ("cross", "Cross")):
        app.choose("kind", name)
        a, b = (trace.attention[kind][-1, 0] for trace in (first, second))
        app.expect_drawn("first", a)
        app.expect_drawn("second_map", b)
        app.expect_drawn("difference", b - a)
        grid = make_grid(first, kind)
        for key in ("first", "second_map", "difference"):
            app.expect_labels(key, "y", grid.rows)
            app.expect_labels(key, "x", grid.columns)


def test_a_newer_second_checkpoint_gives_the_shared_target(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    *_, older, newest = run.steps()
    app.open(q=SENTENCE, step=older, second=newest, compare="true")
    target = trace_at(newest, SENTENCE).target_ids
    first, second = (trace_at(step, SENTENCE, target) for step in (older, newest))
    a, b = (trace.attention["cross"][-1, 0] for trace in (first, second))
    app.expect_drawn("difference", b - a)
    app.expect_drawn("first", a)
    app.expect_text("translation", trace_at(older, SENTENCE).target_text)


def test_the_address_brings_all_choices_back_and_they_survive_a_change_of_page(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace]
) -> None:
    steps = run.steps()
    step, second_step = steps[-2], steps[-3]
    target = trace_at(step, SENTENCE).target_ids
    a, b = (trace_at(at, SENTENCE, target) for at in (step, second_step))
    grid = make_grid(a, "decoder_self", Reading(units="words", lead="consumed"))
    first, second = (
        grid.apply(trace.attention["decoder_self"])[1].mean(axis=0) for trace in (a, b)
    )
    choices = {
        "units": "words",
        "rows": "consumed",
        "kind": "Decoder self",
        "layer": "2",
        "head": "3",
        "show": "mean",
    }

    def expect_all(app: App) -> None:
        app.expect_drawn("difference", second - first)
        app.expect_drawn("first", first)
        app.expect_drawn("second_map", second)
        app.expect_labels("first", "y", grid.rows)
        assert {key: app.chosen(key) for key in choices} == choices
        assert app.page.get_by_role("textbox", name="Sentence").input_value() == SENTENCE

    app = new_app()
    app.open()
    app.type(SENTENCE)
    app.expect_text("translation", trace_at(steps[-1], SENTENCE).target_text)
    app.press("step", "ArrowLeft")
    app.expect_text("translation", trace_at(step, SENTENCE).target_text)
    for key, option in choices.items():
        app.choose(key, option)
        app.wait(
            "([key, value]) => new URLSearchParams(location.search).get(key) === value",
            [key, option],
        )
    compare(app)
    app.wait("() => document.querySelector('.st-key-second_map .js-plotly-plot')")
    app.press("second", "End")
    app.press("second", "ArrowLeft")
    expect_all(app)

    again = new_app()
    again.open(app.page.url)
    expect_all(again)
    again.page.get_by_role("link", name="Embeddings & positions").click()
    again.page.locator(".st-key-tokens .js-plotly-plot").wait_for()
    again.page.get_by_role("link", name="Translate").click()
    expect_all(again)
