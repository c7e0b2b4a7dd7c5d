"""What a browser gets first: the style of all pages, and what loads the programs of pages."""

from __future__ import annotations

import http.client
import re
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import streamlit
from starlette.requests import Request
from starlette.routing import Route

from benchmarks.load_server import serving
from benchmarks.load_session import apart
from headwise.viz_app.first_document import document_routes, first_document
from headwise.viz_app.views.shared.widgets import PAGE_TITLES

STATIC = Path(streamlit.__file__).parent / "static"


def test_it_is_the_document_of_streamlit_with_the_style_last() -> None:
    document, plain = first_document(), (STATIC / "index.html").read_text("utf-8")
    before, style, after = re.split(r"<style>(.*?)</style>", document, flags=re.DOTALL)
    assert ".stMainBlockContainer {" in style
    kept = before + re.sub(r'<script type="module">import.*?</script>', "", after)
    assert kept == plain
    assert document.rindex("<style>") > document.index("</head>")  # Streamlit's styles are there


def test_what_it_loads_is_there() -> None:
    loaded = re.findall(r'import\("\./([^"]+)"\)', first_document())
    kinds = {Path(name).name.partition(".")[0] for name in loaded}
    assert {"PlotlyChart", "Html", "BidiComponent", "Selectbox"} <= kinds
    assert all((STATIC / name).is_file() for name in loaded)


@pytest.mark.parametrize(("under", "before"), [("", ""), ("lab", "/lab"), ("/a/b/", "/a/b")])
def test_every_page_has_it_under_any_path(under: str, before: str) -> None:
    routes = [route.path for route in document_routes(under) if isinstance(route, Route)]
    names = {*PAGE_TITLES, "architecture", "embeddings"}
    typed = {name.capitalize() for name in names}
    assert sorted(routes) == sorted(f"{before}/{name}" for name in {"", *names, *typed})


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ("architecture?q=a%20b", "q=a+b&section=diagram"),
        ("architecture?unfold=layers&section=positions", "unfold=layers&section=modules"),
        (
            "Architecture?layers_by_step=true&token=id:7",
            "layers_by_step=true&token=id%3A7&section=layers",
        ),
        ("architecture?lesson=stream&lesson_step=2", "lesson=stream&lesson_step=2&section=lens"),
        ("embeddings?q=a&unfold=layers", "q=a&unfold=layers&section=input"),
        (
            "embeddings?section=positions&positions=3&positions=5",
            "section=positions&positions=3&positions=5",
        ),
    ],
)
def test_pages_of_before_open_the_section_that_shows_the_same(asked: str, opened: str) -> None:
    path, _, query = asked.partition("?")
    [route] = [
        each for each in document_routes("") if isinstance(each, Route) and each.path == f"/{path}"
    ]
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/{path}",
        "query_string": query.encode(),
        "headers": [],
        "server": ("localhost", 80),
        "scheme": "http",
    }
    answer = apart(route.endpoint(Request(scope)))
    assert (answer.status_code, answer.headers["location"]) == (307, f"./model?{opened}")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
def test_small_files_are_sent_at_once() -> None:
    """A connection that is kept waits 40 ms for each where small packets are collected."""
    with serving() as server:
        connection = http.client.HTTPConnection(urlsplit(server.address).netloc)
        seconds = []
        for _ in range(21):
            began = time.perf_counter()
            connection.request("GET", "/favicon.png")
            assert connection.getresponse().read()
            seconds.append(time.perf_counter() - began)
        connection.request("GET", "/heads")
        answer = connection.getresponse()
        assert answer.read().decode() == first_document()
        assert answer.getheader("Cache-Control") == "no-cache"
        for typed, opened in (("translate", ""), ("Translate", ""), ("Inside", "inside")):
            connection.request("GET", f"/{typed}?q=a%20b")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (307, b"")
            assert answer.getheader("Location") == f"./{opened}?q=a%20b"
        connection.close()
    assert statistics.median(seconds) < 0.03
