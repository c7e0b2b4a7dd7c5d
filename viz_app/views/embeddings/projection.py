"""The vocabulary in two dimensions, the tokens of the sentence marked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from model.checkpoint import CheckpointError
from viz_app.analysis.projection import (
    Components,
    frequency_groups,
    most_frequent,
    principal_components,
    sides,
)
from viz_app.components.scatter import Cloud, scatter
from viz_app.projection import (
    FEWEST_TOKENS,
    UmapSettings,
    read_points,
    umap_path,
    umap_points,
    write_points,
)
from viz_app.records import Floats
from viz_app.views._events import told
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_one, panel, plain
from viz_app.views.embeddings.side import (
    Side,
    Vocabulary,
    choose_tokens,
    show_heading,
    vocabulary_of,
)

Method = Literal["PCA", "UMAP"]
Colour = Literal["frequency", "side"]
_NUMBERS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
_FIRST_NUMBER = 2_000
_MOST_MARKED = 12
_SIDES = ("neither side", "source only", "both sides", "target only")


@panel("projection")
def show_projection(selection: Selection, side: Side) -> None:
    """Draw the most frequent tokens of the vocabulary in the plane."""
    show_heading("The vocabulary in two dimensions")
    vocabulary = vocabulary_of(selection, side.name)
    method, colour, number, searched = _choose(selection, vocabulary)
    ids = most_frequent(vocabulary.counts, number)
    found = _place(vocabulary, ids, method)
    if found is None:
        return
    points, note = found
    places = {int(id): place for place, id in enumerate(ids)}
    group, groups = _groups(vocabulary, ids, colour)
    scatter(
        Cloud(
            points=points,
            labels=[vocabulary.labels[id] for id in ids],
            counts=vocabulary.counts[ids].tolist(),
            group=group,
            groups=groups,
            ordered=colour == "frequency",
        ),
        sentence=[places[id] for id in side.tokens.ids if id in places],
        searched=[places[id] for id in searched if id in places],
        of=f"{vocabulary.weights} {'' if vocabulary.shared else side.name} {method} {number}",
        theme=selection.theme,
        name=f"{st.session_state['files']}-{side.name}-{method}",
        key="cloud",
    )
    missing = [id for id in dict.fromkeys([*searched, *side.tokens.ids]) if id not in places]
    if missing:
        names = " ".join(vocabulary.labels[id] for id in missing[:_MOST_MARKED])
        more = len(missing) - _MOST_MARKED
        note += (
            f" Not among the {number:,} most frequent, and not drawn: {plain(names)}"
            + (f" and {more} more" if more > 0 else "")
            + "."
        )
    st.caption(f"Of {vocabulary.name}. {note}")


def _choose(selection: Selection, vocabulary: Vocabulary) -> tuple[Method, Colour, int, list[int]]:
    """How it is drawn, how many tokens are, and which are looked for."""
    with st.container(horizontal=True, gap="small"):
        method: Method = choose_one(
            "By",
            get_args(Method),
            key="projection_by",
            default="PCA",
            help="PCA shows the two directions in which embeddings vary most; distances in it are "
            "true as far as they go. UMAP keeps neighbours together and tears the rest apart: "
            "there, distances between clusters and their sizes mean little.",
        )
        colours: tuple[Colour, ...] = get_args(Colour) if vocabulary.shared else ("frequency",)
        colour: Colour = "frequency"
        if len(colours) > 1:
            colour = choose_one("Colour", colours, key="colour", default="frequency")
    size = len(vocabulary.labels)
    number, numbers = size, [*(number for number in _NUMBERS if number < size), size]
    *left, right = st.columns(min(2, len(numbers)), gap="medium")
    for place in left:
        number = place.select_slider(
            "The most frequent tokens",
            numbers,
            value=max(number for number in numbers if number <= _FIRST_NUMBER),
            format_func=lambda number: f"all {size:,}" if number == size else f"{number:,}",
            key="number",
        )
    with right:
        searched = choose_tokens(
            selection, vocabulary, "Look for tokens", most=_MOST_MARKED, key="searched"
        )
    return method, colour, number, searched


def _groups(
    vocabulary: Vocabulary, ids: NDArray[np.int64], colour: Colour
) -> tuple[NDArray[np.int64], list[str]]:
    """Which group each of some tokens is of, and the groups' names."""
    if colour == "side":
        return sides(vocabulary.source[ids], vocabulary.target[ids]), list(_SIDES)
    return frequency_groups(vocabulary.counts[ids])


def _place(
    vocabulary: Vocabulary, ids: NDArray[np.int64], method: Method
) -> tuple[Floats, str] | None:
    """Points in the plane, and what to say of them; None if they wait for a person."""
    table = "" if vocabulary.shared else vocabulary.side
    if method == "PCA":
        components = _components(vocabulary.weights, table, len(ids), ids, vocabulary)
        first, second = (f"{share:.1%}" for share in components.shares)
        return components.points, (
            f"PCA of the embeddings less their mean: the first direction, from left to right, has "
            f"{first} of the variance, the second {second}; what the others have is not seen here."
        )
    if len(ids) < FEWEST_TOKENS:
        st.info(f"UMAP needs at least {FEWEST_TOKENS} tokens; this vocabulary has {len(ids)}.")
        return None
    settings = UmapSettings()
    points = _umap(vocabulary, ids, table, settings)
    if points is None:
        return None
    return points, (
        f"UMAP by cosine, {settings.neighbours} neighbours, least distance "
        f"{settings.least_distance}, seed {settings.seed}. It has no axes: only who is near whom "
        "means something."
    )


@st.cache_resource(max_entries=16, show_spinner=False)
def _components(
    sha256: str, table: str, number: int, _ids: NDArray[np.int64], _vocabulary: Vocabulary
) -> Components:
    return principal_components(_vocabulary.table[_ids])


def _umap(
    vocabulary: Vocabulary, ids: NDArray[np.int64], table: str, settings: UmapSettings
) -> Floats | None:
    """Points from the disk, or computed if a person asks for it."""
    path = umap_path(vocabulary.weights, table, ids, settings)
    kept = read_points(path, len(ids))
    if kept is not None:
        return kept
    with st.empty().container():
        st.caption(
            "UMAP is computed once and then kept: some seconds for hundreds of tokens, up to half "
            "a minute for thousands, and half a minute more to start, the first time."
        )
        if not st.button(f"Compute UMAP of {len(ids):,} tokens", key="compute", type="primary"):
            return None
        with (
            st.spinner("Finding neighbours and laying them out …", show_time=True),
            told("UMAP", tokens=len(ids)),
        ):
            points = umap_points(vocabulary.table[ids], settings)
            # Before anything else is drawn, where Streamlit may end this run for a newer one.
            written = _write(path, points)
    if not written:
        st.warning(
            f"It cannot be kept in {plain(str(path.parent))}, and would be computed again: set "
            "HEADWISE_CACHE to a folder that can be written to."
        )
    return points


def _write(path: Path, points: Floats) -> bool:
    try:
        write_points(path, points)
    except (CheckpointError, OSError):
        return False
    return True
