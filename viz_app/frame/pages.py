"""Draw the page that an address asks for, in the frame that all pages have."""

from __future__ import annotations

import logging
from collections.abc import Callable

import streamlit as st
from streamlit.logger import get_logger

from headwise.model.placement import use_one_thread
from headwise.viz_app.errors.page import page as errors
from headwise.viz_app.frame import frame
from headwise.viz_app.heads.page import page as heads
from headwise.viz_app.inside.page import page as inside
from headwise.viz_app.learn.page import page as learn
from headwise.viz_app.model.page import page as model
from headwise.viz_app.served import describe_served
from headwise.viz_app.session.cache import drop_unused
from headwise.viz_app.session.errors import show_user_errors
from headwise.viz_app.session.memory import sweep_for_ever, use_few_arenas
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.turns import turns
from headwise.viz_app.session.view import enter, note_unread, write_address
from headwise.viz_app.session.widgets import PAGE_TITLES, PageName, page_to_open
from headwise.viz_app.training.page import page as training
from headwise.viz_app.translate.page import page as translate
from headwise.viz_app.why.page import page as why

_PAGES: dict[PageName, tuple[Callable[[Selection], None], str]] = {
    "learn": (learn, "school"),
    "translate": (translate, "translate"),
    "inside": (inside, "search"),
    "why": (why, "balance"),
    "model": (model, "account_tree"),
    "training": (training, "timeline"),
    "heads": (heads, "grid_view"),
    "errors": (errors, "rule"),
}
"""Page → what draws it, and its icon; in the order in which they are offered."""


def draw_page() -> None:
    """Draw the whole page once."""
    _start()
    selection: Selection | None = None

    def drawn(draw: Callable[[Selection], None]) -> Callable[[], None]:
        def draw_selection() -> None:
            if selection is not None:
                with show_user_errors():
                    draw(selection)

        return draw_selection

    pages = {
        name: st.Page(
            drawn(draw),
            title=PAGE_TITLES[name],
            icon=f":material/{icon}:",
            url_path=name,
            default=name == "translate",
        )
        for name, (draw, icon) in _PAGES.items()
    }
    chosen = st.navigation(list(pages.values()), position="top")
    if opening := page_to_open():
        st.switch_page(pages[opening])
    enter(chosen.url_path)
    with turns().turn():
        selection = frame.select(chosen.url_path)
        chosen.run()
        note_unread()
        write_address()


@st.cache_resource(show_spinner=False)
def _start() -> None:
    """Set up, once for the process, its threads and what the terminal shows.

    Messages look as Streamlit's own. (``--logger.level`` sets the level.)
    """
    use_one_thread()
    use_few_arenas()
    sweep_for_ever(drop_unused)
    get_logger("headwise.viz_app")
    logging.getLogger("headwise.viz_app.app").info("started with %s", describe_served())
