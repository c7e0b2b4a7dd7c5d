"""The page Translate draws what a trace computed here says; heads are chosen by a click."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import KINDS, Kind
from headwise.model.interventions import head_costs
from headwise.viz_app.analysis.attention import max_pool
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import TEXTS
from tests.floats import assert_near, rounding
from tests.shipped import SHIPPED

if TYPE_CHECKING:
    from tests.browser.driver import App

SHORT = "We saw three black cats on the white roof."
LONG = (
    "When the old teacher came back to the small village by the river, the children asked him "
    "why he had left without saying goodbye, and he told them that he had been looking for his "
    "younger brother, who had lost his way in the snow."
)
SIXTY_WORDS = " ".join([*LONG.split(), *LONG.split()][:60])
MAPS_ARE_HIGH_UP = """() => {
    const [mosaic] = visible('.st-key-mosaic');
    return everywhere('[aria-label^="Tokens of"]').length === 2
        && mosaic.getBoundingClientRect().top <= 0.45 * innerHeight;
}"""
SEEN_TOKENS = """() => {
    const all = everywhere('[aria-label^="Tokens of the source"] .token');
    return all.filter((_, place) => EACH).map((token) => {
        const [row, box] = [token.parentNode, token].map((each) => each.getBoundingClientRect());
        return box.left >= row.left - 1 && box.right <= row.right + 1;
    });
}"""
"""Which of some tokens of the source are not cut off."""
SENTENCES = {
    "de": "Zwei kleine Hunde rennen über die Wiese.",
    "en": "My sister zigzags to school.",
    "symbols": "b a d g e",
}
LANGUAGES = {"de": "German", "en": "English", "symbols": "symbols"}
STEPS, MASKED, GAP = 250, 253, 255
QUANTISED = 0.5 / STEPS + rounding(np.float32, 1)
"""Half a step of the mosaic, and another pass."""


def heads_in(cells: Floats, layers: int, heads: int) -> Floats:
    """The maps that a mosaic is made of, (rows, columns) → (L, H, Q, M), the gaps left out."""
    framed = np.pad(cells, ((0, 1), (0, 1)), constant_values=GAP)
    down, across = framed.shape[0] // layers, framed.shape[1] // heads
    maps = framed.reshape(layers, down, heads, across).swapaxes(1, 2)
    assert (maps[..., -1, :] == GAP).all()
    assert (maps[..., -1] == GAP).all()
    return maps[..., :-1, :-1]


def expect_mosaic(app: App, trace: Trace, kind: Kind) -> None:
    """Each head of the mosaic is its pooled map, but for the rounding."""
    weights = trace.attention[kind]
    pooled = max_pool(weights)
    maps = heads_in(np.array(app.read("mosaic", "gd._fullData[0].z")), *pooled.shape[:2])
    assert maps.shape == pooled.shape
    masked = np.zeros(pooled.shape[-2:], dtype=bool)
    if kind == "decoder_self":
        masked = max_pool(np.tri(weights.shape[-1], dtype=np.float32)) == 0
    assert (maps[..., masked] == MASKED).all()
    np.testing.assert_allclose(
        (maps / STEPS)[..., ~masked], pooled[..., ~masked], rtol=0, atol=QUANTISED
    )


def expect_map(app: App, trace: Trace, kind: Kind, layer: int, head: int) -> None:
    """The large map is that of a head, both counted from 0, with the labels of its tokens."""
    grid = make_grid(trace, kind)
    app.expect_drawn("large", grid.apply(trace.attention[kind])[layer, head])
    app.expect_labels("large", "y", grid.rows)
    app.expect_labels("large", "x", grid.columns)


def test_typed_sentence_is_translated_and_every_head_drawn(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, LONG)
    assert len(trace.source) > 40
    app.open()
    app.type(LONG)
    app.expect_text("translation", trace.target_text)
    for key, side in (("source_tokens", trace.source), ("target_tokens", trace.predicted)):
        assert app.page.locator(f".st-key-{key} bdi").evaluate_all(TEXTS) == token_labels(side)
    for kind in KINDS:
        app.choose(kind=kind)
        expect_map(app, trace, kind, -1, 0)
        expect_mosaic(app, trace, kind)


def test_a_long_sentence_leaves_the_maps_where_they_are_seen_first(app: App) -> None:
    """In the upper 45% of a laptop's screen."""
    app.page.set_viewport_size({"width": 1280, "height": 800})
    for asked in ({}, {"step": 0}, {"q": SIXTY_WORDS}, {"q": SIXTY_WORDS, "step": 0}):
        app.open(run="en-es", **asked)
        app.read("mosaic", "true")
        app.expect(MAPS_ARE_HIGH_UP, True)


def test_the_first_click_after_a_long_sentence_counts(new_app: Callable[..., App]) -> None:
    """Nothing moves away under the mouse when the field of the sentence is left."""
    app = new_app(viewport={"width": 1280, "height": 900})
    app.open()
    app.type(" ".join([SIXTY_WORDS] * 2))
    app.expect_address(q=" ".join([SIXTY_WORDS] * 2))
    app.choose(head="3")
    app.expect_address(head="3")


def test_every_token_of_a_long_sentence_is_reached(app: App) -> None:
    """By the arrow keys and by the mouse; the chosen one is in view at first."""
    app.open(q=SIXTY_WORDS, column=40, run="en-es")
    app.expect(SEEN_TOKENS.replace("EACH", "place === 40"), [True])
    row = app.page.locator(".st-key-source_tokens")
    tokens = row.get_by_role("button", pressed=False)
    tokens.first.focus()
    app.expect(SEEN_TOKENS.replace("EACH", "place === 0"), [True])
    app.page.keyboard.press("End")
    app.expect(SEEN_TOKENS.replace("EACH", "place === all.length - 1"), [True])
    count = len(app.find(SEEN_TOKENS.replace("EACH", "true")))
    row.get_by_role("button", name=f"show all {count}").click()
    app.expect(SEEN_TOKENS.replace("EACH", "true"), [True] * count)
    row.get_by_role("button", name="show one line").click()
    row.get_by_role("button", name=f"show all {count}").wait_for()


def test_clicks_in_overview_and_ranking_choose_a_head(
    app: App, run: TrainedRun, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SHORT)
    source = run.tokenizers.encode_source(SHORT)
    costs = head_costs(load_weights(run, newest).model, source, trace.target_ids)
    layers, heads, rows, columns = trace.attention["cross"].shape
    app.open(q=SHORT, rank="true", show="max")
    app.expect_text("translation", trace.target_text)
    app.expect_drawn("large", trace.attention["cross"][-1].max(axis=0))
    across, down = heads * (columns + 1) - 1, layers * (rows + 1) - 1
    app.click_in("mosaic", (2 * (columns + 1) + columns / 2) / across, (rows / 2) / down)
    expect_map(app, trace, "cross", 0, 2)
    app.expect_chosen(layer="1", head="3", show="one head")
    app.choose(head="2", layer="2")
    expect_map(app, trace, "cross", 1, 1)
    app.page.get_by_text("Cross, layer 2, head 2").wait_for()

    drawn = np.array(app.read("costs", "gd._fullData[0].z"), dtype=np.float64)
    whole = abs(float(trace.predictions.log_probability.sum()))
    for place, kind in enumerate(KINDS):
        found, cost = drawn[:, 5 * place : 5 * place + 4], costs[kind]
        size = whole + float(cost.abs().max())  # of the sums that a cost is a difference of
        assert_near(found, cost, dtype=np.float32, size=size)
    app.click_in("costs", 3.5 / 14, 0.5)  # of the encoder, layer 2, head 4
    expect_map(app, trace, "encoder_self", 1, 3)


def test_every_shipped_run_translates_and_each_language_keeps_its_sentence(app: App) -> None:
    """The newest checkpoint's text, and the last layer's first head of cross-attention."""
    app.open(run="en-es")
    typed: dict[str, str] = {}
    for name in SHIPPED:
        run = open_trained_run(name)
        language = run.info.source_language
        app.pick("run", name)
        app.expect_field("run", name)
        name = f"Sentence in {LANGUAGES[language]}"
        app.page.get_by_role("textbox", name=name, exact=True).wait_for()
        if language in typed:
            app.expect_field("sentence", typed[language])
        else:
            app.type(SENTENCES[language])
            typed[language] = SENTENCES[language]
        trace = run_trace(load_weights(run, run.steps()[-1]).model, run.tokenizers, typed[language])
        app.expect_text("translation", trace.target_text)
        app.choose(layer=str(len(trace.attention["cross"])))  # runs differ in depth
        expect_map(app, trace, "cross", -1, 0)
    assert len(typed) < len(SHIPPED)
