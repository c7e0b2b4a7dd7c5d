"""Unseen parts of a page that tell the app something: that it rests, or that a place is seen."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from headwise.viz_app.components.assets import component

_mount_at_rest = component("at_rest")
_mount_in_sight = component("in_sight")


def draw_again(*, seconds: float, on_due: Callable[[], None], key: str) -> None:
    """Draw the panel that this stands in again after some seconds, once the app rests.

    While nobody sees the page, as in a hidden tab, it is not drawn again. Streamlit's own
    ``run_every`` asks whatever the app is doing. Where it asks right behind another panel, the
    browser keeps on the page what that panel no longer draws (Streamlit 1.67).
    """
    _mount_at_rest(key=key, data={"seconds": seconds}, on_rests_change=on_due)


def is_in_sight(key: str, on_seen: Callable[[], None]) -> bool:
    """Return whether a place of the page has been in sight in this session.

    Until it has, draw it as empty; the panel that it stands in is drawn again once it is seen, and
    ``on_seen`` is called. The session's state has whether it was seen, under ``seen_`` and the key.
    """
    seen = f"seen_{key}"

    def note() -> None:
        st.session_state[seen] = True
        on_seen()

    if not st.session_state.get(seen):
        _mount_in_sight(key=key, on_seen_change=note)
    return bool(st.session_state.get(seen))
