"""Embeddings along the training: pairs that come together, and the vocabulary as it moves."""

from __future__ import annotations

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from viz_app.analysis.drift import in_one_frame, pair_cosines, pairs_of
from viz_app.analysis.projection import Components, frequency_groups, most_frequent
from viz_app.components.scatter import Cloud, Frames, scatter
from viz_app.figures.drift import cosine_lines
from viz_app.records import Floats
from viz_app.views._session import Selection, checkpoint_of, embedding_table, trace_of
from viz_app.views._widgets import begin_with, choose_one, panel, plain, show_figure
from viz_app.views.embeddings.side import Vocabulary, choose_tokens, show_heading, vocabulary_of

_MOST_TOKENS = 4
_NUMBERS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
_FIRST_NUMBER = 1_000


def show_embeddings(selection: Selection) -> None:
    """Draw the room."""
    if len(selection.run.steps()) < 2:
        st.info("This run has one checkpoint only: there is nothing to follow.")
        return
    side: str = choose_one(
        "Side",
        ["source", "target"],
        key="side",
        default="source",
        help="The source enters the encoder; the target the decoder. Where both share one table, "
        "the side decides which tokens are marked at first.",
    )
    show_pairs(selection, side)
    show_movement(selection, side)


@panel("drift_pairs")
def show_pairs(selection: Selection, side: str) -> None:
    """How similar some tokens are to each other at each checkpoint."""
    show_heading("Similarity of pairs, by checkpoint")
    vocabulary, ids = _tokens(selection, side)
    pairs = pairs_of(ids)
    if not pairs:
        st.info("Choose two tokens or more.")
        return
    steps = selection.run.steps()
    tables = [embedding_table(selection.run, step, side) for step in steps]
    cosines = pair_cosines(tables, pairs)
    names = [" ~ ".join(vocabulary.labels[id] for id in pair) for pair in pairs]
    ends = "; ".join(
        f"{name} from {first:.2f} to {last:.2f}"
        for name, first, last in zip(names, cosines[0], cosines[-1], strict=True)
    )
    show_figure(
        cosine_lines(
            cosines,
            steps=steps,
            names=names,
            theme=selection.theme,
            marked=steps.index(selection.step),
        ),
        key="pair_lines",
        alt=f"Cosines of embeddings from step {steps[0]:,} to {steps[-1]:,}: {ends}",
    )
    st.caption(
        f"Cosine of the embeddings of two tokens, in {vocabulary.name}: at step 0 as chance had "
        "it, near 0; 1 for the same direction. Checkpoints are evenly spaced; the dotted line is "
        "the one in use."
    )


def _tokens(selection: Selection, side: str) -> tuple[Vocabulary, list[int]]:
    """The vocabulary, and the tokens that were chosen; at first some of the sentence."""
    vocabulary = vocabulary_of(selection, side)
    trace = trace_of(selection.run, selection.step, selection.text)
    own = trace.source.ids if side == "source" else trace.predicted.ids
    letters = {id: sum(map(str.isalpha, vocabulary.labels[id])) for id in dict.fromkeys(own)}
    longest = sorted(letters, key=lambda id: -letters[id])[:_MOST_TOKENS]
    of = (selection.run.info.name, side, selection.text)
    begin_with("pair_tokens", [id for id in letters if id in longest], of=of)
    return vocabulary, choose_tokens(
        selection, vocabulary, "Tokens", most=_MOST_TOKENS, key="pair_tokens"
    )


@panel("drift_movement")
def show_movement(selection: Selection, side: str) -> None:
    """The vocabulary of every checkpoint in the plane of one of them."""
    show_heading("The vocabulary as it moves")
    run, steps = selection.run, selection.run.steps()
    vocabulary = vocabulary_of(selection, side)
    size = len(vocabulary.labels)
    numbers = [*(number for number in _NUMBERS if number < size), size]
    left, right = st.columns(2, gap="medium")
    number = size
    if len(numbers) > 1:
        number = left.select_slider(
            "The most frequent tokens",
            numbers,
            value=max(number for number in numbers if number <= max(_FIRST_NUMBER, numbers[0])),
            format_func=lambda number: f"all {size:,}" if number == size else f"{number:,}",
            key="moving_number",
        )
    frame = right.select_slider(
        "In the frame of step",
        steps,
        value=steps[-1],
        format_func=lambda step: f"{step:,}",
        key="moving_frame",
        help="The plane is that of the first two principal components of this checkpoint's "
        "embeddings. Those of the others are first turned onto them as a whole (orthogonal "
        r"Procrustes): $\min_R \lVert X R - Y \rVert$ with $R^\top R = I$.",
    )
    ids = most_frequent(vocabulary.counts, number)
    weights = tuple(checkpoint_of(run, step).sha256 for step in steps)
    table = "" if vocabulary.shared else side
    points, plane = _movement(weights, table, number, steps.index(frame), selection, side, ids)
    places = {int(id): place for place, id in enumerate(ids)}
    group, groups = frequency_groups(vocabulary.counts[ids])
    marked = st.session_state.get("pair_tokens", [])
    scatter(
        Cloud(
            points=points[-1],
            labels=[vocabulary.labels[id] for id in ids],
            counts=vocabulary.counts[ids].tolist(),
            group=group,
            groups=groups,
            ordered=True,
        ),
        sentence=[],
        searched=[places[id] for id in marked if id in places],
        of=f"{weights[-1]} {table} {number} {frame}",
        theme=selection.theme,
        name=f"headwise-{run.info.name}-{side}-moving",
        key="moving",
        frames=Frames([f"step {step:,}" for step in steps], points),
    )
    first, second = (f"{share:.1%}" for share in plane.shares)
    missing = [vocabulary.labels[id] for id in marked if isinstance(id, int) and id not in places]
    away = f" Not among these {len(ids):,}: {plain(' '.join(missing))}." if missing else ""
    st.caption(
        f"The tokens chosen above are marked, with the way they came. All checkpoints are drawn in "
        f"the plane of step {frame:,}, whose two directions have {first} and {second} of its "
        "variance, after being turned onto it as a whole; distances between tokens are as they "
        "were. Between two checkpoints the way is drawn straight: what happened there is not known."
        f"{away}"
    )


@st.cache_resource(max_entries=8, show_spinner="Turning the checkpoints onto each other …")
def _movement(
    weights: tuple[str, ...],
    table: str,
    number: int,
    frame: int,
    _selection: Selection,
    _side: str,
    _ids: NDArray[np.int64],
) -> tuple[Floats, Components]:
    run = _selection.run
    tables = [embedding_table(run, step, _side)[_ids] for step in run.steps()]
    return in_one_frame(tables, tables[frame])
