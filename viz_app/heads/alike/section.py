"""Which heads behave as the chosen one does, in this checkpoint, in others, and in other runs."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from headwise.model.interface import Head
from headwise.viz_app.analysis.curves import spread
from headwise.viz_app.components.row_table import Bar, Row, row_table
from headwise.viz_app.core.computed import Sentences
from headwise.viz_app.heads.alike.maps import AlikeHead, heads_alike
from headwise.viz_app.measuring.wording import with_error
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.asked import ask_sentences
from headwise.viz_app.session.caches import Run, runs_beside, weights_of
from headwise.viz_app.session.head_choice import choices_for, chosen_head, head_label
from headwise.viz_app.session.panels import note_files, panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.slices import NoteDone, in_slices
from headwise.viz_app.session.view import change_view, view
from headwise.viz_app.session.widgets import choose_one, open_page, show_heading

_MOST_STEPS = 8
"""Other checkpoints that are compared; of more, some that are spread evenly."""
_MOST_SHOWN = 12
"""Heads that are listed."""
_NOTE = (
    "Distance: the mean, over all rows of the example sentences, their targets forced, "
    "of the Jensen-Shannon distance of the two heads' weights, from 0 to 1. Heads that look at the "
    "same tokens need not do the same with what they find there."
)
_Alike = tuple[Run, int, AlikeHead]
"""A head of a checkpoint."""


@panel("head_alike")
def show_alike(selection: Selection, measures: Measures) -> None:
    """Ask where, and list the heads whose maps are nearest to those of the chosen one."""
    show_heading("Heads like this one")
    if view().heads.alike_in is None:
        st.button(
            "Find similar heads",
            key="find_alike",
            icon=":material/search:",
            on_click=lambda: change_view(alike_in="this checkpoint"),
        )
        return
    where = choose_one("In", ["this checkpoint", "other checkpoints", "other runs"], key="alike_in")
    own, places = selection.run, [(selection.run, selection.step)]
    if where == "other checkpoints":
        others = [step for step in own.steps() if step != selection.step]
        places = [(own, step) for step in spread(others, _MOST_STEPS)]
    elif where == "other runs":
        fitting = runs_beside(own, lambda run: run.tokenizers_sha256 == own.tokenizers_sha256)
        places = [(run, run.steps()[-1]) for run in fitting]
    if not places:
        st.info(
            "There is no other run of this tokenizer, whose maps could be compared."
            if where == "other runs"
            else "The run has no other checkpoint."
        )
        return
    head, sentences = chosen_head(own.description, view()), Sentences.examples(own, measures)

    def compare(note_done: NoteDone) -> tuple[list[_Alike], float]:
        """Return all heads there, nearest first, and the distance of an even one."""
        found: list[_Alike] = []
        for place, (run, step) in enumerate(places):
            note_files(run.weights_path(step))

            def note(done: int, of: int, before: int = place) -> None:
                note_done(before * of + done, len(places) * of)

            noted, other = replace(sentences, note_done=note), weights_of(run, step)
            alike = ask_sentences(heads_alike, own, selection.step, noted, head, other)
            found += [(run, step, each) for each in alike.heads]
        found.sort(key=lambda of: (round(of[2].distance, 6), of[1], of[2].head))
        return found, alike.even

    found = in_slices(
        "Comparing sentences", compare, key="comparing", stop=lambda: change_view(alike_in=None)
    )
    if found is not None:
        _show(selection, head, *found)


def _show(selection: Selection, head: Head, found: list[_Alike], even: float) -> None:
    nearest = found[:_MOST_SHOWN]
    rows = [
        Row(
            str(place),
            (
                head_label(each.head),
                f"{run.name}, " * (run is not selection.run) + f"{step:,}",
                Bar(each.distance, with_error(each.distance, each.error)),
            ),
        )
        for place, (run, step, each) in enumerate(nearest)
    ]

    def open_head(place: str) -> None:
        run, step, each = nearest[int(place)]
        choices: dict[str, object] = {"step": step, **choices_for(each.head)}
        if run is not selection.run:
            choices |= {"run": run.name, "sentence": selection.text}
        open_page("translate", **choices)

    row_table(
        ["head", "checkpoint", "distance"],
        rows,
        label=f"Heads like {head_label(head)}",
        theme=selection.theme,
        key="alike_table",
        on_click=open_head,
        action="Open it on Translate",
    )
    st.caption(
        f"The {len(rows)} nearest to {head_label(head)}, nearest first. A head that spreads its "
        f"weight evenly is at {even:.3f}. {_NOTE}"
    )
