"""What a page of the app receives: messages over the WebSocket, and files that are no scripts."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

_PROGRAM = ("Script", "Stylesheet", "Font")
"""Types of files that a browser loads once and keeps, with whatever first needs them."""
_OVER = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)


@dataclass(frozen=True)
class Message:
    """One of Streamlit's to the browser."""

    name: str
    """What it carries: of an element its type and the key of its widget."""
    size: int
    """Bytes."""
    last: bool
    """Whether a script, or the part of it that was run again, has come to its end."""


class Traffic:
    """Listens to a page from now on; to be made before the page is opened."""

    def __init__(self, page: Page) -> None:
        self.messages: list[Message] = []
        """Since it was cleared."""
        self.others = 0
        """Bytes of HTTP since then, those of the program itself left out."""
        self._page = page
        program = set[str]()

        def take(event: Mapping[str, Any]) -> None:
            data, is_binary = event["response"]["payloadData"], event["response"]["opcode"] == 2
            self.messages.append(read(base64.b64decode(data) if is_binary else data.encode()))

        def note(event: Mapping[str, Any]) -> None:
            if event["type"] in _PROGRAM:
                program.add(event["requestId"])

        def add(event: Mapping[str, Any]) -> None:
            if event["requestId"] not in program:
                self.others += round(event["encodedDataLength"])

        session = page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameReceived", take)
        session.on("Network.responseReceived", note)
        session.on("Network.loadingFinished", add)
        session.send("Network.enable")

    def clear(self) -> None:
        """Begin anew."""
        self.messages.clear()
        self.others = 0

    @property
    def received(self) -> int:
        """Bytes since it was cleared."""
        return sum(message.size for message in self.messages) + self.others

    def settle(self, *, patience: float) -> None:
        """Wait until the script has run to its end.

        Raises:
            TimeoutError: if it does not in so many seconds.
        """
        until = time.monotonic() + patience
        while not any(message.last for message in self.messages):
            if time.monotonic() > until:
                raise TimeoutError(f"the app's script does not end within {patience:.0f} s")
            self._page.wait_for_timeout(20)
        self._page.locator('.stApp[data-test-script-state="notRunning"]').wait_for()


def read(payload: bytes) -> Message:
    """What a message is."""
    message = ForwardMsg.FromString(payload)
    kind = str(message.WhichOneof("type"))
    last = kind == "script_finished" and message.script_finished in _OVER
    if kind == "delta":
        kind = str(message.delta.WhichOneof("type"))
        if kind == "new_element":
            kind = str(message.delta.new_element.WhichOneof("type"))
            # An id ends with the key, where the widget has one: $$ID-<hash>-<key>.
            id = getattr(getattr(message.delta.new_element, kind), "id", "")
            kind = " ".join([kind, *id.split("-", 2)[2:]]).removesuffix(" None")
    return Message(kind, len(payload), last)
