"""Draw the queries and keys of a head over example sentences in one plane."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import streamlit as st

from headwise.model.interface import Head, Kind, Side, head_name
from headwise.viz_app.analysis.embeddings import frequency_groups, project_together
from headwise.viz_app.analysis.labels import interval_text
from headwise.viz_app.components.scatter import Cloud, Frames, scatter
from headwise.viz_app.core.batches import EncodedPair
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.heads.plane.vectors import (
    ReadHead,
    ScoreAgreement,
    agreement,
    first_sentences,
    ids_in,
    read_head,
)
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.asked import ask_sentences
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import weights_sha256
from headwise.viz_app.session.example_rows import open_row
from headwise.viz_app.session.head_choice import chosen_head, head_label
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import each_in_slices
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.session.vocabulary import vocabulary_of
from headwise.viz_app.session.widgets import choose_one, show_figure

_SENTENCES, _MOST_POINTS = 60, 1_500
"""Most sentences of the sample, and most queries and keys of them together."""
_MOST_STEPS = 24
"""Most checkpoints, the one at hand besides."""


class _Point(NamedTuple):
    """A token of a sentence, as a query or as a key."""

    sentence: int
    """Its place among the sentences."""
    position: int
    """In its source or target, from 0."""
    role: str
    label: str
    occurrences: int
    """In the training data; 0 if they are not known."""


@panel("head_plane")
def show_plane(selection: Selection, measures: Measures) -> None:
    """Ask of which checkpoints queries and keys are drawn, and draw them."""
    run, head = selection.run, chosen_head(selection.run.description, view())
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        several = ["through training"] * (len(run.steps()) > 1)
        shown = choose_one("Show", ["this checkpoint", *several], key="plane")
        colours = ["side", *["frequency"] * (run.counts is not None), "position"]
        colour = choose_one("Colour by", colours, key="plane_colour")
    encoded = Sentences.examples(run, measures)
    sentences = first_sentences(encoded.pairs[:_SENTENCES], head.kind, most_points=_MOST_POINTS)
    steps = [selection.step]
    if shown == "through training":
        steps = selection.steps(_MOST_STEPS)
        selection.say_steps(steps)
    found = each_in_slices(
        "Reading queries and keys of checkpoints",
        steps,
        lambda step: ask_sentences(read_head, run, step, replace(encoded, pairs=sentences), head),
        key="plane-progress",
        stop=lambda: change_view(plane="this checkpoint"),
    )
    if found is None:
        return
    here = steps.index(selection.step)
    hashes = tuple(weights_sha256(run, step) for step in steps)

    def project() -> tuple[Floats, tuple[float, float], list[ScoreAgreement]]:
        placed, plane = project_together([each.rows for each in found], found[here].rows)
        agreements = [agreement(flat, of.vectors) for flat, of in zip(placed, found, strict=True)]
        return placed, plane.shares, agreements

    placed, shares, agreements = cached(  # (C, n + m, 2), of the variance, of each checkpoint
        "plane of queries and keys",
        (str(run.folder), encoded.sha256, head, hashes, here),
        project,
        facts=lambda _: {"run": run.name, "checkpoints": len(steps)},
    )
    points = _points_of(selection, sentences, head.kind)

    def open_point(place: int) -> None:
        from scipy.special import softmax  # imported late: only a click needs it

        at = points[place]
        query = at.position
        if at.role == "key":  # the query with most weight on it
            scores = found[here].vectors.scores[at.sentence]  # (n, m)
            weights = softmax(np.where(np.isnan(scores), -np.inf, scores), axis=1)
            query = int(weights[:, at.position].argmax())
        open_row(measures, head, sentences[at.sentence].number, query)

    same = {n for n, each in enumerate(sentences) if each.pair.source == selection.text}
    frames = Frames([f"step {step:,}" for step in steps], placed)
    scatter(
        _cloud(points, placed[-1], colour, counted=run.counts is not None),
        sentence=[place for place, point in enumerate(points) if point.sentence in same],
        searched=[],
        content_id=f"{weights_sha256(run, selection.step)} {head} {steps}",
        theme=selection.theme,
        name=f"headwise-{run.name}-{head_name(head)}-plane",
        key="plane_cloud",
        frames=frames if len(steps) > 1 else None,
        on_click=open_point,
        action="opens its row on Translate",
    )
    in_space, in_plane = map(_written, (found[here].in_space, agreements[here]))
    st.caption(
        f"Rank correlation of nearness and score: {in_space} in all dimensions, {in_plane} in the "
        "plane."
    )
    with st.expander("How the plane is made", key="how-plane", type="compact"):
        st.caption(
            _in_words(selection, head, len(sentences), found[here], in_plane, shares)
            + " Other checkpoints are turned onto this one as a whole, which changes no distance."
            * (len(steps) > 1)
            + " A query sees keys of its own sentence only: near points of two sentences say "
            "nothing of a weight, and a near key is one that is looked at, not one that is used. A "
            "click on a key opens the row that looks at it most."
        )
    lines = np.array(
        [
            (read.in_space.value, flat.value, read.by_construction[0], read.in_space.chance)
            for read, flat in zip(found, agreements, strict=True)
        ],
        np.float32,
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


def _points_of(selection: Selection, sentences: Sequence[EncodedPair], kind: Kind) -> list[_Point]:
    """Return the tokens of all queries, then of all keys, sentence by sentence."""
    sides: tuple[Side, Side] = (
        "source" if kind == "encoder_self" else "target",
        "target" if kind == "decoder_self" else "source",
    )
    points = []
    for role, side in zip(("query", "key"), sides, strict=True):
        vocabulary = vocabulary_of(selection, side)
        labels, counts = vocabulary.labels, vocabulary.counts
        for sentence, pair in enumerate(sentences):
            for position, id in enumerate(ids_in(pair, kind)[role == "key"]):
                label = labels[id]
                if role == "query" and side == "target":
                    label += f" → {labels[pair.target[position + 1]]}"
                label += f" ({role})"
                points.append(_Point(sentence, position, role, label, int(counts[id])))
    return points


def _cloud(points: Sequence[_Point], places: Floats, colour: str, *, counted: bool) -> Cloud:
    counts = [point.occurrences for point in points]
    if colour == "frequency":
        group, groups = frequency_groups(np.array(counts))
    elif colour == "position":  # 1, 2 to 3, 4 to 7, …
        group = np.array([(point.position + 1).bit_length() for point in points])
        starts = [2**doubled for doubled in range(1, int(group.max()))]
        groups = ["", "place 1", *(f"places {at} to {2 * at - 1}" for at in starts)]
    else:
        groups = ["", "key", "query"]
        group = np.array([groups.index(point.role) for point in points])
    return Cloud(
        points=places,
        labels=[point.label for point in points],
        counts=counts if counted else None,
        group=group,
        groups=groups,
        ordered=colour != "side",
    )


def _in_words(
    selection: Selection,
    head: Head,
    sentences: int,
    read: ReadHead,
    in_plane: str,
    shares: tuple[float, float],
) -> str:
    queries, keys = (sum(map(len, each)) for each in read.vectors[:2])
    by_chance, by_space, by_plane = map(_number, (read.in_space.chance, *read.by_construction))
    first, second = (f"{share:.1%}" for share in shares)
    relative = head.kind != "cross" and selection.run.description.positions == "relative"
    return (
        f"{queries:,} queries and {keys:,} keys of {head_label(head)} at checkpoint "
        f"{selection.step:,} in the first {sentences} example sentences, their targets "
        f"forced. Queries are divided by {read.c:.3g} and keys multiplied by it, so that "
        "their products stay; then one vector is added to all keys, which changes no softmax, so "
        "that both have the same centre. The factor is that with which nearness and score agree "
        "most (after Yeh et al. 2023, AttentionViz). Rank correlation of nearness and score within "
        f"rows, 1 if the nearest key always has the largest weight: {_written(read.in_space)} in "
        f"all {read.rows.shape[1]} dimensions, {in_plane} in the plane, whose two "
        f"directions have {first} and {second} of the variance. 95% intervals are by resamples of "
        f"the sentences; with the keys of each row permuted it is {by_chance}. A "
        "distance has the product in it: vectors as long in random directions have "
        f"{by_space} in all dimensions and {by_plane} in a plane."
        + " What relative positions add to the scores is no product of a query and a key, and is "
        "not in the plane; the scores have it." * relative
    )


def _written(found: ScoreAgreement) -> str:
    ends = interval_text(found.low, found.high)
    return _number(found.value) + f" ({ends})" * bool(ends)


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"  # no -0.00
