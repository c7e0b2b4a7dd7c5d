"""The page Errors: what a checkpoint translates badly, a section of it."""

from __future__ import annotations

from headwise.viz_app.errors.pairs import show_pairs
from headwise.viz_app.errors.sentences import show_failures
from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import choose_one


def page(selection: Selection) -> None:
    sections = {"failing sentences": show_failures, "pairs": show_pairs}
    section = choose_one(
        "Section", list(sections), key="errors", format_func=str.capitalize, show_label=False
    )
    sections[section](selection)
    show_download_menu(selection)
