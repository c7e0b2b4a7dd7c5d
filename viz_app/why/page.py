"""The page Why: why the model wrote what it wrote, a section of it."""

from __future__ import annotations

from collections.abc import Callable

from headwise.viz_app.records.trace import Trace
from headwise.viz_app.session.download import Files, show_download_menu
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.target import choose_trace
from headwise.viz_app.session.widgets import choose_one
from headwise.viz_app.why.sentences.section.pair import files_of_patching
from headwise.viz_app.why.sentences.section.two_sentences import show_two_sentences
from headwise.viz_app.why.turn import show_turn_heads
from headwise.viz_app.why.word.section.parts import files_of_account
from headwise.viz_app.why.word.section.this_word import show_this_word

_SECTIONS: dict[str, Callable[[Selection, Trace], Trace | None]] = {
    "this word": show_this_word,
    "two sentences": show_two_sentences,
    "turn heads": show_turn_heads,
}
"""Each draws itself, and returns the trace to download where that is not the page's."""

_FILES: dict[str, Callable[[Selection, Trace], Files | None]] = {
    "this word": files_of_account,
    "two sentences": files_of_patching,
}


def page(selection: Selection) -> None:
    trace = choose_trace(selection)
    section = choose_one("Ask", list(_SECTIONS), key="why", show_label=False)
    shown = _SECTIONS[section](selection, trace)
    show_download_menu(selection, shown or trace, others=_FILES.get(section))
