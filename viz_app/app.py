"""Headwise, the app: ``streamlit run viz_app/app.py``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import streamlit as st
from streamlit.logger import get_logger

import headwise.viz_app  # first of ours: it says how the threads of PyTorch wait

_PLOTLY = Path(st.__file__).parent / "static/static/js"


def _load_plotly() -> None:
    """Have the browser load Plotly now, which takes as long as Python takes to start.

    Otherwise Streamlit has it loaded with the first chart. Its file is named after its contents;
    where none is found, nothing is done.
    """
    with st.container(key="plotly-script"):
        for script in _PLOTLY.glob("PlotlyChart.*.js"):
            load = f"<script>import('./static/js/{script.name}')</script>"
            st.html(load, unsafe_allow_javascript=True)


st.set_page_config(
    page_title="Headwise",
    page_icon=str(Path(headwise.viz_app.__file__).with_name("icon.svg")),
    layout="wide",
)
_load_plotly()

# What follows takes seconds at the first time, in which the browser loads Plotly.
from headwise.model.placement import use_one_thread
from headwise.viz_app.served import describe_served
from headwise.viz_app.views.architecture.page import page as architecture
from headwise.viz_app.views.embeddings.page import page as embeddings
from headwise.viz_app.views.heads.page import page as heads
from headwise.viz_app.views.inside.page import page as inside
from headwise.viz_app.views.learn.page import page as learn
from headwise.viz_app.views.shared import frame
from headwise.viz_app.views.shared.cache import drop_large
from headwise.viz_app.views.shared.errors import show_user_errors
from headwise.viz_app.views.shared.memory import sweep_for_ever, use_few_arenas
from headwise.viz_app.views.shared.reservations import memory
from headwise.viz_app.views.shared.selection import Selection
from headwise.viz_app.views.shared.turns import turns
from headwise.viz_app.views.shared.view import enter, note_unread, write_address
from headwise.viz_app.views.shared.widgets import PAGE_TITLES, PageName, page_to_open
from headwise.viz_app.views.training.page import page as training
from headwise.viz_app.views.translate.page import page as translate
from headwise.viz_app.views.why.page import page as why


def _page(draw: Callable[[Selection], None], icon: str, path: PageName) -> st.Page:
    """Return a page of the navigation, which is drawn when the frame has a selection."""

    def draw_selection() -> None:
        if selection is not None:
            with show_user_errors():
                draw(selection)

    return st.Page(
        draw_selection,
        title=PAGE_TITLES[path],
        icon=f":material/{icon}:",
        url_path=path,
        default=path == "translate",
    )


@st.cache_resource(show_spinner=False)
def _start() -> None:
    """Set up, once for the process, its threads and what the terminal shows.

    Messages look as Streamlit's own. (``--logger.level`` sets the level.)
    """
    use_one_thread()
    use_few_arenas()
    sweep_for_ever(drop_large)
    get_logger("headwise.viz_app")
    logging.getLogger("headwise.viz_app.app").info("started with %s", describe_served())


_start()
selection: Selection | None = None
pages: dict[PageName, st.Page] = {
    "translate": _page(translate, "translate", "translate"),
    "inside": _page(inside, "search", "inside"),
    "why": _page(why, "balance", "why"),
    "architecture": _page(architecture, "account_tree", "architecture"),
    "embeddings": _page(embeddings, "scatter_plot", "embeddings"),
    "training": _page(training, "timeline", "training"),
    "heads": _page(heads, "grid_view", "heads"),
    "learn": _page(learn, "school", "learn"),
}
chosen = st.navigation(list(pages.values()), position="top")
if opening := page_to_open():
    st.switch_page(pages[opening])
enter(chosen.url_path)
with turns().turn(), memory().page():
    selection = frame.select(chosen.url_path)
    chosen.run()
    note_unread()
    write_address()
