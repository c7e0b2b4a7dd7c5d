"""From any page to Translate by a click: a head, at a step, on a sentence and a target."""

from __future__ import annotations

import streamlit as st

from viz_app.analysis.labels import KIND_NAMES
from viz_app.records import Head

_FRAME = ("run", "step", "sentence")
_SHOWN_OTHERWISE = ("show", "compare", "second", "at")
"""What would put something else in the place of the head's own map, or a step of another target."""


def open_on_translate(
    head: Head | None = None,
    *,
    step: int | None = None,
    sentence: str | None = None,
    target: str | None = None,
) -> None:
    """Open Translate; to be called from the callback of a click, which it ends.

    Args:
        head: to be shown; None leaves that as it is.
        step: of the checkpoint, likewise.
        sentence: to be translated, likewise.
        target: to be forced; an empty one leaves it to the model, greedily.
    """
    state = st.session_state
    # What the frame has, too: Streamlit forgets widgets when a page is opened by the program.
    choices: dict[str, object] = {name: state[name] for name in _FRAME if name in state}
    if head is not None:
        kind, layer, number = head
        choices |= {"kind": kind, "layer": layer + 1, "head": number + 1}
    if step is not None:
        choices["step"] = step
    if sentence is not None:
        choices["sentence"] = sentence
    if target is not None:
        choices |= {"target": target, "decoding": "greedy"}
    # Set now, and by ``take_opening`` once more when the page is another: the browser is told only
    # of what is set in the run that draws a widget.
    state.update(choices)
    state["opening"] = choices
    written = {"target": target, "decoding": None}
    if head is not None:
        written |= {"kind": KIND_NAMES[kind], "layer": str(layer + 1), "head": str(number + 1)}
    address = state.get("address", {})
    state["address"] = {
        name: values
        for name, values in address.items()
        if name == "run" or (name not in choices and name not in _SHOWN_OTHERWISE)
    } | {name: [text] for name, text in written.items() if name in choices and text}
    st.rerun()


def is_opening() -> bool:
    """Whether Translate is to be opened, and is not yet."""
    return "opening" in st.session_state


def take_opening() -> None:
    """Set what Translate was opened with, where that is the page, before its widgets are drawn."""
    st.session_state.update(st.session_state.pop("opening", {}))
