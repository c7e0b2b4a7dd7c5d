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
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from headwise.viz_app.components.assets import SCRIPTS, SCRIPTS_AT, VERSION, script_place
from headwise.viz_app.moved import GONE, Parameters, moved

_HERE = Path(__file__).parent
_STREAMLIT = Path(streamlit.__file__).parent / "static"
_FIRST = "translate"
_PROGRAMS = ("Html", "Selectbox", "Slider", "TextArea", "ButtonGroup", "Button", "BidiComponent")
"""Kinds of pieces that nearly all pages have. Their files are named after their contents."""
_CHARTS, _FIRST_CHARTS = "PlotlyChart", "/why"
"""That of charts is by far the largest: a browser needs a second to start it, and draws nothing
meanwhile. The page that begins with one."""
_LATER = 4_000  # milliseconds until a page has been drawn, even by a slow machine
_SCRIPTS = ("heat_map.js", "token_buttons.js", "tables.js", "printing.js")
"""Ours that nearly all pages have."""


def first_document() -> str:
    """Return the HTML for all pages.

    Where Streamlit has other programs than are known here, they are loaded when they are needed.
    """
    document = (_STREAMLIT / "index.html").read_text("utf-8")
    style = (_HERE / "frame/frame.css").read_text("utf-8")
    places = [place for name in _PROGRAMS for place in _found(name)]
    loading = "".join(f'import("{place}");' for place in (*places, *map(script_place, _SCRIPTS)))
    wait = f"location.pathname.endsWith('{_FIRST_CHARTS}') ? 0 : {_LATER}"
    loading += "".join(f'setTimeout(() => import("{x}"), {wait});' for x in _found(_CHARTS))
    # At the end, since Streamlit writes its own styles into the head.
    ours = f'<style>{style}</style><script type="module">{loading}</script>'
    return document.replace("</body>", f"{ours}</body>")


def _found(name: str) -> list[str]:
    """Return where a browser finds a program of Streamlit's, whose file has its hash as well."""
    return [f"./static/js/{path.name}" for path in (_STREAMLIT / "static/js").glob(f"{name}.*.js")]


def document_routes(under: str) -> list[BaseRoute]:
    """Return the routes of the pages, of other addresses that a person may type for them, and of
    the components' scripts. The first page has no name in addresses. ``under`` is the path before
    all others, or empty.
    """
    document = first_document()

    before = f"/{under.strip('/')}" if under else ""
    pages = {"", *(path.parent.name for path in _HERE.glob("*/page.py"))} - {_FIRST}
    typed = {*(pages - {""}), _FIRST, *GONE}
    typed |= {*map(str.capitalize, typed)}

    async def answer(request: Request) -> Response:
        name, asked = request.url.path.rpartition("/")[2], request.query_params
        page, query = name.lower() if name.lower() != _FIRST else "", request.url.query
        given: Parameters = {parameter: asked.getlist(parameter) for parameter in asked}
        now, found = moved(page, given) if given or page in GONE else (page, given)
        if now == name and found is given:
            return HTMLResponse(document, headers={"Cache-Control": "no-cache"})
        query = query if found is given else urlencode(found, doseq=True)
        return RedirectResponse(f"./{now}?{query}".removesuffix("?"))

    scripts = Route(f"{before}/{SCRIPTS_AT}/{{version}}/{{name}}", _answer_script)
    return [scripts, *(Route(f"{before}/{name}", answer) for name in sorted(pages | typed))]


async def _answer_script(request: Request) -> Response:
    """Answer with a script, which a browser keeps; not one of another version, as of a replica."""
    script = SCRIPTS.get(request.path_params["name"])
    if script is None:
        return Response(status_code=404)
    is_ours = request.path_params["version"] == VERSION
    kept = "public, max-age=31536000, immutable" if is_ours else "no-store"
    return Response(script, media_type="text/javascript", headers={"Cache-Control": kept})
