"""Heads are switched off and ranked, and what is drawn is what the model says without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from model.ablation import head_costs
from model.checkpoint import Run, load_weights
from viz_app.analysis.flow import rolled_out
from viz_app.analysis.grid import Reading, make_grid
from viz_app.records import KINDS, Trace
from viz_app.trace import run_trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "We saw three black cats on the white roof."


def test_a_click_in_the_ranking_opens_its_head(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    """Layer 2, head 4 of the encoder: the second row, the fourth column of 14."""
    trace = trace_at(run.steps()[-1], SENTENCE)
    checkpoint = load_weights(run, run.steps()[-1])
    source = run.tokenizers.encode_source(SENTENCE)
    costs = head_costs(checkpoint.model, source, trace.target_ids)

    app.open(q=SENTENCE, rank="true")
    app.wait("() => document.querySelector('.st-key-costs .heatmaplayer')")
    drawn = app.drawn("costs")
    for place, kind in enumerate(KINDS):
        np.testing.assert_allclose(drawn[:, 5 * place : 5 * place + 4], costs[kind], atol=1e-4)

    app.click_in("costs", 3.5 / 14, 0.5)
    app.expect_drawn("large", trace.attention["encoder_self"][1, 3])


def test_a_link_switches_heads_off_and_another_run_forgets_them(app: App, run: Run) -> None:
    """The head does not exist in the other run, which has two layers."""
    off = (("cross", 2, 0), ("cross", 2, 1), ("cross", 1, 3))
    checkpoint = load_weights(run, run.steps()[-1])
    without = run_trace(checkpoint.model, run.tokenizers, SENTENCE, switched_off=off)

    app.open(q=SENTENCE, off=["Cross 3.1", "Cross 3.2", "Cross 2.4"])
    app.expect_text("without", without.target_text)
    app.pick("run", "copy")
    app.expect_text("translation", "c a f e b d g a c e")
    assert app.page.locator(".st-key-without").count() == 0


def test_rollout_without_special_tokens_is_drawn(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(run.steps()[-1], SENTENCE)
    app.open(q=SENTENCE, show="rollout", special="false", renormalised="true")
    grid = make_grid(trace, "cross", Reading(special=False, renormalised=True))
    app.expect_drawn("large", grid.apply(rolled_out(trace, "cross", 2)))
    app.expect_labels("large", "x", grid.columns)
    app.choose("cells", "weight × value norm")
    app.expect_drawn("large", grid.apply(rolled_out(trace, "cross", 2, "value norm")))
