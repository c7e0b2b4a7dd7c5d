"""Draw the queries and keys of a head over example sentences in one plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.model.interface import Head, Kind, Side, head_name
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.analysis.embeddings import (
    frequency_groups,
    principal_components,
    project_together,
)
from headwise.viz_app.analysis.plane import agreement, in_random_directions, join
from headwise.viz_app.components.scatter import Cloud, Frames, scatter
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.measuring.batches import EncodedPair
from headwise.viz_app.measuring.plane import first_sentences, head_vectors, ids_in
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.plane import Agreement, HeadVectors, JointVectors
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.views.caches import checkpoint_of, weights_sha256
from headwise.viz_app.views.heads.sentences import examples_of, open_row, passes_bytes
from headwise.viz_app.views.shared.cache import cached
from headwise.viz_app.views.shared.head_choice import chosen_head, head_label
from headwise.viz_app.views.shared.panels import panel
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.slices import NoteDone, in_slices
from headwise.viz_app.views.shared.view import change_view, view
from headwise.viz_app.views.shared.vocabulary import vocabulary_of
from headwise.viz_app.views.shared.widgets import choose_one, show_figure, show_heading

_SENTENCES, _MOST_POINTS = 60, 1_500
"""Most sentences of the sample, and most queries and keys of them together."""
_MOST_STEPS = 24
"""Most checkpoints, the one at hand besides."""
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class _Points:
    """What stands at each of n queries and then m keys."""

    sentence: _Ints
    """Place among the sentences, (n + m,)."""
    position: _Ints
    """Place in its source or target, from 0."""
    counts: _Ints | None
    """Occurrences of its token in the training data; None if they are not known."""
    labels: list[str]
    queries: int
    """n."""


@dataclass(frozen=True)
class _Drawn:
    """The plane at C checkpoints, and what it is made of at the one at hand."""

    points: Floats
    """(C, n + m, 2), in the plane of the checkpoint at hand."""
    shares: tuple[float, float]
    """Shares of the variance of its two directions there."""
    agreements: tuple[tuple[Agreement, Agreement], ...]
    """In all dimensions and in the plane, at each checkpoint."""
    by_construction: tuple[tuple[Agreement, Agreement], ...]
    """The same of vectors as long in random directions, in a plane of their own."""
    vectors: HeadVectors
    joint: JointVectors


class _Read(NamedTuple):
    """What is read of a head at one checkpoint."""

    vectors: HeadVectors
    joint: JointVectors
    in_space: Agreement
    by_construction: tuple[Agreement, Agreement]


@panel("head_plane")
def show_plane(selection: Selection, measures: Measures) -> None:
    """Ask whether queries and keys are drawn, and draw them."""
    show_heading("Queries and keys in one plane")
    run, head = selection.run, chosen_head(selection.run.description, view())
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        several = ["through training"] * (len(run.steps()) > 1)
        shown = choose_one("Show", ["off", "this checkpoint", *several], key="plane")
        if shown != "off":
            colours = ["side", *["frequency"] * (run.counts is not None), "position"]
            colour = choose_one("Colour by", colours, key="plane_colour")
    if shown == "off":
        st.caption(
            "Draws the queries and keys of this head over example sentences so that those are near "
            "each other that have large weights, as far as a plane can show it."
        )
        return
    sentences = first_sentences(
        examples_of(run, measures)[:_SENTENCES], head.kind, most_points=_MOST_POINTS
    )
    steps = [selection.step]
    if shown == "through training":
        steps = sorted({selection.step, *spread(run.steps(), _MOST_STEPS)})
    drawn = _draw(selection, measures, sentences, head, steps)
    if drawn is None:
        return
    points = _points_of(selection, sentences, head.kind)

    def open_point(point: int) -> None:
        number, row = int(points.sentence[point]), int(points.position[point])
        if point >= points.queries:
            row = _row_that_looks(drawn.vectors.scores[number], row)
        open_row(measures, head, sentences[number].number, row)

    texts = [each.pair.source for each in sentences]
    frames = Frames([f"step {step:,}" for step in steps], drawn.points)
    scatter(
        _cloud(points, drawn.points[-1], colour),
        sentence=[p for p, at in enumerate(points.sentence) if texts[at] == selection.text],
        searched=[],
        content_id=f"{weights_sha256(run, selection.step)} {head} {steps}",
        theme=selection.theme,
        name=f"headwise-{run.name}-{head_name(head)}-plane",
        key="plane_cloud",
        frames=frames if len(steps) > 1 else None,
        on_click=open_point,
        action="opens its row on Translate",
    )
    here = steps.index(selection.step)
    st.caption(_in_words(selection, head, len(sentences), drawn, here))
    both = zip(drawn.agreements, drawn.by_construction, strict=True)
    lines = np.array(
        [(a.value, b.value, by.value, a.chance) for (a, b), (by, _) in both], np.float32
    )
    if len(steps) > 1 and np.isfinite(lines).all():
        show_figure(
            named_lines(
                lines,
                steps=steps,
                names=["all dimensions", "in the plane", "random directions", "permuted keys"],
                title="rank correlation",
                theme=selection.theme,
                marked=here,
            ),
            key="plane_lines",
            alt=f"Rank correlation of nearness and score of {head_label(head)} at each checkpoint",
        )


# --- what is drawn -------------------------------------------------------------------------------


def _draw(
    selection: Selection,
    measures: Measures,
    sentences: Sequence[EncodedPair],
    head: Head,
    steps: Sequence[int],
) -> _Drawn | None:
    """Compute what is drawn of some checkpoints; None while there is more to do."""
    run = selection.run
    of = str(run.folder), measures.examples_corpus.sha256, head
    hashes = tuple(weights_sha256(run, step) for step in steps)
    needs = passes_bytes(run, sentences)

    def vectors_of(step: int) -> _Read:
        vectors = head_vectors(checkpoint_of(run, step).model, sentences, head)
        joint, random = join(vectors), in_random_directions(vectors)
        rows = join(random).rows
        spaces = rows, principal_components(rows).points
        return _Read(
            vectors,
            joint,
            agreement(joint.rows, vectors),
            (agreement(spaces[0], random), agreement(spaces[1], random)),
        )

    def compute(note: NoteDone) -> _Drawn:
        found: list[_Read] = []
        for done, (step, sha256) in enumerate(zip(steps, hashes, strict=True), 1):
            found.append(
                cached(
                    "queries and keys",
                    (*of, sha256),
                    partial(vectors_of, step),
                    entries=2 * _MOST_STEPS,
                    facts=lambda _: {"run": run.name},
                    needs=needs,
                )
            )
            note(done, len(steps))
        here = steps.index(selection.step)

        def project() -> _Drawn:
            rows = [each.joint.rows for each in found]
            points, plane = project_together(rows, rows[here])
            agreements = tuple(
                (each.in_space, agreement(flat, each.vectors))
                for flat, each in zip(points, found, strict=True)
            )
            by_construction = tuple(each.by_construction for each in found)
            of_here = found[here].vectors, found[here].joint
            return _Drawn(points, plane.shares, agreements, by_construction, *of_here)

        return cached(
            "plane of queries and keys",
            (*of, hashes, here),
            project,
            entries=8,
            facts=lambda _: {"run": run.name, "checkpoints": len(steps)},
        )

    return in_slices(
        "Reading queries and keys of checkpoints",
        compute,
        key="plane-progress",
        stop=lambda: change_view(plane="off"),
    )


def _points_of(selection: Selection, sentences: Sequence[EncodedPair], kind: Kind) -> _Points:
    """Return the tokens of all queries, then of all keys, sentence by sentence."""
    names: tuple[Side, Side] = (
        "source" if kind == "encoder_self" else "target",
        "target" if kind == "decoder_self" else "source",
    )
    sentence: list[int] = []
    position: list[int] = []
    counts: list[int] = []
    labels: list[str] = []
    for role, side in zip(("query", "key"), names, strict=True):
        vocabulary = vocabulary_of(selection, side)
        for number, pair in enumerate(sentences):
            ids = ids_in(pair, kind)[role == "key"]
            sentence += [number] * len(ids)
            position += range(len(ids))
            counts += vocabulary.counts[ids].tolist()
            read = [vocabulary.labels[id] for id in ids]
            if role == "query" and side == "target":
                predicted = (vocabulary.labels[id] for id in pair.target[1:])
                read = [f"{a} → {b}" for a, b in zip(read, predicted, strict=True)]
            labels += [f"{label} ({role})" for label in read]
    return _Points(
        np.array(sentence),
        np.array(position),
        np.array(counts) if selection.run.counts is not None else None,
        labels,
        sum(len(ids_in(pair, kind)[0]) for pair in sentences),
    )


def _cloud(points: _Points, places: Floats, colour: str) -> Cloud:
    number = len(points.labels)
    if colour == "frequency" and points.counts is not None:
        group, groups = frequency_groups(points.counts)
    elif colour == "position":  # 1, 2 to 3, 4 to 7, …
        group = np.floor(np.log2(points.position + 1)).astype(np.int64) + 1
        starts = [2**doubled for doubled in range(int(group.max()))]
        groups = ["", *("place 1" if at == 1 else f"places {at} to {2 * at - 1}" for at in starts)]
    else:
        group, groups = np.where(np.arange(number) < points.queries, 2, 1), ["", "key", "query"]
    return Cloud(
        points=places,
        labels=points.labels,
        counts=None if points.counts is None else points.counts.tolist(),
        group=group,
        groups=groups,
        ordered=colour != "side",
    )


def _row_that_looks(scores: Floats, key: int) -> int:
    """Return the row of scores (Q, M), NaN where it may not look, with most weight on a key."""
    weights = np.exp(scores - np.nanmax(scores, axis=1, keepdims=True))
    return int(np.nan_to_num(weights / np.nansum(weights, axis=1, keepdims=True))[:, key].argmax())


# --- what is said --------------------------------------------------------------------------------


def _in_words(selection: Selection, head: Head, sentences: int, drawn: _Drawn, here: int) -> str:
    queries, keys = len(drawn.vectors.queries), len(drawn.vectors.keys)
    (of_space, of_plane), (by_space, by_plane) = drawn.agreements[here], drawn.by_construction[here]
    first, second = (f"{share:.1%}" for share in drawn.shares)
    relative = head.kind != "cross" and selection.run.description.positions == "relative"
    return (
        f"{queries:,} queries and {keys:,} keys of {head_label(head)} at checkpoint "
        f"{selection.step:,} in the first {sentences} example sentences, their targets "
        f"forced. Queries are divided by {drawn.joint.c:.3g} and keys multiplied by it, so that "
        "their products stay; then one vector is added to all keys, which changes no softmax, so "
        "that both have the same centre. The factor is that with which nearness and score agree "
        "most (after Yeh et al. 2023, AttentionViz). Rank correlation of nearness and score within "
        f"rows, 1 if the nearest key always has the largest weight: {_written(of_space)} in all "
        f"{drawn.joint.rows.shape[1]} dimensions, {_written(of_plane)} in the plane, whose two "
        f"directions have {first} and {second} of the variance. 95% intervals are by resamples of "
        f"the sentences; with the keys of each row permuted it is {_number(of_space.chance)}. A "
        "distance has the product in it: vectors as long in random directions have "
        f"{_number(by_space.value)} in all dimensions and {_number(by_plane.value)} in a plane."
        + " What relative positions add to the scores is no product of a query and a key, and is "
        "not in the plane; the scores have it."
        * relative
        + " Other checkpoints are turned onto this one as a whole, which changes no distance."
        * (len(drawn.points) > 1)
        + " A query sees keys of its own sentence only: near points of two sentences say nothing "
        "of a weight, and a near key is one that is looked at, not one that is used. A click on a "
        "key opens the row that looks at it most."
    )


def _written(found: Agreement) -> str:
    interval = f" [{_number(found.low)}, {_number(found.high)}]" * (not math.isnan(found.low))
    return _number(found.value) + interval


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"  # no -0.00
