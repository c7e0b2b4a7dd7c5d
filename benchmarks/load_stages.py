"""Stages of load: some sessions, or pages in Chromium, type at once for so many seconds."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count, islice

import numpy as np
from tqdm import tqdm
from websockets.exceptions import WebSocketException

from benchmarks.load_answers import Expected, faults_of
from benchmarks.load_replicas import Replicas
from benchmarks.load_server import growth
from benchmarks.load_session import Session, connected

OVERTAKEN = 5
"""Every so many sentences one is overtaken by the next, …"""
MESSAGES = 97
"""… each time at another place among the messages that make a page."""


@dataclass(frozen=True)
class Rhythm:
    """When sessions type."""

    pause: float = 0.0
    """Seconds between a page drawn and the session's next sentence, on average; each pause is drawn
    from an exponential distribution, with the session's number as the seed."""
    together: float = 0.0
    """If not 0: all sessions press Enter at the same moment, every so many seconds."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: if one is negative, or both are given.
        """
        if min(self.pause, self.together) < 0 or (self.pause and self.together):
            raise ValueError(
                "expected seconds for a pause or for typing together, and not both; got "
                f"{self.pause:g} and {self.together:g}"
            )


WITHOUT_PAUSES = Rhythm()
"""Each types as soon as it is answered."""


@dataclass
class Stage:
    """What some sessions did at once."""

    what: str
    answers: int = 0
    """Compared."""
    a_second: float = 0.0
    """Sentences a second, all sessions together."""
    p50: float | None = None
    """Seconds from a sentence sent to its script finished."""
    p95: float | None = None
    rounds: list[float] = field(default_factory=list)
    """Seconds from the moment in which all press Enter until the last one has its answer."""
    kilobytes: float | None = None
    """Received for an answer."""
    memory: float | None = None
    """Most of a replica's, MiB."""
    growth: float = 0.0
    """By which part the most memory of a replica's last third exceeds that of the third before."""
    faults: list[str] = field(default_factory=list)


async def drive(
    replicas: Replicas,
    expected: Expected,
    number: int,
    seconds: float,
    sentences: Iterator[str],
    rhythm: Rhythm,
) -> Stage:
    """So many sessions at once, for some seconds; answers are compared when all have ended."""
    stage = Stage(f"{number} session" + "s" * (number > 1))
    before = [len(server.memory) for server in replicas.servers]

    async def note_faults(session: Session, doing: Awaitable[None]) -> None:
        try:
            await doing
        except (TimeoutError, ValueError, OSError, WebSocketException) as error:
            stage.faults.append(f"session {session.number}: {type(error).__name__}: {error}")

    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(connected(each, expected.head(each), replicas.address))
            for each in range(number)
        ]
        run = expected.run.info.name
        await asyncio.gather(
            *(note_faults(session, session.open(run, next(sentences))) for session in sessions)
        )
        began = time.monotonic()
        if rhythm.together:
            moment = began
            while moment < began + seconds:
                await asyncio.sleep(moment - time.monotonic())
                typing = (session.type(next(sentences)) for session in sessions)
                await asyncio.gather(*map(note_faults, sessions, typing))
                stage.rounds.append(time.monotonic() - moment)
                moment = _next(began, rhythm.together)
        else:
            until = began + seconds
            typing = (_type_alone(session, sentences, until, rhythm.pause) for session in sessions)
            await asyncio.gather(*map(note_faults, sessions, typing))
        taken = time.monotonic() - began
    _measure(stage, [each for session in sessions for each in session.seconds], taken)
    _measure_memory(stage, replicas, before)
    answers = [answer for session in sessions for answer in session.answers]
    for answer in tqdm(answers, "comparing", leave=False, disable=None):
        right = expected.answer(answer.session, answer.head, answer.sentence)
        stage.faults += faults_of(answer, right)
    stage.answers = len(answers)
    stage.kilobytes = sum(session.received for session in sessions) / 1000 / max(1, len(answers))
    return stage


async def _type_alone(
    session: Session, sentences: Iterator[str], until: float, pause: float
) -> None:
    """Type sentences with pauses; every fifth is overtaken by the next."""
    drawn = random.Random(session.number)
    for typed in count(1):
        wait = drawn.expovariate(1 / pause) if pause else 0.0
        if time.monotonic() + wait >= until:
            return
        await asyncio.sleep(wait)
        if typed % OVERTAKEN:
            await session.type(next(sentences))
        else:
            first, second = islice(sentences, 2)
            await session.type_over(first, second, after=typed % MESSAGES)


def _next(began: float, every: float) -> float:
    """The next of the moments that come every so many seconds."""
    return began + every * math.ceil((time.monotonic() - began) / every)


async def show(
    replicas: Replicas, expected: Expected, pages: int, seconds: float, sentences: Iterator[str]
) -> Stage:
    """Some pages in Chromium at once, for some seconds, without pauses."""
    from benchmarks.load_pages import watch_pages  # the only part that needs a browser

    stage = Stage(f"{pages} page" + "s" * (pages > 1))
    before = [len(server.memory) for server in replicas.servers]
    began = time.monotonic()
    watched = await watch_pages(replicas.address, expected, pages, seconds, sentences)
    _measure(stage, watched.seconds, time.monotonic() - began)
    _measure_memory(stage, replicas, before)
    stage.answers = len(watched.seconds)
    stage.faults += watched.faults
    return stage


def _measure(stage: Stage, times: list[float], seconds: float) -> None:
    stage.a_second = len(times) / seconds
    if not times:
        stage.faults.append(f"{stage.what}: not one sentence was answered")
    else:
        stage.p50, stage.p95 = np.quantile(times, [0.5, 0.95]).tolist()


def _measure_memory(stage: Stage, replicas: Replicas, before: list[int]) -> None:
    pairs = zip(replicas.servers, before, strict=True)
    memories = [seen for server, number in pairs if (seen := server.memory[number:])]
    if memories:
        stage.memory, stage.growth = max(map(max, memories)), max(map(growth, memories))
