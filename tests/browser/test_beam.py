"""The beam's tree is that of the search, and the chosen hypothesis is what is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from model.beam import beam_search
from model.checkpoint import Run, load_weights
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "We saw three black cats on the white roof."


def test_a_hypothesis_of_the_beam_is_chosen_and_traced(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    newest = run.steps()[-1]
    source = run.tokenizers.encode_source(SENTENCE)
    [beam] = beam_search(load_weights(run, newest).model, [source], size=4)
    decode = run.tokenizers.target.decode

    app.open(q=SENTENCE, decoding="beam")
    app.expect_text("translation", decode(beam.hypotheses[0].target))
    app.wait("() => document.querySelector('.st-key-tree .js-plotly-plot')")
    assert app.read("tree", "gd._fullData[3].x.length") == len(beam.tree)

    third = beam.hypotheses[2]
    app.pick("hypothesis", f"{decode(third.target)}  ·  {third.score:.2f}")
    app.expect_text("translation", decode(third.target))
    trace = trace_at(newest, SENTENCE, tuple(third.target))
    app.expect_drawn("large", trace.attention["cross"][-1, 0])
    path = app.read("tree", "gd._fullData[2].x.filter(x => x !== null).length / 2")
    assert path == len(third.target) - 1
