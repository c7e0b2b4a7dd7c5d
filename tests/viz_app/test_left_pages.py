"""The page that was chosen is drawn, and addresses of before open what they showed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from urllib.parse import parse_qs, urlencode

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.pages_manager import PagesManager

from headwise.viz_app.left_pages import LeftPages, keep_threads_apart
from headwise.viz_app.moved import moved
from headwise.viz_app.session.state import decode, encode

LARGE = 2**20
"""More bytes than a message has that says which page begins."""


def asks(page: str, part: str = "") -> bytes:
    """What a browser that shows a page, or asks for it, sends; of a part of it, or of all."""
    said = BackMsg()
    said.rerun_script.page_script_hash = page
    said.rerun_script.fragment_id = part
    said.rerun_script.query_string = "q=Hund"
    return said.SerializeToString()


def begins(page: str) -> bytes:
    """What the server sends when it begins to draw a page, or a part of it."""
    said = ForwardMsg()
    said.new_session.page_script_hash = page
    return said.SerializeToString()


def turns_to(page: str) -> bytes:
    """What the server sends when the script has said which page it draws."""
    said = ForwardMsg()
    said.navigation.page_script_hash = page
    return said.SerializeToString()


def heard(conversation: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """What the server hears in a conversation of a browser (``<``) with it (``>``)."""
    found = []

    async def receive() -> Message:
        return {"type": "websocket.receive", "bytes": said.pop(0)}

    async def send(_: Message) -> None:
        pass

    async def serve(_: Scope, receive: Receive, send: Send) -> None:
        for who, data in conversation:
            if who == "<":
                found.append((await receive())["bytes"])
            else:
                await send({"type": "websocket.send", "bytes": data})

    said = [data for who, data in conversation if who == "<"]
    with ThreadPoolExecutor(1) as apart:  # The thread of a browser's tests has a loop already.
        apart.submit(asyncio.run, LeftPages(serve)({"type": "websocket"}, receive, send)).result()
    return found


SEEN = [("<", asks("")), (">", begins("main")), (">", turns_to("translate"))]
"""A browser has opened the app, and shows its first page, which begins under another name."""


WHY, MENU = ("<", asks("why")), ("<", asks("translate", "menu"))
OF_WHY = asks("why", "menu")
GONE = [("<", asks("gone")), (">", begins("gone")), (">", turns_to("translate"))]
THEN: dict[str, tuple[list[tuple[str, bytes]], bytes]] = {
    "no other": ([MENU], MENU[1]),
    "before the next page begins": ([WHY, MENU], OF_WHY),
    "before the browser hears that it has begun": ([WHY, (">", begins("why")), MENU], OF_WHY),
    "while a part of the page before begins": ([WHY, (">", begins("translate")), MENU], OF_WHY),
    "back to the page before": (
        [WHY, (">", begins("why")), ("<", asks("translate"))],
        asks("translate"),
    ),
    "the app opens another page": (
        [(">", turns_to("inside")), ("<", asks("inside", "step"))],
        asks("inside", "step"),
    ),
    "behind another page that the app opens": (
        [(">", begins("inside")), MENU],
        asks("inside", "menu"),
    ),
    "where there is no such page": ([*GONE, MENU], MENU[1]),
    "not a message": ([(">", bytes(LARGE)), ("<", b"\xff")], b"\xff"),
}


@pytest.mark.parametrize(("then", "expected"), THEN.values(), ids=THEN)
def test_a_part_is_asked_of_the_page_that_is_or_will_be_drawn(
    then: list[tuple[str, bytes]], expected: bytes
) -> None:
    assert heard([*SEEN, *then])[-1] == expected


def test_a_browser_that_connects_again_is_heard_as_it_is() -> None:
    assert heard([("<", asks("why", "menu"))]) == [asks("why", "menu")]


def test_a_thread_draws_the_page_that_it_was_started_for() -> None:
    """A part of the page before may begin in another thread when the page has begun already."""
    keep_threads_apart()
    pages = PagesManager("script.py")
    names = "embeddings", "training"
    listed = {name: {"page_script_hash": name, "url_pathname": name} for name in names}
    begun, disturbed, drawn = Event(), Event(), []

    def draw() -> None:
        pages.set_script_intent("training", "")
        pages.set_current_page_script_hash("training")
        begun.set()
        disturbed.wait(30)
        drawn.append(pages.set_pages_and_resolve(listed, fallback_page_hash="embeddings"))
        drawn.append(pages.current_page_script_hash)

    thread = Thread(target=draw)
    thread.start()
    begun.wait(30)
    pages.set_script_intent("embeddings", "")
    pages.set_current_page_script_hash("embeddings")
    disturbed.set()
    thread.join()
    assert drawn == [listed["training"], "training"]


def test_a_thread_begins_with_the_page_that_was_drawn_last() -> None:
    keep_threads_apart()
    pages, found = PagesManager("script.py"), []
    pages.set_current_page_script_hash("why")
    thread = Thread(target=lambda: found.append(pages.current_page_script_hash))
    thread.start()
    thread.join()
    assert found == ["why"]


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ("heads?failure=log_probability", "errors?failure=log_probability"),
        ("training?phenomenon=gender&step=20", "errors?phenomenon=gender&step=20"),
        ("training?step=20", "training?step=20&training=curves"),
        ("training?training=play", "training?training=watch&playing=head"),
        ("training?training=play&playing=all", "training?training=watch&playing=all"),
        ("training?training=play&at=1", "training?training=watch&at=1&playing=head"),
        ("model?least=5", "model?least=5&all_pairs=true"),
        ("architecture?q=a", "model?q=a&section=diagram"),
        ("architecture?unfold=layers&section=positions", "model?unfold=layers&section=modules"),
        ("architecture?lesson=stream", "model?lesson=stream&section=lens"),
        ("architecture?bright=padding", "model?bright=padding&section=masks"),
        ("why?bright=neurons", "why?bright=neurons&answer=neurons"),
        ("embeddings?q=a", "model?q=a&section=input"),
    ],
)
def test_an_address_of_before_opens_what_it_showed(asked: str, opened: str) -> None:
    page, _, query = asked.partition("?")
    now, found = moved(page, parse_qs(query))
    assert f"{now}?{urlencode(found, doseq=True)}" == opened
    view, unreadable = decode(found)
    assert unreadable == {}
    written = encode(view) | ({"training": ["curves"]} if now == "training" else {})
    assert moved(now, written) == (now, written)  # what is written of it is of today


@pytest.mark.parametrize(
    "address",
    [
        # As they are written since, where a choice of another page stays in the address.
        "heads?errors=pairs&failure=log_probability",
        "heads?heads=writes&failure=log_probability",
        "errors?failure=log_probability",
        "training?training=watch&phenomenon=gender",
        "?failure=log_probability",
    ],
)
def test_an_address_of_today_stays(address: str) -> None:
    page, _, query = address.partition("?")
    asked = parse_qs(query)
    assert moved(page, asked) == (page, asked)
