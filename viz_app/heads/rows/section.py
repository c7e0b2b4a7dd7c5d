"""Search the example sentences for rows in which a head puts its weight on something."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from headwise.viz_app.analysis.labels import KIND_NAMES
from headwise.viz_app.components.row_table import Row, row_table
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.rows.query import RowQuery, WantedKeys
from headwise.viz_app.heads.rows.search import FoundRows, find_rows
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.asked import ask_sentences
from headwise.viz_app.session.errors import describe_error
from headwise.viz_app.session.example_rows import marked_row, open_row
from headwise.viz_app.session.head_choice import chosen_head, head_label
from headwise.viz_app.session.markdown import escape_markdown
from headwise.viz_app.session.measures import targets_of
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import in_slices
from headwise.viz_app.session.view import change_view, control, view
from headwise.viz_app.session.widgets import choose_from_list, choose_one, show_heading

_NAMES: dict[WantedKeys, str] = {
    "token": "a token",
    "punctuation": "punctuation",
    "special": "special tokens",
    "same": "an equal token",
    "distance": "a distance",
    "alone": "what no other head looks at",
}
_NOTES: dict[WantedKeys, str] = {
    "same": " A token that equals that of the row, at another place; in cross-attention, one that "
    "equals what is predicted.",
    "distance": " Key less row: −1 in self-attention is the token before.",
    "alone": " A source token on which no other head of cross-attention puts so much in any row; "
    "neither punctuation nor a special token.",
}


@panel("head_found")
def show_find(selection: Selection, measures: Measures) -> None:
    """Ask what is looked for, and list the rows that have it."""
    show_heading("Rows that look at something")
    of = measures.examples_corpus
    st.caption(
        f"A search through the maps of {of.sentences:,} example sentences "
        f"({escape_markdown(of.name)}), for rows that put much weight on what you name."
    )
    if view().heads.found_on is None:
        st.button(
            "Search maps",
            key="find_rows",
            icon=":material/search:",
            on_click=lambda: change_view(found_on="punctuation"),
        )
        return
    head = chosen_head(selection.run.description, view())
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        who = choose_one(
            "Rows of",
            ["this head", "any head"],
            key="found_of",
            format_func=lambda who: (
                head_label(head) if who == "this head" else f"any of {KIND_NAMES[head.kind]}"
            ),
        )
        least = st.number_input(
            "that put at least",
            min_value=0.05,
            max_value=1.0,
            step=0.05,
            width=140,
            **control("found_least", "Least weight", usable=lambda least: 0.05 <= least <= 1),
        )
        offered = [on for on in _NAMES if on != "alone" or head.kind == "cross"]
        on = choose_from_list(
            "on", offered, key="found_on", format_func=lambda on: _NAMES[on], width=220
        )
        if on == "token":
            st.text_input(
                "which",
                placeholder="a word",
                width=160,
                **control("found_token", "Word to look for"),
            )
        if on == "distance":
            st.number_input("of", step=1, width=160, **control("found_distance", "Distance"))
    own = view().heads
    if on == "token" and not own.found_token.strip():
        st.caption("Type a word: rows are listed that look at its tokens.")
        return
    only = head if who == "this head" else None
    query = RowQuery(head.kind, on, least, only, own.found_token, own.found_distance)
    run, sentences = selection.run, Sentences.examples(selection.run, measures)
    try:
        found = in_slices(
            "Searching sentences",
            lambda note_done: ask_sentences(
                find_rows, run, selection.step, replace(sentences, note_done=note_done), query
            ),
            key="searching",
            stop=lambda: change_view(found_on=None),
        )
    except ValueError as error:
        st.warning(describe_error(error))
        return
    if found is not None:
        _show(selection, measures, query, found)


def _show(selection: Selection, measures: Measures, query: RowQuery, found: FoundRows) -> None:
    def open_found(place: str) -> None:
        row = found.rows[int(place)]
        open_row(measures, row.head, row.sentence, row.query)

    rows = []
    for place, row in enumerate(found.rows):
        where = row.sentence, row.head.kind, row.query, row.keys
        marked = marked_row(selection.run, measures, *where)
        rows.append(Row(str(place), (f"{row.weight:.3f}", head_label(row.head), *marked)))
    if rows:
        row_table(
            ["weight", "head", "source", f"target: {targets_of(measures)}"],
            rows,
            label="Rows that were found",
            theme=selection.theme,
            key="found_table",
            on_click=open_found,
            action="Open on Translate at this row, this target forced",
        )
    of = measures.examples_corpus
    share = f" ({found.count / found.of:.1%})" if found.of else ""
    chance = ""
    if found.by_chance is not None:
        chance = f" Heads that spread their weight evenly would have {found.by_chance:,}."
    shown = f" The {len(found.rows)} with the largest weights are listed." * (
        len(found.rows) < found.count
    )
    st.caption(
        f"{found.said}{share} of the {of.sentences:,} example sentences; the "
        f"targets are {targets_of(measures)}.{chance}{shown}{_NOTES.get(query.on, '')} A weight "
        "says where a head looks, not that what lies there is used."
    )
