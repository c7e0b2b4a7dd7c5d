"""The section "embeddings" of the page Training: pairs of tokens, and the moving vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from headwise.model.interface import Side
from headwise.viz_app.analysis.embeddings import (
    Components,
    all_pairs,
    most_frequent,
    pair_cosines,
    rotate_onto,
)
from headwise.viz_app.components.scatter import Frames, scatter
from headwise.viz_app.figures.checkpoint_lines import named_lines
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.session.cache import cached
from headwise.viz_app.session.caches import embeddings_of, source_of, translation_of, weights_of
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
from headwise.viz_app.session.widgets import choose_on_slider, choose_one, show_figure
from headwise.viz_app.training.checkpoints import at_each, has_several, say_left_out

_MOST_TOKENS = 4
_NUMBERS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
_FIRST_NUMBER = 1_000


def show_embeddings(selection: Selection) -> None:
    """Draw the section."""
    if has_several(selection.run, "follow"):
        _show_followed(selection)


@panel("followed")
def _show_followed(selection: Selection) -> None:
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        followed = choose_one(
            "Followed",
            ["pairs", "vocabulary"],
            key="followed",
            format_func={
                "pairs": "Similarity of pairs",
                "vocabulary": "The vocabulary as it moves",
            }.__getitem__,
            show_label=False,
        )
        side: Side = choose_one(
            "Side",
            ["source", "target"],
            key="side",
            show_label=False,
            help="The source enters the encoder; the target the decoder. Where both share one "
            "table, the side decides which tokens are marked at first.",
        )
        vocabulary, chosen = _tokens(selection, side)
    draw = _show_pairs if followed == "pairs" else _show_moving
    draw(selection, vocabulary, chosen)


def _show_pairs(selection: Selection, vocabulary: SideVocabulary, ids: Sequence[int]) -> None:
    run, steps, unique = selection.run, selection.steps(), tuple(dict.fromkeys(ids))
    lines = st.container()
    found, problems = at_each(
        selection,
        lambda step: embeddings_of(run, step, vocabulary.side, unique),
        first=[selection.step, steps[0]],
        key="followed",
    )
    with lines:
        say_left_out(problems)
        pairs = all_pairs(ids)
        if selection.step in found and not pairs:
            st.info("Choose two tokens or more.")
        elif selection.step in found:
            there = [*found]
            names = [" ~ ".join(vocabulary.labels[id] for id in pair) for pair in pairs]
            cosines = pair_cosines([*found.values()], all_pairs(range(len(unique))))
            ends = "; ".join(
                f"{name} from {first:.2f} to {last:.2f}"
                for name, first, last in zip(names, cosines[0], cosines[-1], strict=True)
            )
            figure = named_lines(
                cosines,
                steps=there,
                names=names,
                title="cosine",
                theme=selection.theme,
                marked=there.index(selection.step),
            )
            alt = f"Cosines of embeddings from step {there[0]:,} to {there[-1]:,}: {ends}"
            show_figure(figure, key="pair_lines", alt=alt)
            untrained = there[0] == 0 and run.config is not None
            chance = " At step 0 it is as chance had it, near 0." * untrained
            st.caption(
                f"Cosine of the embeddings of two tokens, in {vocabulary.name}.",
                help=f"It is 1 for the same direction.{chance} Checkpoints are evenly spaced; the "
                "vertical line is at the one in use.",
            )
        selection.say_steps(steps)


def _tokens(selection: Selection, side: Side) -> tuple[SideVocabulary, list[int]]:
    """Ask for tokens, at first some of the sentence; return the vocabulary and their ids."""
    vocabulary = vocabulary_of(selection, side)
    run, step, text = selection.run, selection.step, selection.text
    own = source_of(run, text) if side == "source" else translation_of(run, step, text)[1:]
    letters = {id: sum(map(str.isalpha, vocabulary.labels[id])) for id in dict.fromkeys(own)}
    longest = sorted(letters, key=lambda id: -letters[id])[:_MOST_TOKENS]
    return vocabulary, choose_tokens(
        selection,
        vocabulary,
        "Tokens",
        most=_MOST_TOKENS,
        key="pair_tokens",
        default=[id for id in letters if id in longest],
    )


def _show_moving(selection: Selection, vocabulary: SideVocabulary, marked: Sequence[int]) -> None:
    run, steps, above = selection.run, selection.steps(), st.container()
    left, right = st.columns(2, gap="medium")
    number = choose_number(left, vocabulary, _NUMBERS, first=_FIRST_NUMBER, key="moving_number")
    with right:
        frame = choose_on_slider(
            "In the frame of checkpoint",
            steps,
            key="moving_frame",
            default=steps[-1],
            format_func="{:,}".format,
            help="The plane is that of the first two principal components of this checkpoint's "
            "embeddings. Those of the others are first turned onto them as a whole (orthogonal "
            r"Procrustes): $\min_R \lVert X R - Y \rVert$ with $R^\top R = I$.",
        )
    ids = most_frequent(vocabulary.counts, number)
    found, problems = at_each(
        selection,
        lambda step: _moved(selection, vocabulary, ids, step=step, frame=frame),
        first=[selection.step, frame, steps[0]],
        key="followed",
    )
    with above:
        say_left_out(problems)
        if found:
            newest, plane = found[max(found)]
            places = {int(id): place for place, id in enumerate(ids)}
            scatter(
                cloud_of(vocabulary, ids, newest),
                sentence=[],
                searched=[places[id] for id in marked if id in places],
                content_id=f"{weights_of(run, frame).sha256} {vocabulary.table_side} {len(ids)}",
                theme=selection.theme,
                name=f"headwise-{run.name}-{vocabulary.side}-moving",
                key="moving",
                frames=Frames(
                    [f"step {step:,}" for step in found],
                    np.stack([points for points, _ in found.values()]),
                ),
            )
            first, second = (f"{share:.1%}" for share in plane.shares)
            missing = " ".join(vocabulary.labels[id] for id in marked if id not in places)
            away = f" Not among these {len(ids):,}: {escape_markdown(missing)}." * bool(missing)
            st.caption(
                f"The way of the tokens chosen above, in the plane of step {frame:,}.{away}",
                help=f"The two directions of this plane have {first} and {second} of the variance "
                "of its checkpoint. All others are turned onto it as a whole; distances between "
                "tokens are as they were. Between two checkpoints the way is drawn straight: what "
                "happened there is not known.",
            )
        selection.say_steps(steps)


def _moved(
    selection: Selection,
    vocabulary: SideVocabulary,
    ids: NDArray[np.int64],
    *,
    step: int,
    frame: int,
) -> tuple[Floats, Components]:
    """Project some tokens of a checkpoint, (n, 2), into the plane of another, turned onto it."""
    run, tokens = selection.run, tuple(ids.tolist())
    asked, onto = (weights_of(run, one).sha256 for one in (step, frame))

    def rows(step: int) -> Floats:
        return embeddings_of(run, step, vocabulary.side, tokens)

    plane = plane_of(onto, vocabulary.table_side, len(ids), lambda: rows(frame))
    points = cached(
        "movement",
        (asked, onto, vocabulary.table_side, len(ids)),
        lambda: rotate_onto(rows(step), rows(frame)) @ plane.directions,
    )
    return points, plane
