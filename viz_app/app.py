"""Headwise, the app: ``streamlit run viz_app/app.py``."""

from __future__ import annotations

import gc
import logging
from pathlib import Path

import streamlit as st
from streamlit.logger import get_logger

from viz_app.views import embeddings, flow, frame, heads, inside, training, translate
from viz_app.views._session import Selection
from viz_app.views._widgets import keep_across_pages, note_address
from viz_app.views.opening import is_opening, take_opening

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


def _training() -> None:
    if selection is not None:
        training.page(selection)


def _heads() -> None:
    if selection is not None:
        heads.page(selection)


@st.cache_resource(show_spinner=False)
def _start() -> None:
    """Tell the terminal what is done, in the form and from the level of Streamlit's own messages.

    (``--logger.level`` sets it.)
    """
    get_logger("viz_app")
    logging.getLogger("viz_app.app").info("started with the runs in %s", frame.checkpoints_root())


@st.cache_resource(show_spinner=False)
def _settle() -> None:
    """Tell the garbage collector once that what modules have made will stay.

    Streamlit collects garbage after every run, and would search all of that each time, for a tenth
    of a second.
    """
    gc.collect()
    gc.freeze()


_start()
selection: Selection | None = None
first = st.Page(_translate, title="Translate", icon=":material/translate:", default=True)
chosen = st.navigation(
    [
        first,
        st.Page(_inside, title="Inside a head", icon=":material/search:", url_path="inside"),
        st.Page(_flow, title="Data flow", icon=":material/account_tree:", url_path="flow"),
        st.Page(
            _embeddings,
            title="Embeddings & positions",
            icon=":material/scatter_plot:",
            url_path="embeddings",
        ),
        st.Page(_training, title="Training", icon=":material/timeline:", url_path="training"),
        st.Page(_heads, title="Heads", icon=":material/grid_view:", url_path="heads"),
    ],
    position="top",
)
if chosen == first:
    take_opening()
# The frame is drawn outside the pages, so that its widgets keep their state from page to page.
selection = frame.select()
if is_opening():
    # With parameters, if none: Streamlit refuses to clear those that are bound to widgets.
    st.switch_page(first, query_params={})
keep_across_pages(
    chosen.url_path, "decoding", "beam", "target", "hypothesis", "kind", "layer", "head"
)
chosen.run()
note_address()
_settle()
