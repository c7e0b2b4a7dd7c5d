"""Show which embeddings are similar: in the sentence, to one token, and in the vocabulary."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.viz_app.analysis.embeddings import (
    cosine_similarity,
    mean_pairwise_similarity,
    nearest_by_chance,
    nearest_neighbours,
    similar_pairs,
)
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.figures.bars import bar_chart
from headwise.viz_app.figures.maps import similarity_map
from headwise.viz_app.model.input import TraceSide
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.markdown import escape_markdown, table_cell
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.vocabulary import (
    TOKEN_HELP,
    SideVocabulary,
    choose_number,
    find_token,
    offered_in,
    token_name,
    vocabulary_of,
)
from headwise.viz_app.session.widgets import (
    choose_on_slider,
    choose_one,
    clicked_value,
    show_figure,
    show_heading,
)

_NEIGHBOURS, _PAIRS = 12, 300
"""Most neighbours of a token and most pairs that are shown."""
_LEAST_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
_NUMBERS, _FIRST_NUMBER = (500, 1_000, 2_000, 5_000, 10_000, 20_000), 5_000
_SHUFFLED_UNASKED = 4_000_000
"""Most numbers of a vocabulary that are shuffled unasked: a second shuffles some ten million."""
_RARE_NOTE = (
    "Of tokens that hardly occur a training learns little: let them in, and the pairs they make "
    "may say more of chance than of meaning."
)
_NOT_COUNTED = "How often tokens occur in the training data is not known of this model."
_MOST_BESIDE = 30
"""Most tokens of a map that has text beside it."""


def show_similar(selection: Selection, side: TraceSide) -> None:
    """Draw what is similar in the sentence, and below it in the vocabulary."""
    _show_similarity(selection, side)
    neighbours, pairs = st.columns(2, gap="large")
    with neighbours:
        _show_neighbours(selection, side)
    with pairs:
        _show_pairs(selection, side)


@panel("similarity")
def _show_similarity(selection: Selection, side: TraceSide) -> None:
    layers = len(side.stream) - 1
    names = {"tokens": "embeddings"}
    if side.embedding.positions is not None:
        names["total"] = "embeddings + positions"
    with_positions = ", without and with positions" * ("total" in names)
    names |= {str(layer): f"layer {layer}" for layer in range(1, layers + 1)}
    differ = (
        "positions, and layer by layer its context, make them differ."
        if with_positions
        else "layer by layer its context makes them differ."
    )
    stack = "encoder" if side.name == "source" else "decoder"
    about = "Cosine of the angle between two vectors: 1 for the same direction, 0 for none."
    show_heading(
        "Similarity of the sentence's tokens",
        f"Of what enters the first layer{with_positions}, or of the stream after a layer of the "
        f"{stack}. {about} The embeddings of a token that occurs twice are the same; {differ}",
    )
    labels = token_labels(side.tokens)
    beside = len(labels) <= _MOST_BESIDE
    words, picture = st.columns([2, 3], gap="large") if beside else (st.container(),) * 2
    with words:
        part = choose_one("Of", list(names), key="similarity_of", format_func=names.__getitem__)
        vectors = side.stream[int(part)] if part.isdecimal() else getattr(side.embedding, part)
        similarity = cosine_similarity(vectors, vectors)
        note = ""
        if len(labels) > 1:
            mean = mean_pairwise_similarity(similarity)
            note = f"Of two different places it is {mean:.2f} on average."
            st.caption(note)
    with picture:
        figure = similarity_map(
            similarity, labels=labels, theme=selection.theme, width=400 if beside else 900
        )
        show_figure(
            figure, key="similarity", alt=f"Cosines of {len(labels)} tokens. {about} {note}"
        )


@panel("neighbours")
def _show_neighbours(selection: Selection, side: TraceSide) -> None:
    vocabulary = vocabulary_of(selection, side.name)
    show_heading(
        "Nearest neighbours of a token",
        f"By cosine in {vocabulary.name}. Click one to look it up. "
        + ("Behind each, how often the training data has it." * vocabulary.counted or _NOT_COUNTED),
    )
    chosen: str = st.selectbox(
        f"Token, of {len(vocabulary.labels):,}",
        list(dict.fromkeys([*map(token_name, side.tokens.ids), *offered_in(vocabulary)])),
        format_func=vocabulary.written,
        accept_new_options=True,
        help=TOKEN_HELP,
        **control(
            "token", "Token", default=token_name(side.tokens.ids[0]), written=vocabulary.written
        ),
    )
    counts = vocabulary.source if side.name == "source" else vocabulary.target
    if vocabulary.counted and vocabulary.shared:
        where = choose_one(
            "Among tokens that occur",
            ["this side", "either side"],
            key="among",
            format_func=lambda w: {"this side": f"on the {side.name} side"}.get(w, f"on {w}"),
        )
        if where == "either side":
            counts = vocabulary.counts
    id = find_token(selection, vocabulary, chosen)
    seen = counts > 0 if vocabulary.counted else np.ones(len(vocabulary.labels), bool)
    found = nearest_neighbours(vocabulary.table, id, count=_NEIGHBOURS, among=seen)
    labels = [vocabulary.labels[other] for other in found.ids]
    if not labels:
        st.caption("There is no other token to compare it with.")
        return

    def look_up() -> None:
        if (place := clicked_value("neighbours")) is not None:
            change_view(token=token_name(int(found.ids[int(place)])))

    written = [f"{value:.3f}" for value in found.cosine]
    if vocabulary.counted:
        often = counts[found.ids].tolist()
        written = [f"{text} · {n:,}×" for text, n in zip(written, often, strict=True)]
    values = ", ".join(
        f"{label} {value:.2f}" for label, value in zip(labels, found.cosine, strict=True)
    )
    show_figure(
        bar_chart(
            labels,
            found.cosine.tolist(),
            theme=selection.theme,
            written=written,
            clicks=[f"look up {label}" for label in labels],
        ),
        key="neighbours",
        alt=f"Nearest to {vocabulary.labels[id]}: {values}",
        on_select=look_up,
    )
    often = f"{_occurrences(vocabulary, id)} in the training data. " * vocabulary.counted
    said = f"{escape_markdown(vocabulary.labels[id])}: {often}"
    if vocabulary.table.size <= _SHUFFLED_UNASKED or view().model.all_pairs:
        chance = cached(
            "nearest by chance",
            (vocabulary.weights, vocabulary.table_side, id, seen.tobytes()),
            lambda: nearest_by_chance(vocabulary.table, id, among=seen),
            says="Shuffling the vocabulary",
        )
        said += (
            f"By chance the nearest would be at {chance:.2f}: with the numbers of each dimension "
            "shuffled among these tokens."
        )
    else:
        said += "How near the nearest would be by chance is said once all tokens are compared."
    st.caption(said)


def _occurrences(vocabulary: SideVocabulary, id: int) -> str:
    counts = [int(of[id]) for of in (vocabulary.source, vocabulary.target)]
    each = counts if vocabulary.shared else [sum(counts)]
    said = ["once" if count == 1 else f"{count:,} times" for count in each]
    return " on the source side and ".join(said) + " on the target side" * vocabulary.shared


@panel("pairs")
def _show_pairs(selection: Selection, side: TraceSide) -> None:
    vocabulary = vocabulary_of(selection, side.name)
    show_heading(
        "Most similar pairs of the vocabulary",
        f"The {_PAIRS} with the largest cosine, in {vocabulary.name}. Click the head of a column "
        f"to sort by it. {_RARE_NOTE if vocabulary.counted else _NOT_COUNTED}",
    )
    if not view().model.all_pairs:
        st.button(
            "Compare all tokens",
            key="compare_pairs",
            icon=":material/search:",
            on_click=lambda: change_view("neighbours", "pairs", all_pairs=True),
        )
        return
    among, key = _choose_among(vocabulary)
    enough = int(among.sum())
    counts = vocabulary.counts
    pairs = cached(
        "similar pairs",
        (vocabulary.weights, vocabulary.table_side, key),
        lambda: similar_pairs(vocabulary.table, count=_PAIRS, among=among),
        facts=lambda _: {"tokens": enough},
        says=f"Comparing {enough:,} tokens",
    )
    if not len(pairs.cosine):
        st.info(f"Fewer than two tokens occur {key[1]:,} times: choose a smaller number.")
        return
    occurrences = {"token occurs": counts[pairs.first], "other occurs": counts[pairs.second]}
    st.dataframe(
        {
            "token": [table_cell(vocabulary.labels[id]) for id in pairs.first],
            "other token": [table_cell(vocabulary.labels[id]) for id in pairs.second],
            "cosine": pairs.cosine,
            **(occurrences if vocabulary.counted else {}),
        },
        hide_index=True,
        height=320,
        column_config={"cosine": st.column_config.NumberColumn(format="%.3f")},
        key="pairs",
    )
    st.caption(f"Of {enough * (enough - 1) // 2:,} pairs of {enough:,} tokens.")


def _choose_among(vocabulary: SideVocabulary) -> tuple[NDArray[np.bool_], tuple[str, int]]:
    """Ask which tokens are paired; return them, (V,), and what identifies the choice."""
    if not vocabulary.counted:
        size = len(vocabulary.labels)
        number = choose_number(
            st.container(), vocabulary, _NUMBERS, first=_FIRST_NUMBER, key="pairs_among"
        )
        return np.arange(size) < number, ("first", number)
    least = choose_on_slider(
        "Each occurs at least so often in training",
        _LEAST_COUNTS,
        key="least",
        format_func="{:,}".format,
    )
    return vocabulary.counts >= least, ("at least", least)
