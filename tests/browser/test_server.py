"""The app's server is seen on this machine only, and says nothing of the program and its files.

Not even to visitors who send what no page sends.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import ConnectionClosedError

from benchmarks.load_server import APP, ROOT
from benchmarks.load_session import apart, connected
from headwise.model.interface import Head
from tests.browser.conftest import PORT
from tests.browser.driver import NewApp

WAYS = [
    pytest.param((*APP, *PORT), id="streamlit run"),
    *(
        pytest.param((*command, "--port", "0"), id=way, marks=pytest.mark.release)
        for way, command in {
            "python -m headwise.viz_app": ("-m", "headwise.viz_app"),
            "headwise": (str(Path(sys.executable).with_name("headwise")),),
        }.items()
    ),
]
OPEN = """
[server]
address = "0.0.0.0"
[browser]
gatherUsageStats = true
[client]
showErrorDetails = "full"
"""
"""The opposite of what the app asks for, in the settings of the folder where it is started."""


@pytest.fixture(scope="module")
def start(
    serve: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Sequence[str]], str]:
    """Starts a server in such a folder, once; its log may have tracebacks."""
    folder = tmp_path_factory.mktemp("open")
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "config.toml").write_text(OPEN)
    return cache(lambda command: serve(cwd=folder, command=command, may_fail=True))


@pytest.mark.parametrize("command", WAYS)
def test_started_from_any_folder_it_listens_on_this_machine_only(
    start: Callable[[Sequence[str]], str], new_app: NewApp, command: Sequence[str]
) -> None:
    """All of 127/8 is this machine, and a server that listens on every address answers there."""
    address = start(command)
    port = urlsplit(address).port
    assert port is not None
    socket.create_connection(("localhost", port), timeout=10).close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
        pass
    app = new_app(address)  # whose driver complains of requests to other hosts
    received = app.frames("framereceived")
    app.open()
    app.expect_read("large", "gd._fullData.length > 0", expected=True)
    messages = map(ForwardMsg.FromString, received)
    begun = [message.new_session for message in messages if message.HasField("new_session")]
    assert begun
    assert not any(session.config.gather_usage_stats for session in begun)


# What visitors are told who send what no page sends

WIDGETS = [
    "sentence",
    *(
        pytest.param(each, marks=pytest.mark.release)
        for each in ("target", "decoding", "kind", "mosaic", "source_tokens", "example")
    ),
]
FORGED = {
    "string_value": "x",
    "int_value": 7,
    "json_value": "{",
    "bytes_value": b"\x00",
    "int_array_value": [99, -1],
}
HEAD = Head("cross", 0, 0)


@pytest.fixture
def failing_address(start: Callable[[Sequence[str]], str]) -> str:
    return start((*APP, *PORT))


async def forged_page(address: str, key: str, field: str) -> list[Delta]:
    """Send a value that is none of a widget; return what is then drawn."""
    async with connected(0, HEAD, address) as session:
        await session.follow("en-es", "I am hungry.")
        [id_] = {
            getattr(getattr(element, kind), "id", "")
            for _, kind, element in session.elements()
            if getattr(getattr(element, kind), "id", "").endswith(f"-{key}")
        }
        message = session.rerun()
        forged = message.rerun_script.widget_states.widgets.add()
        forged.id = id_
        if field == "int_array_value":
            forged.int_array_value.data.extend(FORGED[field])
        else:
            setattr(forged, field, FORGED[field])
        await session.run(message)
        return [*session.page.values()]


@pytest.mark.parametrize("key", WIDGETS)
def test_forged_values_are_answered_in_words(failing_address: str, key: str) -> None:
    told = []
    for field in FORGED:
        drawn = apart(forged_page(failing_address, key, field))
        shown = [delta.new_element.exception for delta in drawn]
        told += [exception.message for exception in shown if exception.message]
        assert all(not exception.stack_trace for exception in shown)
        everything = b"".join(delta.SerializeToString() for delta in drawn)
        for telling in (str(ROOT), "site-packages", "Traceback", "TypeError"):
            assert telling.encode() not in everything, (field, telling)
    assert told
    assert all("Headwise itself" in each or "error" in each for each in told)


@pytest.mark.release
@pytest.mark.parametrize("content", [b"\xff\xff", "a text"])
def test_what_is_no_message_ends_the_connection(failing_address: str, content: bytes | str) -> None:
    async def send() -> None:
        async with connected(0, HEAD, failing_address) as session:
            await session.follow("en-es", "I am hungry.")
            await session.socket.send(content)
            with pytest.raises(ConnectionClosedError):
                [_ async for _ in session.socket]
        async with connected(0, HEAD, failing_address) as session:
            assert (await session.follow("en-es", "I am hungry.")).translation

    apart(send())
