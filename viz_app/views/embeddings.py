"""The page Embeddings & positions: what enters the model before any attention."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from viz_app.analysis.labels import piece_label, piece_labels
from viz_app.analysis.similarity import cosine_similarity, nearest_neighbours
from viz_app.figures.charts import cosines
from viz_app.figures.maps import similarity_map, vector_map
from viz_app.records import InputEmbedding, Tokens
from viz_app.views._session import (
    Selection,
    choose_one,
    embedding_table,
    problems_in_place,
    show_figure,
    trace_of,
)

_PARTS = {
    "tokens": "Token embeddings",
    "positions": "Positional encodings",
    "total": "Their sum, which enters the first layer",
}
_PARTS_NOTES = {
    "tokens": "A row a piece: its learned embedding times √D = {scale:.1f}.",
    "positions": "A row a position: PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the "
    "same). They are the same for every sentence; drawn from -1 to 1.",
    "total": "Token embedding plus positional encoding, on the scale of the first map.",
}


def page(selection: Selection) -> None:
    """Draw the page."""
    with problems_in_place():
        trace = trace_of(selection.run, selection.step, selection.text)
        side = choose_one(
            "Side",
            ["source", "target"],
            key="side",
            default="source",
            help="The source enters the encoder; the target, from <s> on, enters the decoder.",
        )
        tokens, embedding = (
            (trace.source, trace.source_embedding)
            if side == "source"
            else (trace.consumed, trace.target_embedding)
        )
        _show_input(selection, tokens, embedding)
        left, right = st.columns(2, gap="large")
        with left:
            _show_similarity(selection, tokens, embedding)
        with right:
            _show_neighbours(selection, tokens, side)


def _show_input(selection: Selection, tokens: Tokens, embedding: InputEmbedding) -> None:
    labels = piece_labels(tokens)
    parts = vars(embedding)
    # One scale for what is compared, before and after; positions have their own, from -1 to 1.
    common = float(max(np.abs(parts[name]).max() for name in ("tokens", "total")))
    scale = math.sqrt(selection.run.info.model.d_model)
    for name, title in _PARTS.items():
        st.markdown(f"##### {title}")
        rows = [f"{i}: {label}" for i, label in enumerate(labels)]
        limit = 1.0 if name == "positions" else common
        figure = vector_map(parts[name], labels=rows, limit=limit, theme=selection.theme)
        show_figure(figure, key=name)
        st.caption(_PARTS_NOTES[name].format(scale=scale))


def _show_similarity(selection: Selection, tokens: Tokens, embedding: InputEmbedding) -> None:
    st.markdown("##### Similarity of the sentence's pieces")
    part = choose_one(
        "Of",
        ["tokens", "total"],
        key="similarity_of",
        default="tokens",
        format_func=lambda name: {"tokens": "embeddings", "total": "embeddings + positions"}[name],
    )
    vectors = getattr(embedding, part)
    similarity = cosine_similarity(vectors, vectors)
    labels = piece_labels(tokens)
    figure = similarity_map(similarity, labels=labels, theme=selection.theme, width=440)
    show_figure(figure, key="similarity")
    st.caption("Cosine of the angle between two vectors: 1 for the same direction, 0 for none.")


def _show_neighbours(selection: Selection, tokens: Tokens, side: str) -> None:
    st.markdown("##### Nearest neighbours of a piece")
    labels = piece_labels(tokens)
    at = st.selectbox(
        "Piece",
        range(len(tokens)),
        format_func=lambda i: f"{i}: {labels[i]}",
        key="piece",
    )
    table = embedding_table(selection.run, selection.step, side)
    counts = selection.run.counts
    seen = np.array(counts.source if side == "source" else counts.target) > 0
    found = nearest_neighbours(table, tokens.ids[at], count=12, among=seen)
    tokenizer = getattr(selection.run.tokenizers, side)
    names = [piece_label(piece) for piece in tokenizer.pieces(found.ids.tolist())]
    show_figure(cosines(names, found.cosine.tolist(), theme=selection.theme), key="neighbours")
    st.caption(
        f"By cosine of the embeddings, among pieces that the training data has on the {side} side."
    )
