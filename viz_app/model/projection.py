"""Show the vocabulary in two dimensions, by PCA or UMAP, with the tokens of the sentence marked.

UMAP: L. McInnes, J. Healy and J. Melville (2018), arXiv:1802.03426; by ``umap-learn``, which is
an extra of ours, and imported only here and only when it is used: the import takes seconds.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.viz_app.analysis.embeddings import most_frequent, sides_of_tokens
from headwise.viz_app.components.scatter import scatter
from headwise.viz_app.model.input import TraceSide
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.cache import cached, is_cached
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.vocabulary import (
    SideVocabulary,
    choose_number,
    choose_tokens,
    cloud_of,
    plane_of,
    vocabulary_of,
)
from headwise.viz_app.session.widgets import choose_one, show_heading

Method = Literal["PCA", "UMAP"]
Colour = Literal["frequency", "side"]
_NUMBERS = (50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
_FIRST_NUMBER = 2_000
_MOST_MARKED = 12
_SIDES = ("neither side", "source only", "both sides", "target only")
_FEWEST_TOKENS = 4
"""UMAP needs neighbours: fewer tokens have too few."""
_NEIGHBOURS, _LEAST_DISTANCE, _SEED = 15, 0.1, 1
"""Settings of UMAP: nearest neighbours that it considers, the token itself included; the least
distance of two tokens in the plane; and the seed."""
# Two calls of UMAP at once are not safe: its compiled parts start threads.
_LOCK = threading.Lock()


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
    cloud = cloud_of(vocabulary, ids, points)
    if colour == "side":
        group = sides_of_tokens(vocabulary.source[ids], vocabulary.target[ids])
        cloud = replace(cloud, group=group, groups=list(_SIDES), ordered=False)
    scatter(
        cloud,
        sentence=[places[id] for id in side.tokens.ids if id in places],
        searched=[places[id] for id in searched if id in places],
        content_id=f"{vocabulary.weights} {vocabulary.table_side} {method} {number}",
        theme=selection.theme,
        name=f"{st.session_state['files']}-{side.name}-{method}",
        key="cloud",
    )
    missing = [id for id in dict.fromkeys([*searched, *side.tokens.ids]) if id not in places]
    if missing:
        names = escape_markdown(" ".join(vocabulary.labels[id] for id in missing[:_MOST_MARKED]))
        more = len(missing) - _MOST_MARKED
        which = f"{number:,} most frequent" if vocabulary.counted else f"first {number:,}"
        names += f" and {more} more" if more > 0 else ""
        note += f" Not among the {which}, and not drawn: {names}."
    st.caption(f"Of {vocabulary.name}. {note}")


def _choose(
    selection: Selection, vocabulary: SideVocabulary
) -> tuple[Method, Colour, int, list[int]]:
    with st.container(horizontal=True, gap="small"):
        method: Method = choose_one(
            "By",
            get_args(Method),
            key="projection_by",
            help="PCA shows the two directions in which embeddings vary most; distances in it are "
            "true as far as they go. UMAP keeps neighbours together and tears the rest apart: "
            "there, distances between clusters and their sizes mean little.",
        )
        colour: Colour = "frequency"
        if vocabulary.shared and vocabulary.counted:
            colour = choose_one("Colour", get_args(Colour), key="colour")
    drawn_whole = len(vocabulary.labels) <= _NUMBERS[0]  # then there is no number to choose
    left, right = (st.container(),) * 2 if drawn_whole else st.columns(2, gap="medium")
    number = choose_number(left, vocabulary, _NUMBERS, first=_FIRST_NUMBER, key="number")
    with right:
        searched = choose_tokens(
            selection, vocabulary, "Look for tokens", most=_MOST_MARKED, key="searched"
        )
    return method, colour, number, searched


def _project(
    vocabulary: SideVocabulary, ids: NDArray[np.int64], method: Method
) -> tuple[Floats, str] | None:
    """Return points in the plane and a note on them; None if a person has to start it first."""
    key = (vocabulary.weights, vocabulary.table_side, len(ids))
    if method == "PCA":
        components = plane_of(*key, lambda: vocabulary.table[ids])
        first, second = (f"{share:.1%}" for share in components.shares)
        return components.points, (
            f"PCA of the embeddings less their mean: the first direction, from left to right, has "
            f"{first} of the variance, the second {second}; what the others have is not seen here."
        )
    if len(ids) < _FEWEST_TOKENS:
        st.info(f"UMAP needs at least {_FEWEST_TOKENS} tokens; this vocabulary has {len(ids)}.")
        return None
    if not (is_cached("UMAP", key) or _is_started(len(ids))):
        return None
    with st.spinner("Finding neighbours and laying them out …", show_time=True):
        # Kept before the spinner goes, where Streamlit may end this run for a newer one.
        points = cached(
            "UMAP",
            key,
            lambda: umap_points(vocabulary.table[ids]),
            facts=lambda _: {"tokens": len(ids)},
        )
    return points, (
        f"UMAP by cosine, {_NEIGHBOURS} neighbours, least distance {_LEAST_DISTANCE}, seed "
        f"{_SEED}. It has no axes: only who is near whom means something."
    )


def _is_started(number: int) -> bool:
    """Offer to compute UMAP, and return whether a person has just started it."""
    if find_spec("umap") is None:
        st.info("UMAP is not installed. In a terminal, in the project's folder and environment:")
        st.code('pip install -e ".[umap]"', language=None)
        return False
    with st.empty().container():
        st.caption(
            "UMAP is computed once and then kept: some seconds for hundreds of tokens, up to half "
            "a minute for thousands, and half a minute more to start, the first time."
        )
        return st.button(f"Compute UMAP of {number:,} tokens", key="compute", type="primary")


def umap_points(rows: Floats, *, neighbours: int = _NEIGHBOURS, seed: int = _SEED) -> Floats:
    """Project rows (n, D) to the plane, (n, 2), by the cosines of neighbours.

    The same seed gives the same points. UMAP starts from the principal components. Too few rows are
    a ``ValueError``, and so is a folder into which UMAP cannot write what it has compiled.
    """
    if len(rows) < _FEWEST_TOKENS:
        raise ValueError(f"expected at least {_FEWEST_TOKENS} tokens for UMAP, got {len(rows)}")
    try:
        with _LOCK:
            reducer = _reducer(min(neighbours, len(rows) - 1), seed)
            points = np.asarray(reducer.fit_transform(rows), np.float32)
    except OSError as error:
        raise ValueError(
            f"UMAP cannot write what it has compiled ({error.strerror}): free space where it is "
            "kept, or name another folder in the variable NUMBA_CACHE_DIR"
        ) from error
    if not np.isfinite(points).all():
        raise ValueError("UMAP found no place for some tokens: choose another number of them")
    return points


def _reducer(neighbours: int, seed: int) -> Any:
    with warnings.catch_warnings():
        # umap-learn warns that TensorFlow is missing, which only its unused parts need.
        warnings.simplefilter("ignore", ImportWarning)
        from umap import UMAP
    return UMAP(
        n_neighbors=neighbours,
        min_dist=_LEAST_DISTANCE,
        metric="cosine",
        init="pca",
        random_state=seed,
        n_jobs=1,  # more would not be the same every time
    )
