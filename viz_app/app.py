"""Headwise, the app: ``streamlit run viz_app/app.py``.

Answers a browser's first request; ``script.py`` is what Streamlit runs to draw a page.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread

import streamlit as st
from starlette.middleware import Middleware

from headwise.viz_app.first_document import document_routes
from headwise.viz_app.left_pages import LeftPages, keep_threads_apart


def _import_pages() -> None:
    """Import what pages need, and have the garbage collector leave it alone, which stays for good.

    It would look through a quarter of a million objects in the middle of a click, which takes a
    tenth of a second. Where models of Hugging Face are served, so is what opens them, for two
    seconds.
    """
    gc.disable()
    try:
        import_module("headwise.viz_app.frame.pages")
        from headwise.model.pretrained.checkpoints import is_pretrained
        from headwise.viz_app.served import served_models

        if any(map(is_pretrained, served_models().values())):
            import_module("headwise.model.pretrained.run")
    finally:
        gc.freeze()
        gc.enable()


@asynccontextmanager
async def _started(_: st.App) -> AsyncIterator[None]:
    """Import, for seconds, while the first browser is still on its way."""
    Thread(target=_import_pages, daemon=True).start()
    yield


keep_threads_apart()
app = st.App(
    Path(__file__).with_name("script.py"),
    routes=document_routes(st.get_option("server.baseUrlPath")),
    middleware=[Middleware(LeftPages)],
    lifespan=_started,
)
