"""A page with texts in all that takes Markdown; the test that serves it gives them in a file."""

from __future__ import annotations

import json
from collections.abc import Callable

import streamlit as st

from headwise.viz_app.served import runs_folder
from headwise.viz_app.session.markdown import escape_markdown

PLACES: dict[str, Callable[[str], object]] = {
    "markdown": st.markdown,
    "bold": lambda text: st.markdown(f"- **{text}**, and on"),
    "caption": st.caption,
    "title": lambda text: st.title(text, anchor=False),
    "info": st.info,
    "warning": st.warning,
    "error": st.error,
    "success": st.success,
    "button": st.button,
    "download": lambda text: st.download_button(text, b""),
    "menu": lambda text: st.menu_button(text, ["a"]),
    "checkbox": st.checkbox,
    "toggle": st.toggle,
    "radio": lambda text: st.radio(text, ["a"]),
    "radio option": lambda text: st.radio("a", [text]),
    "radio caption": lambda text: st.radio("a", ["a"], captions=[text]),
    "segment": lambda text: st.segmented_control("a", [text], key=f"segment {text}"),
    "pill": lambda text: st.pills("a", [text], key=f"pill {text}"),
    "selectbox": lambda text: st.selectbox(text, ["a"]),
    "multiselect": lambda text: st.multiselect(text, ["a"]),
    "select slider": lambda text: st.select_slider(text, ["a", "b"]),
    "slider": st.slider,
    "slider option": lambda text: st.select_slider("a", [text, f"b {text}"]),
    "text input": st.text_input,
    "text area": st.text_area,
    "number input": st.number_input,
    "expander": lambda text: st.expander(text).write("a"),
    "tab": lambda text: st.tabs([text])[0].write("a"),
    "popover": lambda text: st.popover(text).write("a"),
    "status": lambda text: st.status(text).write("a"),
    "metric": lambda text: st.metric(text, 1),
    "table": lambda text: st.table({"a": [text]}),
}

texts: dict[str, list[str]] = json.loads((runs_folder() / "texts.json").read_text())
for at, text in enumerate(texts["drawn"]):
    with st.container(key=f"text-{at}"):
        st.markdown(escape_markdown(text))
for place, draw in PLACES.items():
    for at, text in enumerate(texts["everywhere"]):
        with st.container(key=f"{place.replace(' ', '-')}-{at}"):
            draw(escape_markdown(text))
st.text("All is drawn.")
