"""An empty place that says when it is seen, so that what it holds need not be drawn before."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from headwise.viz_app.components.assets import component

_mount = component("in_sight")


def is_in_sight(key: str, on_seen: Callable[[], None]) -> bool:
    """Return whether a place of the page has been in sight in this session.

    Until it has, draw it as empty; the panel that it stands in is drawn again once it is seen.

    Args:
        key: the key of the widget; the session's state has under ``seen_`` and it whether the
            place was seen.
        on_seen: called when it is seen.
    """
    seen = f"seen_{key}"

    def note() -> None:
        st.session_state[seen] = True
        on_seen()

    if not st.session_state.get(seen):
        _mount(key=key, on_seen_change=note)
    return bool(st.session_state.get(seen))
