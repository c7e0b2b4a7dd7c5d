"""What lies close to what: the pieces of the sentence, the neighbours of a token, closest pairs."""

from __future__ import annotations

import streamlit as st

from viz_app.analysis.labels import piece_labels
from viz_app.analysis.similarity import (
    Pairs,
    cosine_similarity,
    mean_between,
    nearest_neighbours,
    similar_pairs,
)
from viz_app.figures.charts import cosines
from viz_app.figures.maps import similarity_map
from viz_app.records import Floats
from viz_app.views._session import Selection
from viz_app.views._widgets import begin_with, choose_one, panel, plain, show_figure
from viz_app.views.address import check_asked
from viz_app.views.embeddings.side import (
    TOKEN_HELP,
    Side,
    Vocabulary,
    find_token,
    show_heading,
    tokens_first,
    vocabulary_of,
)

_NEIGHBOURS, _PAIRS = 12, 300
_LEAST_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_MOST_BESIDE = 30
"""Pieces of a map that still leaves room beside it."""


@panel("similarity")
def show_similarity(selection: Selection, side: Side) -> None:
    """The cosines of the sentence's pieces, from the embeddings on and up through the layers."""
    show_heading("Similarity of the sentence's pieces")
    layers = len(side.stream) - 1
    names = {"tokens": "embeddings", "total": "embeddings + positions"}
    names |= {str(layer): f"layer {layer}" for layer in range(1, layers + 1)}
    labels = piece_labels(side.tokens)
    part = choose_one(
        "Of",
        list(names),
        key="similarity_of",
        default="tokens",
        format_func=names.__getitem__,
        help="What enters the first layer, without and with positions, or the stream after a layer "
        f"of the {'encoder' if side.name == 'source' else 'decoder'}.",
    )
    vectors = side.stream[int(part)] if part.isdecimal() else getattr(side.embedding, part)
    similarity = cosine_similarity(vectors, vectors)
    note = "Cosine of the angle between two vectors: 1 for the same direction, 0 for none."
    if len(labels) > 1:
        note += f" Of two different places it is {mean_between(similarity):.2f} on average."
    note += (
        " The embeddings of a piece that occurs twice are the same; positions, and layer by layer "
        "its context, make them differ."
    )
    beside = len(labels) <= _MOST_BESIDE
    words, picture = st.columns([2, 3], gap="large") if beside else (st.container(),) * 2
    words.caption(note)
    with picture:
        figure = similarity_map(
            similarity, labels=labels, theme=selection.theme, width=440 if beside else 900
        )
        show_figure(figure, key="similarity", alt=f"Cosines of {len(labels)} pieces. {note}")


@panel("neighbours")
def show_neighbours(selection: Selection, side: Side) -> None:
    """The tokens nearest to one of the vocabulary."""
    show_heading("Nearest neighbours of a token")
    vocabulary = vocabulary_of(selection, side.name)
    words, picture = st.columns([2, 3], gap="large")
    with words:
        begin_with("token", side.tokens.ids[0], of=(selection.run.info.name, side.tokens.ids))
        chosen: int | str = st.selectbox(
            f"Token, of {len(vocabulary.labels):,}",
            tokens_first(side.tokens, vocabulary),
            format_func=lambda id: vocabulary.labels[id] if isinstance(id, int) else id,
            key="token",
            accept_new_options=True,
            help=TOKEN_HELP,
        )
        own = vocabulary.source if side.name == "source" else vocabulary.target
        seen, among = own > 0, f"on the {side.name} side"
        if vocabulary.shared:
            where = choose_one(
                "Among tokens that occur",
                ["this side", "either side"],
                key="among",
                default="this side",
                format_func=lambda w: {"this side": f"on the {side.name} side"}.get(w, f"on {w}"),
            )
            if where == "either side":
                seen, among = vocabulary.counts > 0, "on either side"
        id = find_token(selection, vocabulary, chosen)
        st.caption(
            f"{plain(vocabulary.labels[id])}: {_occurrences(vocabulary, id)} in the training data. "
            f"Neighbours by cosine in {vocabulary.name}, among tokens that the training data has "
            f"{among}."
        )
    with picture:
        found = nearest_neighbours(vocabulary.table, id, count=_NEIGHBOURS, among=seen)
        labels = [vocabulary.labels[other] for other in found.ids]
        if not labels:
            st.caption("There is no other token to compare it with.")
            return
        values = ", ".join(
            f"{label} {value:.2f}" for label, value in zip(labels, found.cosine, strict=True)
        )
        show_figure(
            cosines(labels, found.cosine.tolist(), theme=selection.theme),
            key="neighbours",
            alt=f"Nearest to {vocabulary.labels[id]}: {values}",
        )


def _occurrences(vocabulary: Vocabulary, id: int) -> str:
    source, target = int(vocabulary.source[id]), int(vocabulary.target[id])
    if vocabulary.shared:
        return f"{_times(source)} on the source side and {_times(target)} on the target side"
    return _times(source + target)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


@panel("pairs")
def show_pairs(selection: Selection, side: Side) -> None:
    """The most similar tokens of the vocabulary."""
    show_heading("Most similar pairs of the vocabulary")
    vocabulary = vocabulary_of(selection, side.name)
    words, table = st.columns([2, 3], gap="large")
    with words:
        written = [f"{count:,}" for count in _LEAST_COUNTS]
        check_asked("least", "Each occurs at least so often in training", written.__contains__)
        least = st.select_slider(
            "Each occurs at least so often in training",
            _LEAST_COUNTS,
            value=10,
            format_func=lambda count: f"{count:,}",
            key="least",
            bind="query-params",
        )
        enough = int((vocabulary.counts >= least).sum())
        total = enough * (enough - 1) // 2
        st.caption(
            f"Of the {total:,} pairs of {enough:,} tokens the {min(_PAIRS, total)} with the "
            f"largest cosine, in {vocabulary.name}. Click the head of a column to sort by it. "
            "Tokens that hardly occur have hardly moved from where they began, all alike: let them "
            "in, and the pairs they make say more of that than of meaning."
        )
    counts = vocabulary.counts
    pairs = _pairs(vocabulary.weights, "" if vocabulary.shared else side.name, least, vocabulary)
    with table:
        if not len(pairs.cosine):
            st.info(f"Fewer than two tokens occur {least:,} times: choose a smaller number.")
            return
        st.dataframe(
            {
                "token": [vocabulary.labels[id] for id in pairs.first],
                "other token": [vocabulary.labels[id] for id in pairs.second],
                "cosine": pairs.cosine,
                "token occurs": counts[pairs.first],
                "other occurs": counts[pairs.second],
            },
            hide_index=True,
            height=420,
            column_config={"cosine": st.column_config.NumberColumn(format="%.3f")},
            key="pairs",
        )


@st.cache_resource(max_entries=16, show_spinner=False)
def _pairs(sha256: str, side: str, least: int, _vocabulary: Vocabulary) -> Pairs:
    table: Floats = _vocabulary.table
    return similar_pairs(table, count=_PAIRS, among=_vocabulary.counts >= least)
