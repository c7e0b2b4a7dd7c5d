"""Registers components with Streamlit: each has a script, a style, and one element to draw in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

SCRIPTS = {path.name: path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.js"))}
"""The ES modules of all components, which import each other, by name: the app serves them."""
SCRIPTS_AT = "_scripts"
VERSION = hashlib.sha256(b"".join(SCRIPTS.values())).hexdigest()[:12]
_LOAD = """const { default: draw } = await import(new URL("PLACE", document.baseURI));
export default draw;"""


def script_place(name: str) -> str:
    """Return where a browser finds a script, seen from any page; another version is elsewhere."""
    return f"./{SCRIPTS_AT}/{VERSION}/{name}"


@cache
def component(name: str, *, isolated: bool = True) -> Callable[..., object]:
    """Register the component that ``name.js`` draws, in an element of the class ``name``.

    What is ``isolated`` has a style of its own, and is not reached by that of the page.

    Returns:
        A function that draws it; its arguments are Streamlit's. The script finds ``data`` in a list
        of one.
    """
    draw = st.components.v2.component(
        f"headwise_{name}",
        html=f'<div class="{name}"></div>',
        css=Path(__file__).with_name(f"{name}.css").read_text(encoding="utf-8"),
        # Streamlit sends this with all that a component is given, at each click.
        js=_LOAD.replace("PLACE", script_place(f"{name}.js")),
        isolate_styles=isolated,
    )

    def mount(*, data: Mapping[str, object] | None = None, **arguments: Any) -> object:
        # Streamlit looks for data frames among the values of a dict, not of a list. It would import
        # pandas and pyarrow for that: half a second, and 66 MB of memory.
        return draw(data=[data], **arguments)

    return mount


def sent_value(key: str, what: str) -> Any:
    """Return what the browser sent for a trigger of a component in this run, or None.

    The component may be gone: a browser can send a click before it draws the page that came next.
    """
    return getattr(st.session_state.get(key), what, None)
