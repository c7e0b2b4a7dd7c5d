"""Every page opens on a link, in both themes, and draws what the analysis says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from model.checkpoint import Run, load_weights
from viz_app.analysis.inside import follow_head
from viz_app.analysis.similarity import cosine_similarity
from viz_app.layer_trace import run_layer_trace
from viz_app.records import Floats, Trace
from viz_app.trace import run_trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "The old woman did not open the window."
TARGET = "La anciana no abrió la ventana."
LINK = {
    "q": SENTENCE,
    "target": TARGET,
    "kind": "Encoder self",
    "layer": 2,
    "head": 3,
    "room": "similarity",
    "training": "compare",
    "shared": "your own",
}


def translate(trace: Trace, run: Run) -> tuple[str, Floats]:
    return "large", trace.attention["encoder_self"][1, 2]


def inside(trace: Trace, run: Run) -> tuple[str, Floats]:
    model = load_weights(run, run.steps()[-2]).model
    layer = run_layer_trace(model, trace, "encoder_self", layer=1)
    steps = follow_head(layer.attention, head=2, row=0)
    return "stages", np.stack([steps.products, steps.scaled, steps.masked]).astype(np.float32)


def flow(trace: Trace, run: Run) -> tuple[str, Floats]:
    return "causal", np.tri(len(trace.consumed), dtype=np.float32)


def embeddings(trace: Trace, run: Run) -> tuple[str, Floats]:
    tokens = trace.source_embedding.tokens
    return "similarity", cosine_similarity(tokens, tokens)


def training(trace: Trace, run: Run) -> tuple[str, Floats]:
    last = load_weights(run, run.steps()[-1]).model
    later = run_trace(last, run.tokenizers, SENTENCE, trace.target_ids)
    first, second = (each.attention["encoder_self"][1, 2] for each in (trace, later))
    return "difference", second - first


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", translate),
        ("/inside", inside),
        ("/flow", flow),
        ("/embeddings", embeddings),
        ("/training", training),
    ],
    ids=["translate", "inside", "flow", "embeddings", "training"],
)
def test_a_link_opens_a_page_as_it_was(
    new_app: Callable[..., App],
    run: Run,
    trace_at: Callable[..., Trace],
    scheme: str,
    path: str,
    expected: Callable[[Trace, Run], tuple[str, Floats]],
) -> None:
    step = run.steps()[-2]
    trace = trace_at(step, SENTENCE, tuple(run.tokenizers.encode_target(TARGET)))
    app = new_app(color_scheme=scheme)
    app.open(path, step=step, **LINK)
    key, cells = expected(trace, run)
    app.expect_drawn(key, cells, tolerance=1e-4)
    assert app.page.locator(".stException, .stAlert").count() == 0
    charts = app.page.locator(".stPlotlyChart")
    described = app.page.locator(".stPlotlyChart[aria-label], .stPlotlyChart [aria-label]")
    assert charts.count() > 0
    assert described.count() >= charts.count()
