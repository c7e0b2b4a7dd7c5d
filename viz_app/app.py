"""Headwise, the app: ``streamlit run viz_app/app.py``."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from viz_app.views import embeddings, flow, frame, inside, translate
from viz_app.views._session import Selection
from viz_app.views._widgets import keep_across_pages, note_address

st.set_page_config(
    page_title="Headwise", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide"
)


def _translate() -> None:
    if selection is not None:
        translate.page(selection)


def _inside() -> None:
    if selection is not None:
        inside.page(selection)


def _flow() -> None:
    if selection is not None:
        flow.page(selection)


def _embeddings() -> None:
    if selection is not None:
        embeddings.page(selection)


selection: Selection | None = None
chosen = st.navigation(
    [
        st.Page(_translate, title="Translate", icon=":material/translate:", default=True),
        st.Page(_inside, title="Inside a head", icon=":material/search:", url_path="inside"),
        st.Page(_flow, title="Data flow", icon=":material/account_tree:", url_path="flow"),
        st.Page(
            _embeddings,
            title="Embeddings & positions",
            icon=":material/scatter_plot:",
            url_path="embeddings",
        ),
    ],
    position="top",
)
# The frame is drawn outside the pages, so that its widgets keep their state from page to page.
selection = frame.select()
keep_across_pages(
    chosen.url_path, "decoding", "beam", "target", "hypothesis", "kind", "layer", "head"
)
chosen.run()
note_address()
