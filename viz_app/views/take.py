"""Taking it along: a link, a citation, and files of what the page shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

import streamlit as st

from viz_app.analysis.grid import Reading
from viz_app.records import Trace
from viz_app.report import settings, to_html
from viz_app.saved_trace import to_json, to_npz
from viz_app.views._events import told
from viz_app.views._session import Selection
from viz_app.views._widgets import choose_one, panel, redraw_all


@panel("take")
def show_take(selection: Selection, trace: Trace | None, reading: Reading) -> None:
    """Offer all of it behind one button, which is drawn anew when it opens: the link is of then.

    Without a trace, on pages that show more than one, there is a link, and how pictures are saved.
    """
    label = "Link, cite, download" if trace is not None else "Link, pictures"
    icon = ":material/ios_share:"
    with st.popover(label, icon=icon, width="stretch", key="take", on_change="rerun"):
        st.caption("Link to this page as it is")
        st.code(_link(), language=None, wrap_lines=True)
        if trace is not None:
            _show_files(selection, trace, reading)
        choose_one(
            "Pictures are saved as",
            ["svg", "png"],
            key="pictures",
            default="svg",
            on_change=redraw_all,
            help="By the camera that appears at the top right of a picture under the mouse.",
        )


def _show_files(selection: Selection, trace: Trace, reading: Reading) -> None:
    st.caption("Cite")
    st.code(citation(trace), language=None, wrap_lines=True)
    st.caption("This sentence: a page that needs no network; all arrays, to be read by programs")
    with st.container(horizontal=True, gap="small"):
        name = f"headwise-{trace.run}-{trace.step}"
        files: dict[str, Callable[[], bytes]] = {
            "html": lambda: to_html(trace, reading=reading, theme=selection.theme),
            "npz": lambda: to_npz(trace),
            "json": lambda: to_json(trace),
        }
        for ending, write in files.items():
            st.download_button(
                f".{ending}",
                partial(_written, trace, ending, write),
                file_name=f"{name}.{ending}",
                key=f"download-{ending}",
                on_click="ignore",
            )


def _written(trace: Trace, ending: str, write: Callable[[], bytes]) -> bytes:
    with told("export", run=trace.run, step=trace.step, form=ending) as facts:
        content = write()
        facts["bytes"] = len(content)
    return content


def citation(trace: Trace) -> str:
    """What identifies a trace, as one line of text."""
    facts = "; ".join(f"{name}: {value}" for name, value in settings(trace).items())
    return f'Headwise, "{trace.source_text}" → "{trace.target_text}"; {facts}.'


def _link() -> str:
    parameters = st.query_params
    pairs = [(name, value) for name in parameters for value in parameters.get_all(name)]
    return f"{(st.context.url or '').partition('?')[0]}?{urlencode(pairs)}"
