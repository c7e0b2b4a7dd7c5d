"""What Streamlit runs to draw a page; ``app.py`` serves it."""

from pathlib import Path

import streamlit as st

import headwise.viz_app  # first of ours: it says how the threads of PyTorch wait

st.set_page_config(
    page_title="Headwise",
    page_icon=str(Path(headwise.viz_app.__file__).with_name("icon.svg")),
    layout="wide",
)

# This takes seconds where it is not imported yet; the page has its title meanwhile.
from headwise.viz_app.frame.pages import draw_page

draw_page()
