"""Show the vocabulary in two dimensions, with the tokens of the sentence marked."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.viz_app.analysis.embeddings import (
    most_frequent,
    principal_components,
    sides_of_tokens,
)
from headwise.viz_app.components.scatter import Cloud, scatter
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.views.embeddings.side import TraceSide
from headwise.viz_app.views.embeddings.umap_projection import (
    FEWEST_TOKENS,
    UmapSettings,
    compute_points,
    is_installed,
    read_points,
    umap_path,
)
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.log import log_timed
from headwise.viz_app.views.shared.markdown import escape_markdown
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.vocabulary import (
    SideVocabulary,
    choose_number,
    choose_tokens,
    counts_of,
    groups_by_frequency,
    vocabulary_of,
)
from headwise.viz_app.views.shared.widgets import choose_one, show_heading

Method = Literal["PCA", "UMAP"]
Colour = Literal["frequency", "side"]
_NUMBERS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
_FIRST_NUMBER = 2_000
_MOST_MARKED = 12
_SIDES = ("neither side", "source only", "both sides", "target only")


@panel("projection")
def show_projection(selection: Selection, side: TraceSide) -> None:
    """Draw the most frequent tokens of the vocabulary in the plane."""
    show_heading("The vocabulary in two dimensions")
    vocabulary = vocabulary_of(selection, side.name)
    method, colour, number, searched = _choose(selection, vocabulary)
    ids = most_frequent(vocabulary.counts, number)
    found = _project(vocabulary, ids, method)
    if found is None:
        return
    points, note = found
    places = {int(id): place for place, id in enumerate(ids)}
    group, groups = _groups(vocabulary, ids, colour)
    scatter(
        Cloud(
            points=points,
            labels=[vocabulary.labels[id] for id in ids],
            counts=counts_of(vocabulary, ids),
            group=group,
            groups=groups,
            ordered=colour == "frequency" and vocabulary.counted,
        ),
        sentence=[places[id] for id in side.tokens.ids if id in places],
        searched=[places[id] for id in searched if id in places],
        content_id=f"{vocabulary.weights} {vocabulary.table_side} {method} {number}",
        theme=selection.theme,
        name=f"{st.session_state['files']}-{side.name}-{method}",
        key="cloud",
    )
    missing = [id for id in dict.fromkeys([*searched, *side.tokens.ids]) if id not in places]
    if missing:
        names = " ".join(vocabulary.labels[id] for id in missing[:_MOST_MARKED])
        more = len(missing) - _MOST_MARKED
        which = f"{number:,} most frequent" if vocabulary.counted else f"first {number:,}"
        note += (
            f" Not among the {which}, and not drawn: {escape_markdown(names)}"
            + (f" and {more} more" if more > 0 else "")
            + "."
        )
    st.caption(f"Of {vocabulary.name}. {note}")


def _choose(
    selection: Selection, vocabulary: SideVocabulary
) -> tuple[Method, Colour, int, list[int]]:
    """Ask how the vocabulary is drawn, how many of its tokens, and which are looked for."""
    with st.container(horizontal=True, gap="small"):
        method: Method = choose_one(
            "By",
            get_args(Method),
            key="projection_by",
            help="PCA shows the two directions in which embeddings vary most; distances in it are "
            "true as far as they go. UMAP keeps neighbours together and tears the rest apart: "
            "there, distances between clusters and their sizes mean little.",
        )
        colours: tuple[Colour, ...] = ("frequency",)
        if vocabulary.shared and vocabulary.counted:
            colours = get_args(Colour)
        colour: Colour = "frequency"
        if len(colours) > 1:
            colour = choose_one("Colour", colours, key="colour")
    few = len(vocabulary.labels) <= _NUMBERS[0]  # then there is no number to choose
    left, right = (st.container(),) * 2 if few else st.columns(2, gap="medium")
    number = choose_number(left, vocabulary, _NUMBERS, first=_FIRST_NUMBER, key="number")
    with right:
        searched = choose_tokens(
            selection, vocabulary, "Look for tokens", most=_MOST_MARKED, key="searched"
        )
    return method, colour, number, searched


def _groups(
    vocabulary: SideVocabulary, ids: NDArray[np.int64], colour: Colour
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the group that each token belongs to, and the names of the groups."""
    if colour == "side":
        return sides_of_tokens(vocabulary.source[ids], vocabulary.target[ids]), list(_SIDES)
    return groups_by_frequency(vocabulary, ids)


def _project(
    vocabulary: SideVocabulary, ids: NDArray[np.int64], method: Method
) -> tuple[Floats, str] | None:
    """Return points in the plane and a note on them; None if a person has to start it first."""
    if method == "PCA":
        components = cached(
            "principal components",
            (vocabulary.weights, vocabulary.table_side, len(ids)),
            lambda: principal_components(vocabulary.table[ids]),
            entries=16,
            facts=lambda _: {"tokens": len(ids)},
        )
        first, second = (f"{share:.1%}" for share in components.shares)
        return components.points, (
            f"PCA of the embeddings less their mean: the first direction, from left to right, has "
            f"{first} of the variance, the second {second}; what the others have is not seen here."
        )
    if len(ids) < FEWEST_TOKENS:
        st.info(f"UMAP needs at least {FEWEST_TOKENS} tokens; this vocabulary has {len(ids)}.")
        return None
    settings = UmapSettings()
    points = _umap(vocabulary, ids, settings)
    if points is None:
        return None
    return points, (
        f"UMAP by cosine, {settings.neighbours} neighbours, least distance "
        f"{settings.least_distance}, seed {settings.seed}. It has no axes: only who is near whom "
        "means something."
    )


def _umap(
    vocabulary: SideVocabulary, ids: NDArray[np.int64], settings: UmapSettings
) -> Floats | None:
    """Return points that are on disk, or computed if a person asks for it."""
    path = umap_path(vocabulary.weights, vocabulary.table_side, ids, settings)
    stored = read_points(path, len(ids))
    if stored is not None:
        return stored
    if not is_installed():
        st.info("UMAP is not installed. In a terminal, in the project's folder and environment:")
        st.code('pip install -e ".[umap]"', language=None)
        return None
    with st.empty().container():
        st.caption(
            "UMAP is computed once and then kept: some seconds for hundreds of tokens, up to half "
            "a minute for thousands, and half a minute more to start, the first time."
        )
        if not st.button(f"Compute UMAP of {len(ids):,} tokens", key="compute", type="primary"):
            return None
        with (
            st.spinner("Finding neighbours and laying them out …", show_time=True),
            log_timed("UMAP", tokens=len(ids)),
        ):
            # Written before anything is drawn, where Streamlit may end this run for a newer one.
            points, kept = compute_points(path, vocabulary.table[ids], settings)
    if not kept:
        st.warning(
            "It cannot be kept, and would be computed again: set HEADWISE_CACHE to a folder that "
            "can be written to, where the app is started."
        )
    return points
