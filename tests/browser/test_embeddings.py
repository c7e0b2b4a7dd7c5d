"""The page Embeddings & positions draws what a trace computed here says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from playwright.sync_api import expect

from headwise.model.checkpoint import TrainedRun, load_weights
from headwise.viz_app.analysis.embeddings import cosine_similarity, nearest_neighbours
from headwise.viz_app.analysis.labels import token_labels, vocabulary_labels
from headwise.viz_app.analysis.positions import encodings, similarity_by_distance
from headwise.viz_app.records.trace import Trace
from tests.browser.driver import TEXTS
from tests.floats import rounding

if TYPE_CHECKING:
    from tests.browser.driver import App

SENTENCE = "Mr. Smith was born in London in 1950."


def test_input_similarity_and_positions_are_drawn(
    app: App, newest: int, trace_at: Callable[..., Trace]
) -> None:
    trace = trace_at(newest, SENTENCE)
    labels = token_labels(trace.consumed)
    app.open("/embeddings", q=SENTENCE, side="target")
    for part, vectors in vars(trace.target_embedding).items():
        off = rounding(np.float32, float(np.abs(vectors).max()))
        app.expect_drawn(part, vectors, tolerance=off)
        app.expect_labels(part, "y", [f"{at}: {label}" for at, label in enumerate(labels, 1)])

    app.choose(section="similarity", similarity_of="layer 3")
    stream = trace.decoder_stream[3]
    app.expect_drawn("similarity", cosine_similarity(stream, stream))
    for axis in "xy":
        app.expect_labels("similarity", axis, labels)

    app.choose(section="positions")
    encoded = encodings(np.arange(50), 192)
    once = rounding(np.float32, 1, operations=1)  # both are rounded to float32 in the end
    app.expect_drawn("encodings", encoded, tolerance=once)
    products = similarity_by_distance(50, 192)
    off = rounding(np.float32, 192 / 2)
    app.expect_drawn("distances", products, values="y", tolerance=off)
    dots = "gd._fullData.slice(5).map(trace => trace.y)"
    app.expect_read("waves", dots, encoded[:, [0, 1, 24, 48, 96]].T, once)
    legend = app.page.locator(".waves > div").evaluate_all(TEXTS)
    assert legend[-1] == "PE(pos, 96) = sin(pos / 100) wavelength 628"


def test_neighbours_of_any_token_are_listed_and_a_word_that_is_none_says_so(
    app: App, run: TrainedRun, newest: int, trace_at: Callable[..., Trace]
) -> None:
    tokens = trace_at(newest, SENTENCE).source
    source = run.tokenizers.source
    table = load_weights(run, newest).model.encoder.embedding.table.weight.numpy(force=True)
    seen = np.array(run.counts.source) > 0
    labels = vocabulary_labels(source.tokens(range(len(table))), spaced=True)
    [doctor] = source.encode("doctor")
    assert doctor not in tokens.ids
    app.open("/embeddings", q=SENTENCE, section="similarity")
    for id in (tokens.ids[0], doctor):
        if id == doctor:
            app.pick("token", labels[id])
        found = nearest_neighbours(table, id, count=12, among=seen)
        app.expect_drawn("neighbours", found.cosine, values="x")
        app.expect_labels("neighbours", "y", [labels[other] for other in found.ids])

    typed = "zigzagging <b>"
    app.enter("token", typed)
    read = " ".join(vocabulary_labels(source.tokens(source.encode(typed)), spaced=True))
    message = app.page.get_by_test_id("stAlert")
    expect(message).to_have_text(
        f"“{typed}” is no token of this vocabulary: it is read as {read}; choose one of the list"
    )
    app.pick("token", "doctor")
    expect(message).to_have_count(0)
