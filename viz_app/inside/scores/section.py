"""Draw a score taken apart: what parts of the query make with parts of the chosen key.

The table is grouped by layer for reading. ``A`` parts of the query, ``C`` parts of a key, ``M``
keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from headwise.model.interface import Head, Kind, head_name
from headwise.model.ties import descending
from headwise.viz_app.analysis.labels import part_label
from headwise.viz_app.core.circuits import ScoreParts, score_parts
from headwise.viz_app.figures.parts import score_map
from headwise.viz_app.records.trace import Doubles, Trace
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


CANCELS = 3.0
"""Times the magnitude of a sum from which on its terms are said to cancel, not to share it."""
_MOST_NAMED = 3


@dataclass(frozen=True)
class ScoreTable:
    """The table of one key, or of its difference from the mean key, with its rows grouped."""

    against_mean: bool
    rows: tuple[str, ...]
    """Names of the query's parts: ``token``, ``position``, ``layer.1``, ``biases``, or, of a layer
    that is unfolded, those of its heads and its feed-forward."""
    columns: tuple[str, ...]
    """The same of the key's."""
    cells: Doubles
    """(rows, columns)."""
    relative: float | None
    """What relative positions add; None where positions are embedded."""
    of_keys: str
    """What tells the key's parts from the query's in words: ``encoder``, of cross-attention."""
    limit: float
    """The largest magnitude in the tables of all keys of the row, with no layer unfolded."""

    @property
    def total(self) -> float:
        """Return the score, or how far it is from the row's mean."""
        return float(self.cells.sum()) + (self.relative or 0.0)

    def terms(self) -> dict[str, float]:
        """Return all that the total is the sum of, by what people read."""
        found = {
            f"{group_label(row)} × {self.of_keys}{group_label(column)}": float(self.cells[y, x])
            for y, row in enumerate(self.rows)
            for x, column in enumerate(self.columns)
        }
        return found if self.relative is None else {"relative position": self.relative} | found


def layers_of(names: Mapping[str, Doubles]) -> int:
    """Return how many layers have written parts of a query or a key."""
    return max((_layer(name) for name in names), default=0)


def score_table(
    parts: ScoreParts,
    key: int,
    *,
    against_mean: bool = False,
    query_layer: int = 0,
    key_layer: int = 0,
) -> ScoreTable:
    """Return the table of a key, its layers as groups but for one that is unfolded on each side.

    With ``against_mean`` the mean over the keys that the query may attend to is taken off, since a
    softmax sees only differences within a row. ``query_layer`` and ``key_layer`` are unfolded into
    heads and feed-forward, from 1; 0 for none. A key beyond the row's is a ValueError.
    """
    tables = parts.tables()  # (A, C, M)
    if not 0 <= key < tables.shape[-1]:
        raise ValueError(f"key: expected 0 to {tables.shape[-1] - 1}, got {key}")
    relative = parts.relative
    if against_mean:
        tables = tables - tables.mean(axis=-1, keepdims=True)
        relative = None if relative is None else relative - relative.mean()

    def grouped(*unfolded: int) -> tuple[tuple[str, ...], tuple[str, ...], Doubles]:
        rows, by_row = _sums(tables, [*parts.query_parts], unfolded[0])
        columns, cells = _sums(by_row.swapaxes(0, 1), [*parts.key_parts], unfolded[1])
        return rows, columns, cells.swapaxes(0, 1)

    rows, columns, cells = grouped(query_layer, key_layer)
    return ScoreTable(
        against_mean=against_mean,
        rows=rows,
        columns=columns,
        cells=cells[..., key],
        relative=None if relative is None else float(relative[key]),
        of_keys="encoder " * (_of_encoder(parts.key_parts) and not _of_encoder(parts.query_parts)),
        limit=float(np.abs(grouped(0, 0)[2]).max()) or 1.0,
    )


def _of_encoder(names: Mapping[str, Doubles]) -> bool:
    return any(name.startswith("encoder_self") for name in names)


def group_label(name: str) -> str:
    """Return how people read the name of a part or a group, such as ``layer.2``."""
    return part_label(name).lower()


def score_sentence(table: ScoreTable) -> str:
    """Say which terms of a table are largest, and how much of the score each is."""
    terms, total = table.terms(), table.total
    what = "The score less the row's mean" if table.against_mean else "The score"
    magnitude = sum(map(abs, terms.values()))
    if not magnitude:  # such as the mean key's, where the query has only one
        return f"{what} is 0, and so is each of its terms."
    names, values = [*terms], np.array([*terms.values()])
    named = [names[place] for place in descending(np.abs(values))[:_MOST_NAMED]]
    cancel = magnitude > CANCELS * abs(total)
    said = [
        f"{terms[name]:+.2f}{'' if cancel else f' ({terms[name] / total:.2f} of it)'} is {name}"
        for name in named
    ]
    rest = total - sum(terms[name] for name in named)
    sentence = f"{what} is {total:+.2f}: {', '.join(said)}"
    if others := len(terms) - len(named):
        sentence += f", and {rest:+.2f} the other {others} together"
    if cancel:
        sentence += (
            f". Terms cancel: their magnitudes sum to {magnitude:.2f}, so that none has a share of "
            "the score"
        )
    return f"{sentence}."


def word_or_place(table: ScoreTable) -> str:
    """Say how much of a table is of the words, of their places, and of what layers have made."""
    layers, biases = "with what layers wrote", "with biases"
    sums = dict.fromkeys(("token × token", "position × position", "token × position"), 0.0)
    sums |= {layers: 0.0, biases: 0.0}
    for y, x in np.ndindex(*table.cells.shape):
        sides = table.rows[y], table.columns[x]
        name = " × ".join(sorted(sides, reverse=True))  # the token first
        if not {*sides} <= {"token", "position"}:
            name = biases if "biases" in sides else layers
        sums[name] += float(table.cells[y, x])
    said = ", ".join(f"{name} {value:+.2f}" for name, value in sums.items() if value)
    return f"By word or place: {said}." if said else ""


def _layer(name: str) -> int:
    """Return the layer that wrote a part, from 1; 0 for one that is of no layer."""
    return int(name.split(".")[1]) if "." in name else 0


def _sums(tables: Doubles, names: Sequence[str], unfolded: int) -> tuple[tuple[str, ...], Doubles]:
    """Sum the parts of each layer, along the first axis, but for one layer: (groups, …)."""
    layers = [_layer(name) for name in names]
    groups = [
        f"layer.{layer}" if layer and layer != unfolded else name
        for name, layer in zip(names, layers, strict=True)
    ]
    order = [*dict.fromkeys(groups)]
    sums = np.zeros((len(order), *tables.shape[1:]))
    np.add.at(sums, [order.index(group) for group in groups], tables)
    return tuple(order), sums
