"""Panels: parts of a page that run again by themselves when one of their widgets is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import streamlit as st

from headwise.viz_app.views.shared.cache import Stamp, stamp_if_there
from headwise.viz_app.views.shared.errors import show_user_errors
from headwise.viz_app.views.shared.view import apply_changes, write_address

Arguments = ParamSpec("Arguments")


def forget_files() -> None:
    """Forget the files that an earlier run of the page has read."""
    st.session_state["read_files"] = {}


def note_files(*paths: Path) -> None:
    """Note files that the page is about to read."""
    st.session_state["read_files"] |= {path: stamp_if_there(path) for path in paths}


def _files_changed() -> bool:
    """Return whether a noted file has been replaced or removed since."""
    noted: dict[Path, Stamp | None] = st.session_state.get("read_files", {})
    return any(stamp_if_there(path) != stamp for path, stamp in noted.items())


def panel(key: str) -> Callable[[Callable[Arguments, None]], Callable[Arguments, None]]:
    """Make a function a panel: it runs again by itself when one of its widgets is used.

    A panel shows its errors in place. Other panels are drawn again only by ``change_view`` and
    ``redraw_all``. If a noted file has changed, the whole page is drawn again, since the panel's
    arguments were read from the old one.
    """

    def decorate(draw: Callable[Arguments, None]) -> Callable[Arguments, None]:
        @st.fragment(key=key)
        @wraps(draw)
        def run_panel(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            if apply_changes() or _files_changed():
                write_address()  # the browser may have asked with the one from before
                st.rerun()
            with show_user_errors():
                draw(*args, **kwargs)
            write_address()

        return run_panel

    return decorate
