"""Registers components with Streamlit: each has a script, a style, and one element to draw in."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent
_RELATIVE_IMPORT = re.compile(r'from "\./(\w+\.js)"')


@cache
def component(name: str) -> Callable[..., object]:
    """Register the component that ``name.js`` draws, in an element of the class ``name``.

    Returns:
        A function that draws it; its arguments are Streamlit's. The script finds ``data`` in a list
        of one.
    """
    draw = st.components.v2.component(
        f"headwise_{name}",
        html=f'<div class="{name}"></div>',
        css=(_HERE / f"{name}.css").read_text(encoding="utf-8"),
        js=script(f"{name}.js"),
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


def script(file_name: str) -> str:
    """Read an ES module, with the modules that it imports.

    The browser gets a component's script from Streamlit as a ``blob:`` URL, from which it can
    resolve no relative import. So ``from "./other.js"`` becomes ``from "data:…"`` with the text of
    that module. Equal ``data:`` URLs are one module, also to several components.
    """
    text = (_HERE / file_name).read_text(encoding="utf-8")
    return _RELATIVE_IMPORT.sub(lambda found: f'from "{_data_url(script(found[1]))}"', text)


def _data_url(text: str) -> str:
    return "data:text/javascript;base64," + base64.b64encode(text.encode()).decode("ascii")
