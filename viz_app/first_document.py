"""The document that a browser gets first: Streamlit's own, with what else would come late.

Streamlit sends a page piece by piece once it is drawn, and loads the program of each kind of piece
when the first one comes. Until a style is there all stands elsewhere, and then jumps. So the style
of all pages and the names of the programs that they need are in the first document.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import BaseRoute, Route

_HERE = Path(__file__).parent
_STREAMLIT = Path(streamlit.__file__).parent / "static"
_FIRST = "translate"
_PROGRAMS = (
    *("Html", "Selectbox", "Slider", "TextArea", "ButtonGroup", "Button", "BidiComponent"),
    "PlotlyChart",  # the largest: last
)
"""Kinds of pieces that nearly all pages have. Their files are named after their contents."""

_Parameters = list[tuple[str, str]]


def _of_architecture(given: _Parameters) -> _Parameters:
    """Return the parameters with which Model shows what Architecture did."""
    opened = {
        ("unfold", ""): "modules",
        ("layers_by_step", ""): "layers",
        ("lesson", "masks"): "masks",
        ("lesson", "stream"): "lens",
    }
    asked = {*given, *((name, "") for name, _ in given)}
    section = next((opened[each] for each in opened if each in asked), "diagram")
    return [*((name, value) for name, value in given if name != "section"), ("section", section)]


def _of_embeddings(given: _Parameters) -> _Parameters:
    """Return the parameters with which Model shows what Embeddings did."""
    return given if any(name == "section" for name, _ in given) else [*given, ("section", "input")]


_MOVED = {"architecture": _of_architecture, "embeddings": _of_embeddings}
"""Pages of before, which are sections of Model."""


def first_document() -> str:
    """Return the HTML for all pages.

    Where Streamlit has other programs than are known here, they are loaded when they are needed.
    """
    document = (_STREAMLIT / "index.html").read_text("utf-8")
    style = (_HERE / "views/shared/frame.css").read_text("utf-8")
    found = [path for name in _PROGRAMS for path in (_STREAMLIT / "static/js").glob(f"{name}.*.js")]
    loading = "".join(f'import("./static/js/{path.name}");' for path in found)
    # At the end, since Streamlit writes its own styles into the head.
    ours = f'<style>{style}</style><script type="module">{loading}</script>'
    return document.replace("</body>", f"{ours}</body>")


def document_routes(under: str) -> list[BaseRoute]:
    """Return the routes of the pages, and of other addresses that a person may type for them.

    The first page has no name of its own in addresses.

    Args:
        under: path that stands before all others; empty: none does.
    """
    document = first_document()

    async def answer(_: Request) -> HTMLResponse:
        return HTMLResponse(document, headers={"Cache-Control": "no-cache"})

    before = f"/{under.strip('/')}" if under else ""
    names = {path.parent.name for path in _HERE.glob("views/*/page.py")} - {_FIRST}
    typed = {_FIRST: "", _FIRST.capitalize(): ""} | {name.capitalize(): name for name in names}
    typed |= dict.fromkeys([*_MOVED, *map(str.capitalize, _MOVED)], "model")

    async def lead_on(request: Request) -> RedirectResponse:
        asked = request.url.path.rpartition("/")[2]
        query = request.url.query
        if (moved := _MOVED.get(asked.lower())) is not None:
            query = urlencode(moved(request.query_params.multi_items()))
        return RedirectResponse(f"./{typed[asked]}?{query}".removesuffix("?"))

    return [
        *(Route(f"{before}/{name}", answer) for name in ("", *sorted(names))),
        *(Route(f"{before}/{name}", lead_on) for name in typed),
    ]
