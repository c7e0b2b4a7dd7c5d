"""Headwise, the app: ``streamlit run viz_app/app.py``."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from viz_app.views import embeddings, frame, translate
from viz_app.views._session import Selection

st.set_page_config(
    page_title="Headwise", page_icon=str(Path(__file__).with_name("icon.svg")), layout="wide"
)


def _translate() -> None:
    if selection is not None:
        translate.page(selection)


def _embeddings() -> None:
    if selection is not None:
        embeddings.page(selection)


selection: Selection | None = None
chosen = st.navigation(
    [
        st.Page(_translate, title="Translate", icon=":material/translate:", default=True),
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
chosen.run()
