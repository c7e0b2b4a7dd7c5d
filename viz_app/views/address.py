"""What the address asks of widgets and cannot have: noted, to be said with what is shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import streamlit as st

from viz_app.analysis.labels import visible

_LONGEST = 80
"""Characters of a value that are quoted."""


def check_asked(
    key: str,
    label: str,
    usable: Callable[[str], bool] | None = None,
    *,
    named: Callable[[Any], str] = str,
    several: bool = False,
    parameter: str = "",
) -> None:
    """Note what the address asks of a widget that begins, if that cannot be had.

    To be called before the widget is drawn: Streamlit then takes it out of the address. Of a widget
    that has a value the address says nothing.

    Args:
        key: of the widget.
        label: of the widget.
        usable: whether it takes a value as it stands in an address; None if it takes any text.
        named: writes a choice for people.
        several: whether it takes more than one.
        parameter: its name in the address, if that is not the key.
    """
    if key in st.session_state:
        return
    parameter = parameter or key
    asked = st.query_params.get_all(parameter)
    odd = [value for value in dict.fromkeys(asked) if usable and not usable(value)]
    if not several and len(set(asked)) > 1:
        odd = asked
    if odd:
        quoted = [f"{parameter}={_short(value)}" for value in odd]
        st.session_state.setdefault("unusable", []).append((quoted, label, key, named))


def is_switch(value: str) -> bool:
    """Whether an address may say so for a widget that is on or off."""
    return value.lower() in ("true", "false")


def is_finite(value: str) -> bool:
    """Whether an address may say so for a number; empty is none."""
    try:
        return not value or math.isfinite(float(value))
    except ValueError:
        return False


def take_notes() -> list[str]:
    """What is to be said of the address; to be called when the widgets are drawn."""
    return [_note(*noted) for noted in st.session_state.pop("unusable", [])]


def _note(quoted: list[str], label: str, key: str, named: Callable[[Any], str]) -> str:
    asked = " and ".join(quoted[:3]) + (f" and {len(quoted) - 3} more" if len(quoted) > 3 else "")
    return f"The address has {asked}, which cannot be used here. {label}: {_shown(key, named)}."


def _short(value: str) -> str:
    value = visible(value[: _LONGEST + 1])
    return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"


def _shown(key: str, named: Callable[[Any], str]) -> str:
    value = st.session_state.get(key)
    if isinstance(value, bool):
        return "on" if value else "off"
    chosen = value if isinstance(value, list) else [value] * (value is not None)
    return _short(", ".join(map(named, chosen))) or "nothing"
