"""The page Heads: what each head of a checkpoint does, a section of it, below the chosen head."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from headwise.viz_app.heads.alike.section import show_alike
from headwise.viz_app.heads.atlas import show_atlas
from headwise.viz_app.heads.composition.section import show_composition
from headwise.viz_app.heads.dictionary.section import show_writes
from headwise.viz_app.heads.plane.section import show_plane
from headwise.viz_app.heads.rows.section import show_find
from headwise.viz_app.heads.together.section import show_together
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.head_choice import choose_head
from headwise.viz_app.session.inspector import inspector
from headwise.viz_app.session.measures import measures_of, show_measure_state
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import choose_one

_SECTIONS: dict[str, tuple[Callable[[Selection, Measures], None], ...]] = {
    "atlas": (show_atlas,),
    "writes": (show_writes,),
    "feeds": (),
    "search": (show_find, show_alike),
    "queries and keys": (show_plane,),
    "off together": (show_together,),
}
"""Section → what draws it, in order; that of weights alone needs no measures."""
_NOT_OF_ONE_HEAD = ("feeds", "off together")


def page(selection: Selection) -> None:
    section = choose_one(
        "Section", list(_SECTIONS), key="heads", format_func=str.capitalize, show_label=False
    )
    if section == "feeds":
        show_composition(selection)
    else:
        measured = measures_of(selection.run, (selection.step,))
        measures = measured.by_step.get(selection.step)
        if measures is not None:
            _show_section(selection, measures, section)
        if measures is None or section == "atlas":
            show_measure_state(selection, measured)
    show_download_menu(selection)


@panel("heads-section")
def _show_section(selection: Selection, measures: Measures, section: str) -> None:
    """Draw a section, below the head that it is about."""
    with nullcontext() if section in _NOT_OF_ONE_HEAD else inspector(selection):
        if section not in (*_NOT_OF_ONE_HEAD, "atlas"):  # which has it beside the list
            choose_head(selection.run.description)
        for show in _SECTIONS[section]:
            show(selection, measures)
