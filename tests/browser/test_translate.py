"""The page Translate draws what a trace computed here says, whatever is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from model.checkpoint import Run, load_weights
from model.decoding import greedy
from viz_app.analysis.attention import aggregate_heads, max_pool
from viz_app.analysis.grid import Reading, make_grid
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.records import KINDS, Floats, Kind, Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SHORT = "We saw three black cats on the white roof."
LONG = (
    "When the old teacher came back to the small village by the river, the children asked him "
    "why he had left without saying goodbye, and he told them that he had been looking for his "
    "younger brother, who had lost his way in the snow."
)
IN_PARTS = "The acrobats unbuttoned their waistcoats."
NAMES = {"encoder_self": "Encoder self", "decoder_self": "Decoder self", "cross": "Cross"}
STEPS, MASKED, GAP = 250, 253, 255
QUANTISED = 1 / 499
"""A little more than half a step of the mosaic."""


@pytest.fixture
def newest(run: Run) -> int:
    """The step that the app chooses at first."""
    return run.steps()[-1]


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
    maps = heads_in(app.drawn("mosaic"), *pooled.shape[:2])
    assert maps.shape == pooled.shape
    masked = np.zeros(pooled.shape[-2:], dtype=bool)
    if kind == "decoder_self":
        masked = max_pool(np.tri(weights.shape[-1], dtype=np.float32)) == 0
    assert (maps[..., masked] == MASKED).all()
    np.testing.assert_allclose(
        (maps / STEPS)[..., ~masked], pooled[..., ~masked], rtol=0, atol=QUANTISED
    )


def expect_map(app: App, trace: Trace, kind: Kind, layer: int, head: int, **reading: Any) -> None:
    """The large map is that of a head, both counted from 0, with the labels of its tokens."""
    grid = make_grid(trace, kind, Reading(**reading))
    app.expect_drawn("large", grid.apply(trace.attention[kind])[layer, head])
    app.expect_labels("large", "y", grid.rows)
    app.expect_labels("large", "x", grid.columns)


def step_label(trace: Trace, at: int) -> str:
    """A step of decoding as the list of steps names it."""
    return (
        f"{at + 1}: after {piece_labels(trace.consumed)[at]}, {piece_labels(trace.predicted)[at]}"
    )


def expect_step(app: App, trace: Trace, at: int) -> None:
    """A step of decoding is chosen, and its likeliest pieces are those of the trace."""
    app.expect_text("at", step_label(trace, at), within="input", by="value")
    app.expect_drawn(
        "top_pieces", np.exp(trace.predictions.top_log_probability[at]), values="x", tolerance=1e-5
    )
    app.expect_labels("top_pieces", "y", [piece_label(piece) for piece in trace.top_pieces[at]])


@pytest.mark.parametrize("sentence", [SHORT, LONG], ids=["short", "long"])
def test_a_typed_sentence_is_translated_and_every_head_is_drawn(
    app: App, newest: int, trace_at: Callable[..., Trace], sentence: str
) -> None:
    trace = trace_at(newest, sentence)
    assert (len(trace.source) > 40) == (sentence == LONG)
    app.open()
    app.type(sentence)
    app.expect_text("translation", trace.target_text)
    assert app.page.locator(".tokens").all_text_contents()[:2] == [
        "".join(piece_labels(trace.source)),
        "".join(piece_labels(trace.predicted)),
    ]
    for kind in KINDS:
        app.choose("kind", NAMES[kind])
        expect_map(app, trace, kind, -1, 0)
        expect_mosaic(app, trace, kind)


def test_another_checkpoint_is_drawn_when_the_slider_moves(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    *_, older, newest = run.steps()
    app.open(q=SHORT)
    app.expect_text("translation", trace_at(newest, SHORT).target_text)
    app.press("step", "ArrowLeft")
    trace = trace_at(older, SHORT)
    expect_map(app, trace, "cross", -1, 0)
    expect_mosaic(app, trace, "cross")
    app.expect_text("translation", trace.target_text)
    expect_step(app, trace, 0)


def test_a_head_is_chosen_by_a_click_in_the_overview_and_by_the_widgets(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SHORT)
    layers, heads, rows, columns = trace.attention["cross"].shape
    app.open(q=SHORT)
    app.expect_text("translation", trace.target_text)
    app.choose("show", "max")
    app.expect_drawn("large", trace.attention["cross"][-1].max(axis=0))
    across, down = heads * (columns + 1) - 1, layers * (rows + 1) - 1
    app.click_in("mosaic", (2 * (columns + 1) + columns / 2) / across, (rows / 2) / down)
    expect_map(app, trace, "cross", 0, 2)
    chosen = {"layer": "1", "head": "3", "show": "one head"}
    assert {key: app.chosen(key) for key in chosen} == chosen
    app.choose("head", "2")
    expect_map(app, trace, "cross", 0, 1)
    app.choose("layer", "2")
    expect_map(app, trace, "cross", 1, 1)
    assert app.page.get_by_text("Cross, layer 2, head 2").is_visible()


def test_a_click_on_a_row_and_the_list_choose_the_step_of_decoding(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SHORT)
    steps = len(trace.consumed)
    app.open(q=SHORT)
    app.expect_text("translation", trace.target_text)
    expect_step(app, trace, 0)
    app.click_in("large", 0.5, 3.5 / steps, subplot="x2y")
    expect_step(app, trace, 3)
    app.pick("at", step_label(trace, steps - 1))
    expect_step(app, trace, steps - 1)


def test_words_rows_by_consumed_mean_and_max_change_how_maps_are_read(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, IN_PARTS)
    assert len(trace.source.words) < len(trace.source)
    app.open(q=IN_PARTS)
    app.expect_text("translation", trace.target_text)
    app.choose("rows", "consumed")
    expect_map(app, trace, "cross", -1, 0, lead="consumed")
    app.choose("units", "words")
    expect_map(app, trace, "cross", -1, 0, lead="consumed", units="words")
    app.choose("kind", "Decoder self")
    expect_map(app, trace, "decoder_self", -1, 0, lead="consumed", units="words")
    app.choose("rows", "predicted")
    expect_map(app, trace, "decoder_self", -1, 0, units="words")
    grid = make_grid(trace, "decoder_self", Reading(units="words"))
    words = grid.apply(trace.attention["decoder_self"])[-1]
    app.choose("show", "mean")
    app.expect_drawn("large", aggregate_heads(words, "mean"))
    app.choose("show", "max")
    app.expect_drawn("large", aggregate_heads(words, "max"))


def test_a_target_of_ones_own_is_forced_and_forked(
    app: App, run: Run, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """From a link; then, at the fifth step, another word is typed and the model goes on."""
    text = "Vimos a tres gatos en el techo."
    target = tuple(run.tokenizers.encode_target(text))
    app.open(q=SHORT, target=text)
    expect_map(app, trace_at(newest, SHORT, target), "cross", 2, 0)
    app.expect_text("translation", text)

    app.pick("at", step_label(trace_at(newest, SHORT, target), 4))
    field = app.page.locator(".st-key-fork input")
    field.fill("perros")
    field.press("Enter")
    prefix = [*target[:5], *run.tokenizers.target.encode("perros")]
    model = load_weights(run, newest).model
    [forked] = greedy(model, [run.tokenizers.encode_source(SHORT)], prefix)
    assert run.tokenizers.target.decode(forked).startswith("Vimos a tres perros")
    app.expect_text("forked", run.tokenizers.target.decode(forked))
