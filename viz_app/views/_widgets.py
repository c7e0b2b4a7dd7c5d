"""What the pages draw with: widgets whose choices last, parts that run again alone, messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.errors import StreamlitAPIException

from model.checkpoint import CheckpointError
from viz_app.views._events import tell_refusal
from viz_app.views._session import Stamp, stamp_if_there
from viz_app.views.address import check_asked, take_notes

Option = TypeVar("Option")
Given = ParamSpec("Given")

PROBLEMS = (CheckpointError, ValueError, OSError)
"""What a person can cause and put right; shown in place."""


def forget_unless(key: str, options: Collection[object]) -> None:
    """Drop a choice that is not offered any more, where it is read before its widget is drawn.

    (A widget itself falls back to its default.)
    """
    if key in st.session_state and st.session_state[key] not in options:
        del st.session_state[key]


def begin_with(key: str, value: object, *, of: object) -> None:
    """Choose a value at first, and again where the choice was made for something else than now.

    (Also after its widget was not drawn for a while: Streamlit forgets the choice then.)
    """
    if key not in st.session_state or st.session_state.get(f"{key}_of") != of:
        st.session_state.update({f"{key}_of": of, key: value})


def choose_one(
    label: str,
    options: Sequence[Option],
    *,
    key: str,
    default: Option,
    format_func: Callable[[Option], str] = str,
    on_change: Callable[[], None] | None = None,
    help: str | None = None,
) -> Option:
    """A row of buttons of which always one is chosen; the URL keeps the choice under ``key``."""
    written = [format_func(option) for option in options]
    check_asked(key, label, written.__contains__, named=format_func)
    chosen: Option = st.segmented_control(
        label,
        options,
        default=default,
        format_func=format_func,
        key=key,
        required=True,
        bind="query-params",
        on_change=on_change,
        help=help,
    )
    return chosen


def show_figure(
    figure: Any,
    *,
    key: str,
    alt: str,
    name: str = "",
    on_select: Callable[[], None] | None = None,
) -> None:
    """Draw a figure in a container ``<key>-box``: as wide as it says, or as there is room.

    Args:
        figure: of Plotly.
        key: of its widget.
        alt: what it shows, for those who cannot see it.
        name: of the file that it is saved as, behind run and step; without one, the key.
        on_select: called after a click on a mark.
    """
    form = st.session_state.get("pictures", "svg")
    saved = {"format": form, "filename": f"{st.session_state.get('files', key)}-{name or key}"}
    # As wide as it was made for, however wide the window: its letters then fit a printed column.
    if made_for := figure.layout.width or (figure.layout.meta or {}).get("width"):
        saved |= {"width": made_for, "height": figure.layout.height}
    with st.container(key=f"{key}-box"):
        st.plotly_chart(
            figure,
            theme=None,
            config={
                "displaylogo": False,
                "modeBarButtons": [["toImage"]],
                "toImageButtonOptions": saved | ({"scale": 3} if form == "png" else {}),
            },
            key=key,
            width="content" if figure.layout.width else "stretch",
            on_select=on_select or "ignore",
            selection_mode="points",
            alt=alt,
        )


_DRAWN = re.compile(r"(?<!\S)(?:<->|->|<-|--|[<>~]=)(?!\S)|:(?=streamlit:|material/)")
"""What Streamlit draws as another sign or as a picture, escaped or not."""


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    text = _DRAWN.sub(lambda drawn: f"{drawn[0][0]}\u2060{drawn[0][1:]}", text)  # a word joiner
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


@contextmanager
def problems_in_place() -> Iterator[None]:
    """Show what a person can put right where it occurs, and go on with the page."""
    try:
        yield
    except PROBLEMS as problem:
        tell_refusal(problem)
        st.error(plain(str(problem)))


def keep_across_pages(page: str, *keys: str) -> None:
    """Keep the address, and the choices of some widgets, when another page is drawn.

    To be called before the page is. (Streamlit empties the address then, and takes a widget of the
    same key on another page for another widget, which would begin with its default.)
    """
    state = st.session_state
    if state.get("page") == page:
        return
    state["page"] = page
    state.update({key: state[key] for key in keys if key in state})
    state["unwritten"] = {}
    for name, values in state.get("address", {}).items():
        if name not in st.query_params:
            try:
                st.query_params[name] = values
            except StreamlitAPIException:
                # A page that the program opens may begin while Streamlit still counts the widgets
                # of the last one, and lets only these write into the address.
                state["unwritten"][name] = values


def note_address() -> None:
    """Note the address for ``keep_across_pages``, and say what in it could not be used.

    To be called when all or a part was drawn.
    """
    parameters, state = st.query_params, st.session_state
    if notes := take_notes():
        state["notes_place"].warning("\n".join(f"- {plain(note)}" for note in notes))
    written = {name: parameters.get_all(name) for name in parameters}
    state["address"] = state.get("unwritten", {}) | written


def choose_for(*panels: str, **choices: object) -> None:
    """Set widgets by their keys, from the callback of a click, and draw these panels again.

    The panel that has the widgets comes first. (Streamlit does not tell the browser of a value that
    was set before the run that draws the widget, and a callback that names panels is before it.)
    """
    st.session_state["choices"] = choices
    st.rerun(panels)


def redraw_all() -> None:
    """Draw the whole page again, from the callback of a widget on which other panels depend.

    (Naming panels there is not safe: when labels of options change, Streamlit may call back at the
    next use of another widget, and the panels would then be drawn instead of what that changes.)
    """
    st.session_state["redraw"] = True


def take_choices() -> bool:
    """Set the widgets of ``choose_for``, before they are drawn; whether all is to be drawn."""
    st.session_state.update(st.session_state.pop("choices", {}))
    return bool(st.session_state.pop("redraw", False))


def begin_noting() -> None:
    """Begin a page of which no file has been read."""
    st.session_state["read_files"] = {}


def note_files(*paths: Path) -> None:
    """Note files of the page, before it reads them."""
    st.session_state["read_files"] |= {path: stamp_if_there(path) for path in paths}


def _are_others_now() -> bool:
    """Whether a file that was noted has been replaced or removed since."""
    noted: dict[Path, Stamp | None] = st.session_state.get("read_files", {})
    return any(stamp_if_there(path) != stamp for path, stamp in noted.items())


def panel(key: str) -> Callable[[Callable[Given, None]], Callable[Given, None]]:
    """A part of a page that runs again by itself when one of its widgets is used.

    It shows its problems in place. What other panels show follows only by ``choose_for`` and
    ``redraw_all``. Where the files that were noted are others now, the whole page is drawn again:
    the panel would put what it was given together with what it reads.
    """

    def decorate(draw: Callable[Given, None]) -> Callable[Given, None]:
        @st.fragment(key=key)
        @wraps(draw)
        def drawn(*args: Given.args, **kwargs: Given.kwargs) -> None:
            if take_choices() or _are_others_now():
                st.rerun()
            with problems_in_place():
                draw(*args, **kwargs)
            note_address()

        return drawn

    return decorate
