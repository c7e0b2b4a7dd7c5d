"""Pages are what the address says, and what is pointed at lights up wherever else it is drawn.

All choices are made without a browser in ``tests/viz_app/pages/test_links.py``, and at random by
``tests/robustness/walk.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.embeddings import cosine_similarity
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.figures.theme import DARK, LIGHT
from headwise.viz_app.inside.steps.follow import follow_head
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.layer import run_layer_trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import App, NewApp, asked, contrast_to_ground, rgb
from tests.floats import printed, rounding

SENTENCE = "We saw three black cats on the white roof."
OLD, TARGET = "The old woman did not open the window.", "La anciana no abrió la ventana."
LINK = {"q": OLD, "target": TARGET, "kind": "encoder_self", "layer": "2", "head": "3"}


def test_going_back_shows_one_view_after_another(new_app: NewApp) -> None:
    app = new_app(fresh=True)
    app.open(q=SENTENCE)
    app.choose(head="2")
    app.expect_address(head="2")
    app.go_to("Inside a head")
    app.expect_address(head="2")
    app.choose(head="3")
    app.expect_address(head="3")
    for path, head in (("/inside", "2"), ("/", "2"), ("/", None)):
        app.page.go_back()
        app.expect_address(head=head)
        assert urlsplit(app.page.url).path == path
        app.expect_chosen(head=head or "1")
    app.page.go_forward()
    app.expect_chosen(head="2")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.release)])
def test_every_page_is_drawn_as_the_link_says(
    new_app: NewApp, run: TrainedRun, trace_at: Callable[..., Trace], scheme: str
) -> None:
    step, theme = run.steps()[-2], {"light": LIGHT, "dark": DARK}[scheme]
    trace = trace_at(step, OLD, tuple(run.tokenizers.encode_target(TARGET)))
    layer = run_layer_trace(load_weights(run, step).model, trace, "encoder_self", layer=1)
    steps = follow_head(layer.attention, head=2, row=0)
    stages = np.stack([steps.products, steps.scaled, steps.masked])
    tokens = trace.source_embedding.tokens
    similarity = cosine_similarity(tokens, tokens)
    last = load_weights(run, run.steps()[-1]).model
    later = run_trace(last, run.tokenizers, OLD, trace.target_ids)
    first, second = (each.attention["encoder_self"][1, 2] for each in (trace, later))
    pages = (
        ("Translate", {}, "large", first),
        ("Model", {"section": "Masks & checks"}, "causal", np.tri(len(trace.consumed))),
        ("Inside a head", {"inside": "2 Scores, softmax"}, "stages", stages),
        ("Model", {"section": "Neighbours"}, "similarity", similarity),
        ("Training", {"training": "compare", "shared": "own"}, "difference", second - first),
    )
    app = new_app(color_scheme=scheme)
    app.open(step=step, **LINK)
    seen = pages if scheme == "light" else pages[:2]  # what has colours of its own
    for place, (title, choices, key, cells) in enumerate(seen):
        if place:
            app.go_to(title)
            app.choose(**choices)
        largest = float(np.nanmax(np.abs(cells), initial=1, where=np.isfinite(cells)))
        app.expect_drawn(key, cells, tolerance=rounding(np.float32, largest))
        app.expect_address(**(LINK | {"step": str(step)}))
        expect(app.page.locator(".stAlert")).to_have_count(0)
        undescribed = app.page.locator(
            ":is(.stPlotlyChart, .heat_map):not([aria-label]):not(:has([aria-label]))"
        )
        expect(undescribed).to_have_count(0)
        if key == "causal":
            masked = app.page.locator(".padding td.masked").first
            expect(masked).to_have_css("background-color", rgb(theme.masked))
            expect(masked).to_have_css("color", rgb(theme.text))
    app.go_to("Translate")
    app.expect_field("target", TARGET)
    app.expect_text("translation", TARGET)
    for axis in "xy":
        app.expect_labels("large", axis, token_labels(trace.source))

    for place in (".st-key-large .xtick", ".st-key-large .ytick", ".st-key-mosaic .ytick"):
        contrast, ground = contrast_to_ground(app.page.locator(f"{place} text").first)
        assert contrast >= 4.5
        assert ground < 0.1 if scheme == "dark" else ground > 0.9


LIT = """() => {
    const inside = (key) => document
        .querySelector(`.st-key-${key} [data-testid="stBidiComponentIsolated"]`).shadowRoot;
    const [large, mosaic] = ['large', 'mosaic'].map((key) =>
        document.querySelector(`.st-key-${key} .heat_map`));
    const sheet = large.querySelector('image').getBoundingClientRect();
    const bands = [...large.querySelectorAll('.lit > path')].map((band) => {
        const {top, left, width, height} = band.getBoundingClientRect();
        return width > height
            ? `row ${Math.round((top - sheet.top) / height)}`
            : `column ${Math.round((left - sheet.left) / width)}`;
    });
    const tokens = ['source', 'target'].flatMap((side) => {
        return [...inside(`${side}_tokens`).querySelectorAll('button.lit')]
            .map((each) => `${side} ${each.dataset.place}`);
    });
    const small = document.querySelectorAll('.small-map .lit').length;
    const inHeads = mosaic.querySelectorAll('.lit > path').length;
    return [...bands, ...tokens, `${inHeads} in all heads`, `${small} in the small map`];
}"""


@pytest.fixture
def app(new_app: NewApp) -> App:
    return new_app(viewport={"width": 1280, "height": 800})


@pytest.fixture
def sent(app: App) -> list[bytes]:
    """Open a sentence; return what the page sends from then on."""
    sent = app.frames("framesent")
    app.open("/translate", run="en-es", q=SENTENCE, kind="cross")
    app.page.locator(".st-key-inspector img").first.wait_for()
    app.rest()
    sent.clear()
    return sent


def centre(app: App, rows: int, columns: int, row: int, column: int) -> tuple[float, float]:
    left, top, width, height = app.box(".st-key-large .heat_map image:first-of-type")
    return left + (column + 0.5) * width / columns, top + (row + 0.5) * height / rows


def test_a_cell_lights_its_tokens_and_a_token_its_row_without_the_server(
    app: App, sent: list[bytes]
) -> None:
    rows, columns = app.read("large", "[gd._fullData[0].z.length, gd._fullData[0].z[0].length]")
    app.page.mouse.move(*centre(app, rows, columns, 3, 5))
    lit = ["row 3", "column 5", "source 5", "target 3", "2 in all heads", "2 in the small map"]
    app.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert app.page.evaluate(f"({LIT})()") == lit  # in the frame after the pointer came
    tip = app.page.locator(".st-key-large .tip")
    weight = app.read("large", "gd._fullData[0].z[3][5]")
    shown = printed("weight {:#.3g}", weight, dtype=np.float32, size=1)
    assert tip.locator("div").last.inner_text() in shown
    assert tip.bounding_box()
    app.page.locator(".st-key-target_tokens button").nth(2).hover()
    app.expect(LIT, ["row 2", "target 2", "1 in all heads", "1 in the small map"])
    app.page.locator(".st-key-source_tokens button").nth(1).focus()
    app.page.keyboard.press("ArrowRight")
    app.expect(LIT, ["column 2", "source 2", "1 in all heads", "1 in the small map"])
    app.page.mouse.move(2, 2)
    assert tip.bounding_box() is None
    app.page.locator(".st-key-source_tokens button").nth(2).blur()
    app.expect(LIT, ["0 in all heads", "0 in the small map"])
    assert asked(sent) == []


def test_a_head_under_the_pointer_is_seen_large(app: App, sent: list[bytes]) -> None:
    app.hover_in("mosaic", 0.9, 0.1)
    name = app.page.locator(".st-key-large .preview")
    name.wait_for()
    layers, heads = app.read(
        "mosaic", "[gd.layout.yaxis, gd.layout.xaxis].map(a => a.tickvals.length)"
    )
    assert name.inner_text() == f"layer 1 · head {heads}"
    assert layers > 1
    app.page.mouse.move(2, 2)
    name.wait_for(state="hidden")
    assert asked(sent) == []
