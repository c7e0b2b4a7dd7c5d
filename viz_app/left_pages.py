"""Draw the page that a person has chosen, whatever is still asked of the page that is being left.

Streamlit (1.67) loses the chosen page in two ways. With all that it asks for, a browser sends the
page that it shows: the one that is left, until it hears that the next has begun, when a menu
closes, or something comes into sight, behind the click. The server then runs a part of the page
that is left after it has drawn the next one, and a browser that hears of a page which it does not
show stays empty. So what is asked of the page that is left is asked of the next one
(``LeftPages``).

The page to draw is an attribute of the session, which two threads set where a part of a page was
asked for just before: the part's may be the later one. So each thread has an attribute of its own
(``keep_threads_apart``).
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import local

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.pages_manager import PagesManager

_MOST_BYTES = 2**16  # of a message that may begin a page; pictures have more


SHARED = ("_intended_page_script_hash", "_intended_page_name", "_current_page_script_hash")


@dataclass
class _Pages:
    """What a connection knows of the page, as Streamlit's hash of it; "" if nothing."""

    asked: str = ""  # the page that the browser has asked for, until the server begins to draw it
    drawn: str = ""  # the page that the server has said last that it draws

    def hear_browser(self, data: bytes) -> bytes:
        """Return what the browser asks for, with the page that is or will be drawn."""
        try:
            said = BackMsg.FromString(data)
        except Exception:  # the parser's own error has no types
            return data  # Streamlit says what is wrong with it
        if said.WhichOneof("type") != "rerun_script":
            return data
        request = said.rerun_script
        if not request.fragment_id:
            self.asked = request.page_script_hash
        elif (page := self.asked or self.drawn) not in ("", request.page_script_hash):
            request.page_script_hash = page
            return said.SerializeToString()
        return data

    def hear_server(self, data: bytes) -> None:
        """Note which page the server begins to draw."""
        if len(data) > _MOST_BYTES:
            return
        said = ForwardMsg.FromString(data)
        if (kind := said.WhichOneof("type")) in ("new_session", "navigation"):
            page = getattr(said, kind).page_script_hash
            # Until the page that was asked for begins, another one may still be said to.
            if self.asked in ("", page):
                self.asked, self.drawn = "", page


class LeftPages:
    """Middleware of the server, for each connection of a browser."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection or a request."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        pages = _Pages()

        async def receive_changed() -> Message:
            message = await receive()
            if data := message.get("bytes"):
                message["bytes"] = pages.hear_browser(data)
            return message

        async def send_heard(message: Message) -> None:
            if data := message.get("bytes"):
                pages.hear_server(data)
            await send(message)

        await self._app(scope, receive_changed, send_heard)


class _OfThread:
    """An attribute of which each thread has its own, and at first what another thread set last."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, pages: PagesManager, _: type[PagesManager]) -> str | None:
        last, own = vars(pages)[self._name]
        return getattr(own, "value", last)

    def __set__(self, pages: PagesManager, value: str | None) -> None:
        _, own = vars(pages).get(self._name, (None, local()))
        own.value = value
        vars(pages)[self._name] = value, own


def keep_threads_apart() -> None:
    """Have each thread of a session draw the page that it was started for."""
    for name in SHARED:
        setattr(PagesManager, name, _OfThread(name))
