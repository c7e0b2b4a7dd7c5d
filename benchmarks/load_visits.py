"""Address after address: ``python -m benchmarks.load_visits --addresses 3000 --visits 1000``.

The app is started with a budget of memory. Every page and each of its sections is opened once, so
that all code is loaded; after an idle time, that is the start. Then one browser opens addresses one
after another, each a new session, as an address is when it is typed into the browser: all pages and
runs, with choices drawn at random. Then new browsers come, open a sentence, type another one and
leave. Beside them a visitor types ordinary sentences. Afterwards nobody is connected, for two
minutes and a half. Ends with 1 if the process took more than its budget, grew by more than 10%
after the first 300 addresses, was more than 10% above the start after the idle time, or if ordinary
sentences took longer than 1.5 seconds (95 of 100). Linux only.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin
from urllib.parse import urlencode

import tyro
from tqdm import trange

from benchmarks.load_answers import Expected, sentences_of
from benchmarks.load_server import Server
from benchmarks.load_session import Beside, Session, connected, measured_within, type_for_ever
from benchmarks.report import Table, told
from headwise.viz_app.session.state import CHOICES, parameter_of
from headwise.viz_app.session.widgets import PAGE_TITLES

FILLED = 300
"""Addresses after which caches are full, and memory grows no more."""
MOST_GROWTH = 0.1
MOST_SECONDS = 1.5
"""That an ordinary sentence may take, 95 of 100."""
IDLE = 150.0
"""Seconds for which nobody is connected: the two minutes for which Streamlit keeps a session that
ended, and a sweep of the app."""
_PAGES = {name: "" if name == "translate" else name for name in PAGE_TITLES}
"""Page → its name in the address."""
_RUNS = ("en-es", "en-es", "en-es", "de-en", "books-small", "copy")
_ODD = ("cat", "id:7", "mean", "9" * 40, "<b>x</b>", "")


@dataclass(frozen=True)
class VisitArguments:
    """Open many addresses one after another and watch the memory."""

    addresses: int = 3_000
    """Opened by one browser."""
    visits: int = 1_000
    """By new browsers, each of which opens, types and leaves."""
    memory: str = "2GiB"
    """The budget that the app is given."""
    seed: int = 0
    """Of the addresses."""


@dataclass
class Visits(Beside):
    """What was measured, memory in MiB."""

    start: float = 0.0
    """At rest, when each page and section had been opened once."""
    filled: float = 0.0
    """Most of the 100 addresses before the 300th."""
    addresses: float = 0.0
    """Most of the last 100 addresses."""
    visits: float = 0.0
    """Most of the last 100 visits."""
    idle: float = 0.0
    """After the idle time."""


def addresses(seed: int) -> Iterator[tuple[str, str]]:
    """Pages and queries without end, with choices drawn at random; no sentence comes twice."""
    drawn, sentences = random.Random(seed), sentences_of(_RUNS[0])
    while True:
        name = drawn.choice([*_PAGES])
        own = [
            each
            for each, choice in CHOICES.items()
            if choice.page in ("", name) and each not in ("run", "sentence", "lessons")
        ]
        asked: dict[str, object] = {}
        for each in drawn.sample(own, drawn.randint(0, 6)):
            asked |= {parameter_of(other): value for other, value in CHOICES[each].where.items()}
            asked[parameter_of(each)] = _value(CHOICES[each].kind, drawn)
        asked["run"] = drawn.choice(_RUNS)
        if asked["run"] == _RUNS[0]:
            asked["q"] = next(sentences)
        yield _PAGES[name], urlencode(asked, doseq=True)


def openings() -> Iterator[tuple[str, str]]:
    """Each page, and each of its sections that has choices of its own."""
    yield from ((page, "") for page in _PAGES.values())
    sections = {
        (
            choice.page,
            urlencode({parameter_of(each): value for each, value in choice.where.items()}),
        )
        for choice in CHOICES.values()
        if choice.page and choice.where
    }
    yield from ((_PAGES[name], query) for name, query in sorted(sections))


def _value(kind: Any, drawn: random.Random) -> object:
    """A value of a choice, mostly one that its widget has."""
    options = [kind, *get_args(kind)]
    if literal := next((each for each in options if get_origin(each) is Literal), None):
        return drawn.choice(get_args(literal))
    if bool in options:
        return drawn.choice(("true", "false"))
    if int in options:
        return drawn.randint(0, 12)
    if float in options:
        return f"{drawn.random() * 2:.2f}"
    return drawn.choice(_ODD)


async def drive(server: Server, arguments: VisitArguments) -> Visits:
    """Open the addresses, then let the visitors come, then nobody."""
    found, expected = Visits(), Expected(_RUNS[0])
    sentences, opened = sentences_of(_RUNS[0]), addresses(arguments.seed)
    watching = asyncio.create_task(server.watch(0.2))

    def resident() -> float:
        return server.resident() or 0.0

    @asynccontextmanager
    async def visitor(number: int) -> AsyncIterator[Session]:
        async with connected(number, expected.head(number), server.address) as session:
            try:
                yield session
            except (TimeoutError, ValueError) as error:
                found.faults.append(f"{number}: {type(error).__name__}: {error!s:.300}")

    for page, query in openings():
        async with visitor(0) as session:
            await session.load(page, query)
    await asyncio.sleep(IDLE)
    found.start = resident()
    async with visitor(0) as ordinary:
        await ordinary.open(_RUNS[0], next(sentences))
        typing = asyncio.create_task(type_for_ever(ordinary, sentences))
        memory = []
        for number in trange(arguments.addresses, desc="addresses", mininterval=5):
            async with visitor(number) as session:
                await session.load(*next(opened))
            memory.append(resident())
        found.filled = max(memory[FILLED - 100 : FILLED], default=0.0)
        found.addresses = max(memory[-100:], default=0.0)
        memory = []
        for number in trange(arguments.visits, desc="visits", mininterval=5):
            async with visitor(number) as session:
                await session.open(_RUNS[0], next(sentences))
                await session.type(next(sentences))
            memory.append(resident())
        found.visits = max(memory[-100:], default=0.0)
        typing.cancel()
        found.ordinary = ordinary.seconds
    await asyncio.sleep(IDLE)
    found.idle = resident()
    watching.cancel()
    found.most = max(server.memory)
    return found


def faults_of(found: Visits, budget: float) -> list[str]:
    """What is wrong; ``budget`` is in MiB."""
    faults = found.faults_beyond(budget, MOST_SECONDS)
    for what, before, after in (
        (f"from address {FILLED} to the last", found.filled, found.addresses),
        (f"from address {FILLED} to the last visit", found.filled, found.visits),
        ("from the start to the idle minutes", found.start, found.idle),
    ):
        if before and after > (1 + MOST_GROWTH) * before:
            faults.append(f"{what} memory grew by {after / before - 1:.0%}")
    return faults


def table(found: Visits, arguments: VisitArguments, seconds: float) -> Table:
    """The results."""
    columns = (
        *("start (MiB)", f"addresses up to {FILLED} (MiB)", f"up to {arguments.addresses:,} (MiB)"),
        *(f"{arguments.visits:,} visits (MiB)", "most (MiB)", "idle (MiB)"),
        *("ordinary sentences", "their p95 (s)", "all (min)"),
    )
    memory = (found.start, found.filled, found.addresses, found.visits, found.most, found.idle)
    row = (*(f"{each:,.0f}" for each in memory), len(found.ordinary), found.p95, seconds / 60)
    return Table(f"Address after address, with a budget of {arguments.memory}", columns, [row])


def main(arguments: VisitArguments) -> int:
    """The results on standard output, faults after them; 1 if there are any."""
    began = time.monotonic()
    found, budget = measured_within(arguments.memory, lambda server: drive(server, arguments))
    seconds = time.monotonic() - began
    return told(table(found, arguments, seconds), faults_of(found, budget))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(VisitArguments)))
