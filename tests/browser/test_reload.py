"""A page that is reloaded or closed while the app computes for it leaves a sound server behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from model.beam import beam_search
from model.checkpoint import Run, load_weights
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

FIRST = "I know that you know that I know that he does not know what she says about it. " * 2
SECOND = "Nobody knows where they were when we came home and why the door was not open. " * 2
COMPUTING = """text => {
    const app = document.querySelector('.stApp[data-test-script-state="running"]');
    return app && new URL(location).searchParams.get('q') === text.trim();
}"""


def begin(app: App, sentence: str) -> None:
    """Ask for a translation and come back while the app is at it."""
    app.type(sentence.strip())
    app.page.wait_for_function(COMPUTING, arg=sentence)


def expect_translation(app: App, run: Run, trace_at: Callable[..., Trace], sentence: str) -> None:
    step, sentence = run.steps()[-1], sentence.strip()
    source = run.tokenizers.encode_source(sentence)
    [beam] = beam_search(load_weights(run, step).model, [source], size=8)
    trace = trace_at(step, sentence, tuple(beam.hypotheses[0].target))
    app.expect_text("translation", trace.target_text)
    app.expect_drawn("large", trace.attention["cross"][-1, 0], tolerance=1e-4)
    assert app.page.locator(".st-key-sentence input").input_value() == sentence
    assert app.page.locator(".stException, .stAlert").count() == 0


def test_reloaded_and_closed_while_it_computes(
    new_app: Callable[..., App], run: Run, trace_at: Callable[..., Trace]
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
