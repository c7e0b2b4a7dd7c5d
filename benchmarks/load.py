"""Many people at once: ``python -m benchmarks.load --sessions 20 --minutes 5``.

Starts the app, or asks one that runs at an address, and lets 1, 5, … sessions type sentences over
its WebSocket, for so many minutes each. No sentence is sent twice, and every session looks at
another head. Without ``--pause`` or ``--together`` each sends its next sentence as soon as the last
is drawn, which is more than people do, and every fifth sentence is overtaken by the next while its
page is being drawn. Afterwards each answer is compared with a trace computed in this process. Ends
with 1 if anything was wrong, or the server's memory (Linux only) went over 2 GiB or did not level
off.
"""

from __future__ import annotations

import asyncio
import math
import random
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import count, islice
from statistics import median

import numpy as np
import torch
import tyro
from websockets.exceptions import WebSocketException

from benchmarks.load_server import serving
from benchmarks.load_session import Expected, Session, apart, connected, faults_of, sentences_of
from benchmarks.report import Cell, Findings

MOST_MEMORY = 2048.0
"""MiB."""
MOST_GROWTH = 0.05
LEVEL_AFTER = 3.0
"""Minutes; in less time caches still fill, and growth is shown but no fault."""
OVERTAKEN = 5
"""Every so many sentences one is overtaken by the next, …"""
MESSAGES = 97
"""… each time at another place among the messages that make a page."""


@dataclass(frozen=True)
class LoadArguments:
    """Drive the app with many sessions and check every answer."""

    sessions: int = 20
    """At once, in the last stage; smaller ones of 1 and 5 come first."""
    minutes: float = 5.0
    """A stage."""
    address: str = ""
    """Where the app runs, as http://localhost:8501; else one is started here."""
    pause: float = 0.0
    """Seconds between a page drawn and the session's next sentence, on average; each pause is drawn
    from an exponential distribution, with the session's number as the seed."""
    together: float = 0.0
    """If not 0: all sessions press Enter at the same moment, every so many seconds."""
    run: str = "en-es"
    """A run that sentences are shipped for."""

    def __post_init__(self) -> None:
        """Check when sessions type.

        Raises:
            ValueError: if a number of seconds is negative, or both are given.
        """
        if min(self.pause, self.together) < 0 or (self.pause and self.together):
            raise ValueError(
                "expected seconds for a pause or for typing together, and not both; got "
                f"{self.pause:g} and {self.together:g}"
            )


@dataclass
class Stage:
    """What some sessions did at once; seconds are from a sentence sent to its script finished."""

    what: str
    answers: int = 0  # compared
    a_second: float = 0.0  # sentences, of all sessions together
    p50: float | None = None
    p95: float | None = None
    rounds: list[float] = field(default_factory=list)
    """Seconds from the moment in which all press Enter until the last one has its answer."""
    kilobytes: float | None = None  # received for an answer
    memory: float | None = None  # most of the server's, MiB
    growth: float = 0.0
    """By which part the most memory of the last third exceeds that of the third before."""
    faults: list[str] = field(default_factory=list)


async def run_stages(arguments: LoadArguments) -> list[Stage]:
    """All stages on the same server; what its log says counts for the last."""
    expected, sentences = Expected(arguments.run), sentences_of(arguments.run)
    stages = []
    with nullcontext() if arguments.address else serving() as server:
        address = server.address if server else arguments.address
        watching = asyncio.create_task(server.watch()) if server else None
        for number in [n for n in (1, 5) if n < arguments.sessions] + [arguments.sessions]:
            seen = len(server.memory) if server else 0
            stage = await drive(address, expected, number, sentences, arguments)
            if server and (memory := server.memory[seen:]):
                stage.memory, stage.growth = max(memory), growth(memory)
            stages.append(stage)
            print(stage.what, file=sys.stderr)
        if server and watching:
            watching.cancel()
            stages[-1].faults += server.faults()
    for stage in stages:
        stage.faults += memory_faults(stage, arguments.minutes)
    return stages


async def drive(
    address: str,
    expected: Expected,
    number: int,
    sentences: Iterator[str],
    arguments: LoadArguments,
) -> Stage:
    """So many sessions at once; answers are compared when all have ended."""
    stage, together = Stage(f"{number} session" + "s" * (number > 1)), arguments.together

    async def note_faults(session: Session, doing: Awaitable[None]) -> None:
        try:
            await doing
        except (TimeoutError, ValueError, OSError, WebSocketException) as error:
            stage.faults.append(f"session {session.number}: {type(error).__name__}: {error}")

    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(connected(each, expected.head(each), address))
            for each in range(number)
        ]
        run = expected.run.info.name
        await asyncio.gather(
            *(note_faults(session, session.open(run, next(sentences))) for session in sessions)
        )
        began = moment = time.monotonic()
        until = began + 60 * arguments.minutes
        if together:
            while moment < until:
                await asyncio.sleep(moment - time.monotonic())
                typing = (session.type(next(sentences)) for session in sessions)
                await asyncio.gather(*map(note_faults, sessions, typing))
                stage.rounds.append(time.monotonic() - moment)
                past = math.ceil((time.monotonic() - began) / together)
                moment = began + together * past
        else:
            typing = (
                _type_alone(session, sentences, until, arguments.pause) for session in sessions
            )
            await asyncio.gather(*map(note_faults, sessions, typing))
        taken = time.monotonic() - began
    if times := [each for session in sessions for each in session.seconds]:
        stage.p50, stage.p95 = np.quantile(times, [0.5, 0.95]).tolist()
    else:
        stage.faults.append(f"{stage.what}: not one sentence was answered")
    answers = [answer for session in sessions for answer in session.answers]
    for answer in answers:
        right = expected.answer(answer.session, answer.head, answer.sentence)
        stage.faults += faults_of(answer, right)
    stage.a_second, stage.answers = len(times) / taken, len(answers)
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


def growth(memory: Sequence[float]) -> float:
    """By which part the most memory of the last third exceeds that of the third before it."""
    third = len(memory) // 3
    return max(memory[-third:]) / max(memory[-2 * third : -third]) - 1 if third else 0.0


def memory_faults(stage: Stage, minutes: float) -> list[str]:
    """What is wrong with the memory of a stage."""
    faults = []
    if stage.memory is not None and stage.memory > MOST_MEMORY:
        faults.append(f"{stage.what}: {stage.memory:,.0f} MiB, more than {MOST_MEMORY:,.0f}")
    if minutes >= LEVEL_AFTER and stage.growth > MOST_GROWTH:
        faults.append(f"{stage.what}: memory still grew by {stage.growth:.1%} in the last third")
    return faults


_COLUMNS = (
    *("", "answers", "sentences/s", "p50 (s)", "p95 (s)"),
    *("last of a round, median (s)", "worst round (s)", "kB an answer"),
    *("most memory (MiB)", "growth at the end", "faults"),
)


def row(stage: Stage) -> tuple[Cell, ...]:
    """A stage's results."""
    return (
        *(stage.what, stage.answers, stage.a_second, stage.p50, stage.p95),
        median(stage.rounds) if stage.rounds else None,
        max(stage.rounds, default=None),
        *(stage.kilobytes, stage.memory, f"{stage.growth:+.1%}", len(stage.faults)),
    )


def measure(found: Findings, rounds: int) -> None:
    """1, 5 and 20 sessions over the WebSocket, five minutes each in ten rounds or more."""
    _measure(found, LoadArguments(minutes=min(rounds / 2, 5.0)))


def _measure(found: Findings, arguments: LoadArguments) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        stages = apart(run_stages(arguments))
    finally:
        torch.set_num_threads(threads)
    found.table(f"Load, {arguments.minutes:g} minutes a stage", _COLUMNS, map(row, stages))
    faults = [fault for stage in stages for fault in stage.faults]
    found.notes += [*faults[:20], *[f"… and {len(faults) - 20} more"] * (len(faults) > 20)]
    found.rule("load: faults", len(faults), 0)
    if memory := [stage.memory for stage in stages if stage.memory is not None]:
        found.rule("load: most memory (MiB)", max(memory), MOST_MEMORY)


def main(arguments: LoadArguments) -> int:
    """The results on standard output, faults after them; 1 if there are any."""
    found = Findings("load")
    _measure(found, arguments)
    print("\n".join([*found.tables, *found.notes]))
    return int(bool(found.notes))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(LoadArguments)))
