"""Draw a score taken apart: what parts of the query make with parts of the chosen key."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headwise.model.interface import Head, Kind, head_name
from headwise.viz_app.core.circuits import ScoreParts, score_parts
from headwise.viz_app.figures.parts import score_map
from headwise.viz_app.inside.scores.table import (
    ScoreTable,
    group_label,
    layers_of,
    score_sentence,
    score_table,
    word_or_place,
)
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.asked import ask_trace
from headwise.viz_app.session.download import Files
from headwise.viz_app.session.head_choice import chosen_head
from headwise.viz_app.session.markdown import escape_markdown, power_of_ten
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.session.widgets import (
    choose_from_list,
    choose_one,
    clicked_value,
    show_figure,
    show_heading,
)

_HELD = (
    "The query is a sum over what was written into the stream at its token, the key over what was "
    "written at its own, and so their product is a table. The divisors of norms are held at their "
    "values in this pass, so that it is exact."
)


def show_score_parts(
    selection: Selection, trace: Trace, head: Head, row: int, key: int, label: str
) -> None:
    """Draw the table of the score of a query with a key, which is called ``label``."""
    with st.container(border=True, key="score-parts-step"):
        show_heading("Which parts of the stream make this score")
        parts = ask_trace(score_parts, selection.run, trace, head, row)
        if key >= len(parts.scores):
            st.caption("The mask forbids this key: it has no part in the softmax.")
            return
        table = _choose_table(parts, key)
        st.markdown(escape_markdown(f"{score_sentence(table)} {word_or_place(table)}"))
        show_figure(
            score_map(
                table.cells,
                rows=[*map(group_label, table.rows)],
                columns=[*map(group_label, table.columns)],
                titles=_titles(head.kind),
                limit=table.limit,
                theme=selection.theme,
            ),
            key="score_parts",
            alt=f"{len(table.rows)} parts of the query by {len(table.columns)} parts of the key: "
            "what each pair adds to the score",
            name=f"score-{key + 1}",
            on_select=lambda: _unfold(table),
        )
        st.caption(f"“{escape_markdown(label)}”: {' '.join(_notes(parts, table))}")


def _choose_table(parts: ScoreParts, key: int) -> ScoreTable:
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        against = choose_one(
            "Of this key",
            ["nothing", "mean key"],
            key="against",
            format_func=lambda name: "the score" if name == "nothing" else "less the mean key",
            help="A softmax sees only differences within a row. The mean is over the keys that the "
            "query may look at; what is the same for all of them is 0 then.",
        )
        unfolded = {
            f"{side}_layer": choose_from_list(
                f"Layer unfolded, {side}",
                [0, *range(1, layers_of(names) + 1)],
                key=f"{side}_layer",
                format_func=lambda layer: str(layer) if layer else "none",
                width=180,
            )
            for side, names in (("query", parts.query_parts), ("key", parts.key_parts))
            if layers_of(names)
        }
    return score_table(parts, key, against_mean=against == "mean key", **unfolded)


def _titles(kind: Kind) -> tuple[str, str]:
    """Say of which stack the parts of query and key are."""
    sides = ("encoder",) * 2 if kind == "encoder_self" else ("decoder",) * 2
    query, key = ("decoder", "encoder") if kind == "cross" else sides
    return f"part of the query ({query})", f"part of the key ({key})"


def _unfold(table: ScoreTable) -> None:
    """Unfold the layers of the clicked cell; fold those of one that is unfolded."""
    place = clicked_value("score_parts")
    if place is None:
        return
    y, x = map(int, place.split(","))
    chosen = {"query_layer": table.rows[y], "key_layer": table.columns[x]}
    layers = {
        field: int(name.split(".")[1]) if name.startswith("layer.") else 0
        for field, name in chosen.items()
        if "." in name
    }
    if layers:
        change_view(**layers)


def _notes(parts: ScoreParts, table: ScoreTable) -> list[str]:
    notes = [_HELD]
    if table.relative is not None:
        notes.append(
            f"This model adds {table.relative:+.2f} for the distance between the two, which is no "
            "product of parts."
        )
    elif "position" not in parts.query_parts:
        notes.append("Positions are not among the parts: this model adds none to its embeddings.")
    of_keys = parts.key_parts["biases"]  # (M, K)
    if not (of_keys.any() or parts.query_parts["biases"].any()):
        notes.append("It has no biases.")
    elif np.allclose(of_keys, of_keys[0], rtol=1e-4, atol=1e-6):
        notes.append("Biases, of projections and norms, are the same for every key.")
    else:
        notes.append(
            "Biases, of projections and norms, differ between keys: what went through a norm is "
            "divided by that of each token."
        )
    if any(name.startswith("layer.") for name in (*table.rows, *table.columns)):
        notes.append("A click on a layer unfolds it into its heads and its feed-forward.")
    off = power_of_ten(parts.deviation)
    notes.append(f"Largest distance of a sum from the model's own score: {off}.")
    return notes


def files_of_scores(selection: Selection, trace: Trace) -> Files | None:
    """Return the tables of all keys of the chosen query as a file."""
    head = chosen_head(selection.run.description, view())
    row = view().inside.query or 0

    return Files(
        "The scores of this query taken apart, for every key",
        f"headwise-{trace.run}-{trace.step}-scores-{head_name(head)}-query{row + 1}",
        {"npz": lambda: ask_trace(score_parts, selection.run, trace, head, row).file(".npz")},
    )
