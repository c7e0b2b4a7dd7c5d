"""The page Embeddings & positions draws what a trace computed here says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from playwright.sync_api import expect

from model.checkpoint import Run, load_weights
from viz_app.analysis.labels import piece_labels
from viz_app.analysis.positions import encodings, similarity_by_distance
from viz_app.analysis.similarity import cosine_similarity, nearest_neighbours
from viz_app.analysis.vocabulary import vocabulary_labels
from viz_app.records import Trace

if TYPE_CHECKING:
    from tests.browser.conftest import App

SENTENCE = "Mr. Smith was born in London in 1950."


@pytest.mark.parametrize("side", ["source", "target"])
def test_what_enters_the_model_is_drawn(
    app: App, run: Run, trace_at: Callable[..., Trace], side: str
) -> None:
    trace = trace_at(run.steps()[-1], SENTENCE)
    app.open("/embeddings", q=SENTENCE)
    tokens, embedding, stream = trace.source, trace.source_embedding, trace.encoder_stream
    app.expect_drawn("total", embedding.total)
    if side == "target":
        app.choose("side", side)
        tokens, embedding, stream = trace.consumed, trace.target_embedding, trace.decoder_stream
    labels = piece_labels(tokens)
    for part, vectors in vars(embedding).items():
        app.expect_drawn(part, vectors, tolerance=1e-5)
        app.expect_labels(part, "y", [f"{at}: {label}" for at, label in enumerate(labels)])
    app.choose("room", "similarity")
    app.expect_drawn("similarity", cosine_similarity(embedding.tokens, embedding.tokens))
    app.expect_labels("similarity", "x", labels)
    app.expect_labels("similarity", "y", labels)
    app.choose("similarity_of", "embeddings + positions")
    app.expect_drawn("similarity", cosine_similarity(embedding.total, embedding.total))
    app.choose("similarity_of", "layer 3")
    app.expect_drawn("similarity", cosine_similarity(stream[3], stream[3]), tolerance=1e-5)


def test_the_neighbours_of_any_token_are_listed(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[-1]
    tokens = trace_at(step, SENTENCE).source
    model = load_weights(run, step).model
    table = model.encoder.embedding.table.weight.numpy(force=True)
    seen = np.array(run.counts.source) > 0
    labels = vocabulary_labels(run.tokenizers.source.pieces(range(len(table))), spaced=True)
    app.open("/embeddings", q=SENTENCE, room="similarity")
    [doctor] = run.tokenizers.source.encode("doctor")
    assert doctor not in tokens.ids
    for id in (tokens.ids[0], tokens.ids[4], doctor):
        if id != tokens.ids[0]:
            app.pick("token", labels[id])
        found = nearest_neighbours(table, id, count=12, among=seen)
        app.expect_drawn("neighbours", found.cosine, values="x", tolerance=1e-5)
        app.expect_labels("neighbours", "y", [labels[other] for other in found.ids])


def test_a_word_that_is_no_token_says_how_it_is_read(app: App, run: Run) -> None:
    app.open("/embeddings", q=SENTENCE, room="similarity")
    typed = "zigzagging <b>"
    field = app.page.locator(".st-key-token input")
    field.fill(typed)
    field.press("Enter")
    source = run.tokenizers.source
    labels = vocabulary_labels(source.pieces(source.encode(typed)), spaced=True)
    message = app.page.get_by_test_id("stAlert")
    expect(message).to_have_text(
        f"“{typed}” is no token of this vocabulary: it is read as {' '.join(labels)}; choose one "
        "of the list"
    )
    app.pick("token", "doctor")
    expect(message).to_have_count(0)


def test_positions_are_drawn_as_map_waves_and_curve(app: App) -> None:
    app.open("/embeddings", q=SENTENCE, room="positions")
    encoded = encodings(np.arange(50), 192)
    app.expect_drawn("encodings", encoded)
    app.expect_drawn("distances", similarity_by_distance(50, 192), values="y", tolerance=1e-4)
    assert app.read("waves", "gd._fullData.length") == 10
    dots = app.read("waves", "gd._fullData.slice(5).map(trace => Array.from(trace.y))")
    np.testing.assert_allclose(np.array(dots).T, encoded[:, [0, 1, 24, 48, 96]], atol=1e-6)
    legend = app.page.locator(".waves > div").all_text_contents()
    assert legend[-1] == "PE(pos, 96) = sin(pos / 100) wavelength 628"
