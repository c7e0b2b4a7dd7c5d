"""The page Embeddings & positions draws what a trace computed here says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from model.checkpoint import Run, load_weights
from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.analysis.similarity import cosine_similarity, nearest_neighbours
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
    tokens, embedding = trace.source, trace.source_embedding
    app.expect_drawn("total", embedding.total)
    if side == "target":
        app.choose("side", side)
        tokens, embedding = trace.consumed, trace.target_embedding
    labels = piece_labels(tokens)
    for part, vectors in vars(embedding).items():
        app.expect_drawn(part, vectors, tolerance=1e-5)
        app.expect_labels(part, "y", [f"{at}: {label}" for at, label in enumerate(labels)])
    app.expect_drawn("similarity", cosine_similarity(embedding.tokens, embedding.tokens))
    app.expect_labels("similarity", "x", labels)
    app.expect_labels("similarity", "y", labels)
    app.choose("similarity_of", "embeddings + positions")
    app.expect_drawn("similarity", cosine_similarity(embedding.total, embedding.total))


def test_the_neighbours_of_a_chosen_piece_are_listed(
    app: App, run: Run, trace_at: Callable[..., Trace]
) -> None:
    step = run.steps()[-1]
    tokens = trace_at(step, SENTENCE).source
    model = load_weights(run, step).model
    table = model.encoder.embedding.table.weight.numpy(force=True)
    seen = np.array(run.counts.source) > 0
    app.open("/embeddings", q=SENTENCE)
    for at in (0, 4):
        if at:
            app.pick("piece", f"{at}: {piece_labels(tokens)[at]}")
        found = nearest_neighbours(table, tokens.ids[at], count=12, among=seen)
        app.expect_drawn("neighbours", found.cosine, values="x", tolerance=1e-5)
        pieces = run.tokenizers.source.pieces(found.ids.tolist())
        app.expect_labels("neighbours", "y", [piece_label(piece) for piece in pieces])
