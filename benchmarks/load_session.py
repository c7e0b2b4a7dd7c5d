"""A session of the app over its WebSocket, with Streamlit's own messages, as a browser has it; what
it shows for a sentence, and what it ought to show.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from html import unescape
from http.cookiejar import CookieJar
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from benchmarks.load_server import ROOT
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.files import lines_of
from headwise.model.interface import KINDS, Head
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.records.trace import Floats
from headwise.viz_app.trace.sentence import run_trace

NOTHING = "(no text: the model ended the sentence at once)"
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Answer:
    """What one session shows when its script has finished."""

    session: int
    head: Head
    """Whose map is open, layer and head from 0."""
    sentence: str
    """Of the address, as the server has written it."""
    translation: str | None
    weights: Floats | None
    """The large map, (rows, columns)."""
    problems: tuple[str, ...] = ()
    """What is wrong whatever the sentence: exceptions and error messages."""


class Expected:
    """Traces of a run's newest checkpoint, computed here."""

    def __init__(self, run: str) -> None:
        self.run: TrainedRun = open_trained_run(run)
        self._model = load_weights(self.run, self.run.steps()[-1]).model

    def head(self, session: int) -> Head:
        """That a session looks at: neighbours look at other kinds and heads."""
        config = self.run.info.model
        layer, head = session // 3 % config.n_decoder_layers, session % config.n_heads
        return Head(KINDS[session % 3], layer, head)

    def answer(self, session: int, head: Head, sentence: str) -> Answer:
        """What a session ought to show."""
        trace = run_trace(self._model, self.run.tokenizers, sentence)
        kind, layer, number = head
        weights = make_grid(trace, kind).apply(trace.attention[kind])[layer, number]
        return Answer(session, head, sentence, trace.target_text or NOTHING, weights)


def faults_of(answer: Answer, expected: Answer) -> list[str]:
    """What is wrong with an answer; nothing if it is that of its sentence and head."""
    faults = list(answer.problems)
    if answer.translation != expected.translation:
        faults.append(f"translation {answer.translation!r} instead of {expected.translation!r}")
    if answer.weights is None or expected.weights is None:
        faults.append("no map")
    elif answer.weights.shape != expected.weights.shape:
        faults.append(f"a map of {answer.weights.shape} instead of {expected.weights.shape}")
    else:
        off = float(np.abs(answer.weights - expected.weights).max())
        if not off <= TOLERANCE:
            faults.append(f"another map, off by {off:.2g}")
    return [f"session {answer.session}, {answer.sentence!r}: {fault}" for fault in faults]


def address_of(run: str, head: Head, sentence: str, **choices: str) -> str:
    """The query of a link that opens a head on a sentence, with further choices."""
    kind, layer, number = head
    chosen = {"run": run, "q": sentence, "kind": kind, "layer": layer + 1, "head": number + 1}
    return urlencode(chosen | choices)


def sentences_of(run: str) -> Iterator[str]:
    """Sentences without end, none of them twice: those that the app measures with, then pairs."""
    lines = lines_of((ROOT / "viz_app" / "sentences" / f"{run}.jsonl").read_bytes())
    singles = list(dict.fromkeys(str(json.loads(line)["source"]) for line in lines))
    yield from singles
    for apart in range(1, len(singles)):
        for at, first in enumerate(singles):
            yield f"{first} {singles[(at + apart) % len(singles)]}"


def cells_of(spec: str) -> Floats:
    """The cells of a figure's first trace, (rows, columns), as the browser decodes them."""
    cells: Any = json.loads(spec)["data"][0]["z"]
    flat = np.frombuffer(base64.b64decode(cells["bdata"]), dtype=cells["dtype"])
    return flat.reshape([*map(int, cells["shape"].split(","))]).astype(np.float32)


PATIENCE = 60.0
"""Seconds that an answer may take before it counts as missing."""
_RAN = (
    ForwardMsg.FINISHED_SUCCESSFULLY,
    ForwardMsg.FINISHED_WITH_COMPILE_ERROR,
    ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
)

Path = tuple[int, ...]


class Session:
    """One person: types sentences, and notes what the page then shows."""

    def __init__(self, number: int, head: Head, address: str, patience: float) -> None:
        self.number, self.head, self.address, self.patience = number, head, address, patience
        self.answers: list[Answer] = []
        self.seconds: list[float] = []
        """From a sentence sent to its script finished, where none was overtaken."""
        self.received = 0
        """Bytes."""
        self.socket: ClientConnection
        self._cookies = CookieJar()
        self._query = ""
        self._field = ""
        self.page: dict[Path, Delta] = {}
        self._pages: dict[str, str] = {}

    async def connect(self) -> None:
        """Ask whether the server is there and then connect, with the cookies that it gave.

        So does a browser, at first and when it has lost its server.
        """
        opener = build_opener(HTTPCookieProcessor(self._cookies))
        (await asyncio.to_thread(opener.open, f"{self.address}/_stcore/health")).close()
        kept = "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._cookies)
        self.socket = await connect(
            self.address.replace("http", "ws", 1) + "/_stcore/stream",
            subprotocols=[Subprotocol("streamlit")],
            origin=Origin(self.address),
            additional_headers={"Cookie": kept} if kept else None,
            max_size=None,
            proxy=None,
        )

    async def open(self, run: str, sentence: str, **choices: str) -> None:
        """Follow a link to a sentence, the session's head and further choices."""
        await self.socket.send(self._link(run, sentence, choices).SerializeToString())
        await self._until(sentence, among=(sentence,))

    async def follow(self, run: str, sentence: str, **choices: str) -> Answer:
        """Follow such a link; the sentence may be too long for the address that the page gets."""
        await self.run(self._link(run, sentence, choices))
        return replace(self._answer(), sentence=sentence)

    def _link(self, run: str, sentence: str, choices: dict[str, str]) -> BackMsg:
        self._query = address_of(run, self.head, sentence, **choices)
        message = self.rerun()
        # The address is another one, as for who goes back in a browser.
        message.rerun_script.is_history_navigation = True
        return message

    async def type(self, sentence: str) -> None:
        """Type a sentence and wait for its page."""
        began = time.perf_counter()
        await self._send(sentence)
        await self._until(sentence, among=(sentence,))
        self.seconds.append(time.perf_counter() - began)

    async def type_over(self, first: str, second: str, *, after: int) -> None:
        """Type a sentence, and another when so many messages of the first one's page have come."""
        await self._send(first)
        async with asyncio.timeout(self.patience):
            for _ in range(after):
                if await self._take():
                    self._note((first,))
                    break
        await self._send(second)
        await self._until(second, among=(first, second))

    async def choose(self, key: str, option: str) -> None:
        """Press a button of a row, by the key of the row, and wait for its panel."""
        element, panel = next(
            (delta.new_element.button_group, delta.fragment_id)
            for delta in self.page.values()
            if delta.new_element.button_group.id.rstrip().endswith(f"-{key}")
        )
        message = self.rerun()
        message.rerun_script.fragment_id = panel
        row = message.rerun_script.widget_states.widgets.add()
        row.id = element.id
        row.string_array_value.data.append(option)
        await self._rest(message)

    async def go_to(self, page: str) -> None:
        """Open a page by its name in the address, and wait for it."""
        message = self.rerun()
        message.rerun_script.page_script_hash = self._pages[page]
        await self._rest(message)

    async def _rest(self, message: BackMsg) -> None:
        """Wait until a message's script has run; ValueError if the page shows an exception."""
        await self.run(message)
        if problems := self._answer().problems:
            raise ValueError(f"the page shows {problems[0]}")

    async def run(self, message: BackMsg) -> None:
        """Send a message, and wait until its script has run to its end."""
        await self.socket.send(message.SerializeToString())
        async with asyncio.timeout(self.patience):
            while not await self._take():
                pass

    def rerun(self) -> BackMsg:
        """Return a message that asks for the page anew."""
        message = BackMsg()
        state = message.rerun_script
        state.query_string = self._query
        state.context_info.url = self.address
        state.context_info.color_scheme = "light"
        return message

    async def _send(self, sentence: str) -> None:
        message = self.rerun()
        field = message.rerun_script.widget_states.widgets.add()
        field.id, field.string_value = self._field, sentence
        await self.socket.send(message.SerializeToString())

    async def _until(self, sentence: str, *, among: tuple[str, ...]) -> None:
        """Note what is shown after each run, until it is said to be that of a sentence."""
        async with asyncio.timeout(self.patience):
            while not (await self._take() and self._note(among) == sentence):
                pass

    def _note(self, among: tuple[str, ...]) -> str:
        """Note what is shown; the sentence that it is said to be of, ValueError if not one sent."""
        answer = self._answer()
        self.answers.append(answer)
        if answer.sentence not in among:
            raise ValueError(f"sent {among}, is shown {answer.sentence!r}")
        return answer.sentence

    async def _take(self) -> bool:
        """Take in a message; whether a script has now run to its end."""
        data = await self.socket.recv(decode=False)
        self.received += len(data)
        message = ForwardMsg.FromString(data)
        match message.WhichOneof("type"):
            case "navigation":
                pages = message.navigation.app_pages
                self._pages = {page.url_pathname: page.page_script_hash for page in pages}
            case "new_session":
                self.page.clear()
            case "delta":
                self.page[tuple(message.metadata.delta_path)] = message.delta
            case "page_info_changed":
                self._query = message.page_info_changed.query_string
            case "script_finished":
                return message.script_finished in _RAN
            case "ref_hash":
                raise ValueError("the server refers to a message that this session has not")
        return False

    def elements(self) -> Iterator[tuple[Path, str, Element]]:
        """Return what stands on the page: where, of which type, and itself."""
        for path, delta in self.page.items():
            if delta.WhichOneof("type") == "new_element":
                yield path, delta.new_element.WhichOneof("type") or "", delta.new_element

    def _answer(self) -> Answer:
        block = next(
            (p for p, d in self.page.items() if d.add_block.id.endswith("-translation")), None
        )
        translation, weights, problems = None, None, []
        for path, kind, element in self.elements():
            if kind == "exception":
                problems.append(f"{element.exception.type}: {element.exception.message}")
            elif kind == "alert":
                problems.append(f"message on the page: {element.alert.body}")
            elif kind == "html" and path[:-1] == block:
                translation = unescape(re.sub("<[^>]*>", "", element.html.body))
            elif kind == "bidi_component" and element.bidi_component.id.endswith("-large"):
                [drawn] = json.loads(element.bidi_component.json)
                weights = cells_of(drawn["figure"])
            elif kind == "text_area" and element.text_area.id.rstrip().endswith("-sentence"):
                self._field = element.text_area.id
        sentence = parse_qs(self._query).get("q", [""])[0]
        return Answer(self.number, self.head, sentence, translation, weights, tuple(problems))


Made = TypeVar("Made")


@asynccontextmanager
async def connected(
    number: int, head: Head, address: str, patience: float = PATIENCE
) -> AsyncIterator[Session]:
    """A session of its own on the server at an address, closed at the end."""
    session = Session(number, head, address, patience)
    await session.connect()
    try:
        yield session
    finally:
        await session.socket.close()


def apart(doing: Coroutine[Any, Any, Made]) -> Made:
    """Do something in a thread of its own: Playwright may have left a running loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, doing).result()
