"""The page Errors: what a checkpoint translates badly, a section of it."""

from __future__ import annotations

from collections.abc import Callable

from headwise.viz_app.errors.pairs import show_pairs
from headwise.viz_app.errors.sentences import show_failures
from headwise.viz_app.session.download import show_download_menu
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.widgets import choose_one

_SECTIONS: dict[str, Callable[[Selection], None]] = {
    "failing sentences": show_failures,
    "pairs": show_pairs,
}


def page(selection: Selection) -> None:
    section = choose_one(
        "Section", list(_SECTIONS), key="errors", format_func=str.capitalize, show_label=False
    )
    _SECTIONS[section](selection)
    show_download_menu(selection)
