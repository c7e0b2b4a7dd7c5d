"""Draw a menu with the link to the page, a citation, and files to download."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from urllib.parse import urlencode, urlsplit

import streamlit as st

from headwise import __version__
from headwise.model.turned import Turned
from headwise.viz_app.analysis.grid import GridOptions
from headwise.viz_app.components.printing import offer_tables, print_figures
from headwise.viz_app.core.record import TABLES, Record
from headwise.viz_app.figures.theme import theme_named
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.report import NONE, provenance, to_html, turned_facts
from headwise.viz_app.session.log import log_timed
from headwise.viz_app.session.panels import panel
from headwise.viz_app.session.selection import Selection
from headwise.viz_app.session.state import View, encode
from headwise.viz_app.session.view import address_of, current_page, redraw_all, view
from headwise.viz_app.session.widgets import choose_one
from headwise.viz_app.trace.saved import to_json, to_npz

_TEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{sign: f"\\{sign}" for sign in "{}$&#%_"},
    }
)
"""Characters that mean something to TeX → how they are written as text."""
_THIS_COMPUTER = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Files:
    """What else a page shows than a trace can be downloaded, too."""

    caption: str
    name: str
    """Of each file, without its ending."""
    contents: Mapping[str, Callable[[], bytes]]
    """Ending → what makes the content when it is clicked."""


def show_download_menu(
    selection: Selection,
    trace: Trace | None = None,
    grid_options: GridOptions | None = None,
    *,
    others: Callable[[Selection, Trace], Files | None] | None = None,
) -> None:
    """Draw the menu in the sidebar, to cite and download a trace, with the options of its maps.

    Without one, as on pages that show several, it has the link and the format of pictures only.
    ``others`` gives more files of the page, while the menu is open.
    """
    with st.sidebar:
        print_figures(
            selection.theme,
            paper=theme_named(view().paper),
            form=view().pictures,
            millimetres=int(view().printed),
            run=selection.run.name,
            step=selection.step,
        )
        offer_tables()
    with st.session_state["menu_place"]:
        _show_menu(selection, trace, grid_options or GridOptions(), others)


@panel("download-menu")
def _show_menu(
    selection: Selection,
    trace: Trace | None,
    grid_options: GridOptions,
    others: Callable[[Selection, Trace], Files | None] | None,
) -> None:
    """Draw the button that opens the menu; what is in it is drawn when it is opened."""
    label = "Link, cite, download" if trace is not None else "Link, pictures"
    icon = ":material/ios_share:"
    menu = st.popover(label, icon=icon, key="download-menu", on_change="rerun")
    if not menu.open:
        return
    with menu:
        _show_link()
        if trace is not None:
            _show_files(trace, _files_of_trace(selection, trace, grid_options), key="download")
            if others is not None and (more := others(selection, trace)) is not None:
                _show_files(trace, more, key="download-more")
        choose_one(
            "Pictures are saved as",
            ["svg", "png"],
            key="pictures",
            on_change=redraw_all,
            help="By the button below a picture, without marks of what is chosen here.",
        )
        choose_one("On paper that is", ["light", "dark"], key="paper", on_change=redraw_all)
        choose_one(
            "For a width on paper of",
            ["85", "170"],
            key="printed",
            format_func=lambda width: f"{width} mm",
            on_change=redraw_all,
            help="One column or two: letters are then at least 7 points high.",
        )
        if trace is not None:
            st.caption("Cite, in words or by BibTeX")
            for cite in (citation, bibtex):
                text = cite(trace, view(), page=current_page())
                st.code(text, language=None, wrap_lines=True)


def _show_link() -> None:
    st.caption("Link to this page as it is")
    place = (st.context.url or "").partition("?")[0]
    link = f"{place}?{urlencode(address_of(view(), current_page())[0], doseq=True)}"
    st.code(link, language=None, wrap_lines=True)
    if urlsplit(place).hostname in _THIS_COMPUTER:
        st.caption("It opens on this computer only, while this app runs.")


def _files_of_trace(selection: Selection, trace: Trace, grid_options: GridOptions) -> Files:
    return Files(
        "This sentence: a page that needs no network; all arrays, to be read by programs",
        f"headwise-{trace.run}-{trace.step}",
        {
            "html": lambda: to_html(trace, grid_options=grid_options, theme=selection.theme),
            "npz": lambda: to_npz(trace),
            "json": lambda: to_json(trace),
        },
    )


def _show_files(trace: Trace, files: Files, *, key: str) -> None:
    st.caption(files.caption)
    with st.container(horizontal=True, gap="small"):
        for ending, write in files.contents.items():
            st.download_button(
                f".{ending}",
                partial(_export, trace.run, trace.step, ending, write),
                file_name=f"{files.name}.{ending}",
                key=f"{key}-{ending}",
                on_click="ignore",
            )


def offer_record(what: str, record: Record, *, run: str, step: int, of: str) -> None:
    """Offer the files of a record, which are made for an ending when it is clicked.

    ``what`` is their name for people, ``of`` that in the names of the files.
    """
    with st.container(horizontal=True, gap="small"):
        for ending in TABLES:
            st.download_button(
                f"{what} as {ending}",
                partial(_export, run, step, ending, partial(record.file, ending)),
                file_name=f"headwise-{run}-{step}-{of}{ending}",
                key=f"{of.partition('-')[0]}{ending}",
                on_click="ignore",
            )


def _export(run: str, step: int, ending: str, write: Callable[[], bytes]) -> bytes:
    with log_timed("export", run=run, step=step, form=ending.lstrip(".")) as facts:
        content = write()
        facts["bytes"] = len(content)
    return content


def citation(trace: Trace, shown: View, *, page: str) -> str:
    """Return one line of text that identifies a trace and what a page shows of it."""
    return f'Headwise, "{trace.source_text}" → "{trace.target_text}"; {_facts(trace, shown, page)}.'


def bibtex(trace: Trace, shown: View, *, page: str) -> str:
    """Return the same as an entry of BibTeX, of the type ``misc``."""
    title = f"Headwise {__version__}: “{trace.source_text}” → “{trace.target_text}”"
    fields = {"title": title, "year": str(date.today().year), "note": _facts(trace, shown, page)}
    lines = [f"  {name} = {{{{{text.translate(_TEX)}}}}},\n" for name, text in fields.items()]
    return f"@misc{{headwise-{trace.sha256[:12]}-{trace.step},\n{''.join(lines)}}}"


def _facts(trace: Trace, shown: View, page: str) -> str:
    facts = provenance(trace) | {"version of Headwise": __version__}
    facts["view"] = urlencode(encode(shown, page), doseq=True)
    if page == "translate" and shown.translate.fork:
        facts[f"beside it, token forced at position {shown.at + 1}"] = shown.translate.fork
    if page == "translate" and (turned := Turned(shown.strengths)):
        beside = turned_facts(turned).items()
        facts |= {f"beside it, {fact}": said for fact, said in beside if said != NONE}
    return "; ".join(f"{name}: {value}" for name, value in facts.items())
