"""Open another page by a click, with some choices made."""

from __future__ import annotations

from typing import Any, Literal

import streamlit as st

from headwise.viz_app.views.shared.view import change_view

PageName = Literal[
    "translate", "inside", "why", "architecture", "embeddings", "training", "heads", "learn"
]
"""The names that the pages have in the address."""
THE_HEAD_ALONE: dict[str, Any] = {"show": "head", "compare": False}
"""Choices with which Translate shows the map of the chosen head, of one checkpoint."""


def open_page(page: PageName, **choices: Any) -> None:
    """Open a page from the callback of a click, after changing the view."""
    change_view(**choices)
    st.session_state["opening"] = page
    st.rerun()


def page_to_open() -> PageName | None:
    """Return, once, the page that ``open_page`` has named, if any."""
    page: PageName | None = st.session_state.pop("opening", None)
    return page


def show_link(label: str, page: PageName, *, key: str, **choices: Any) -> None:
    """Draw words that open a page, after changing the view, when they are clicked."""
    st.button(
        label,
        key=key,
        type="tertiary",
        icon=":material/arrow_forward:",
        on_click=lambda: open_page(page, **choices),
    )
