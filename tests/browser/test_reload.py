"""A page that is reloaded or closed while the app computes for it leaves a sound server behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.model.decoding.beam import beam_search
from headwise.viz_app.records.trace import Trace

if TYPE_CHECKING:
    from tests.browser.driver import App

FIRST = "I know that you know that I know that he does not know what she says about it. " * 2
SECOND = "Nobody knows where they were when we came home and why the door was not open. " * 2


def begin(app: App, sentence: str) -> None:
    """Ask for a translation and come back once the app has taken the sentence.

    The address changes as the app sets out to compute; nothing waits for the end of it.
    """
    app.type(sentence.strip())
    taken = "text => new URL(location).searchParams.get('q') === text"
    app.page.wait_for_function(taken, arg=sentence.strip())


def expect_translation(
    app: App, run: TrainedRun, trace_at: Callable[..., Trace], sentence: str
) -> None:
    step, sentence = run.steps()[-1], sentence.strip()
    source = run.tokenizers.encode_source(sentence)
    [beam] = beam_search(load_weights(run, step).model, [source], size=8)
    trace = trace_at(step, sentence, tuple(beam.hypotheses[0].target))
    app.expect_text("translation", trace.target_text)
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    app.expect_field("sentence", sentence)
    expect(app.page.locator(".stAlert")).to_have_count(0)


def test_page_is_reloaded_and_closed_while_the_app_computes(
    new_app: Callable[..., App], run: TrainedRun, trace_at: Callable[..., Trace]
) -> None:
    """The log of the server, which must not have a traceback, is looked at when it ends."""
    app, other = new_app(), new_app()
    app.open(q="I am hungry.", decoding="beam", beam=8)
    app.page.locator(".st-key-large .js-plotly-plot").wait_for()
    begin(app, FIRST)
    app.page.reload()
    begin(app, SECOND)  # while the server may still be at the first
    app.page.close()
    other.open(q=SECOND.strip(), decoding="beam", beam=8)
    expect_translation(other, run, trace_at, SECOND)
    other.type(FIRST.strip())
    expect_translation(other, run, trace_at, FIRST)
