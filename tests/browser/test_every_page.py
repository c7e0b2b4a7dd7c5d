"""Every page draws what the analysis says in both themes, and choices go along to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.embeddings import cosine_similarity
from headwise.viz_app.analysis.inside import follow_head
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.floats import rounding

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "The old woman did not open the window."
LONG = "I am hungry and I would like to eat something now, please."
TARGET = "La anciana no abrió la ventana."
LINK = {
    "q": SENTENCE,
    "target": TARGET,
    "kind": "encoder_self",
    "layer": "2",
    "head": "3",
}
LUMINANCE = """element => {
    const channels = getComputedStyle(element)[element.ownerSVGElement ? 'fill' : 'backgroundColor']
        .match(/[\\d.]+/g).slice(0, 3).map(value => value / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
}"""
"""Relative luminance of an element's colour (WCAG 2.2)."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_drawn_as_the_link_says(
    new_app: Callable[..., App], run: TrainedRun, trace_at: Callable[..., Trace], scheme: str
) -> None:
    step = run.steps()[-2]
    trace = trace_at(step, SENTENCE, tuple(run.tokenizers.encode_target(TARGET)))
    layer = run_layer_trace(load_weights(run, step).model, trace, "encoder_self", layer=1)
    steps = follow_head(layer.attention, head=2, row=0)
    stages = np.stack([steps.products, steps.scaled, steps.masked])
    tokens = trace.source_embedding.tokens
    similarity = cosine_similarity(tokens, tokens)
    last = load_weights(run, run.steps()[-1]).model
    later = run_trace(last, run.tokenizers, SENTENCE, trace.target_ids)
    first, second = (each.attention["encoder_self"][1, 2] for each in (trace, later))
    pages = (
        ("Translate", {}, "large", first),
        ("Inside a head", {}, "stages", stages),
        ("Architecture", {}, "causal", np.tri(len(trace.consumed))),
        ("Embeddings & positions", {"section": "similarity"}, "similarity", similarity),
        ("Training", {"training": "compare", "shared": "own"}, "difference", second - first),
        ("Translate", {}, "large", first),
    )
    app = new_app(color_scheme=scheme)
    app.open(step=step, **LINK)
    for place, (title, choices, key, cells) in enumerate(pages):
        if place:
            app.go_to(title)
            app.choose(**choices)
        largest = float(np.nanmax(np.abs(cells), initial=1, where=np.isfinite(cells)))
        app.expect_drawn(key, cells, tolerance=rounding(np.float32, largest))
        app.expect_address(**(LINK | {"step": str(step)}))
        expect(app.page.locator(".stAlert")).to_have_count(0)
        undescribed = app.page.locator(".stPlotlyChart:not([aria-label]):not(:has([aria-label]))")
        expect(undescribed).to_have_count(0)
    app.expect_field("target", TARGET)
    app.expect_text("translation", TARGET)

    ground = app.page.locator(".stApp").evaluate(LUMINANCE)
    assert ground < 0.1 if scheme == "dark" else ground > 0.9
    for place in (".st-key-large .xtick", ".st-key-large .ytick", ".st-key-mosaic .ytick"):
        low, high = sorted((app.page.locator(f"{place} text").first.evaluate(LUMINANCE), ground))
        assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("path", "choices", "width", "place"),
    [
        ("/architecture", {"q": LONG}, 1280, ".st-key-alone .padding"),
        ("/training", {"training": "compare"}, 390, ".st-key-shared [role=radiogroup]"),
    ],
    ids=["a sentence alone in its batch", "three shared targets on a phone"],
)
def test_what_is_too_wide_wraps(
    new_app: Callable[..., App], path: str, choices: dict[str, str], width: int, place: str
) -> None:
    app = new_app(viewport={"width": width, "height": 4000})
    app.open(path, **choices)
    whole, seen = app.find(
        "place => visible(place).map(each => [each.scrollWidth, each.clientWidth])[0]", place
    )
    assert whole == seen
