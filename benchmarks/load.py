"""Many people at once: ``python -m benchmarks.load --sessions 20 --minutes 5 --pages 5``.

Starts the app, and lets 1, 5, … sessions type sentences over its WebSocket and then some pages in
Chromium, for so many minutes each. No sentence is sent twice, and every session looks at another
head. Without ``--pause`` each sends its next sentence as soon as the last is drawn, which is more
than people do. Every fifth sentence is overtaken by the next while its page is being drawn.
Afterwards each answer is compared with a trace computed in this process. Only localhost is
addressed. Ends with 1 if anything was wrong, or the server's memory (Linux only) went over 2 GiB or
did not level off.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import tyro
from tqdm import tqdm
from websockets.exceptions import WebSocketException

from benchmarks.load_answers import Answer, Expected, faults_of, sentences_of
from benchmarks.load_server import Server, growth, serving
from benchmarks.load_session import connected
from benchmarks.report import Table, Tick
from benchmarks.written import markdown

MOST_MEMORY = 2048.0
"""MiB."""
MOST_GROWTH = 0.05
LEVEL_AFTER = 3.0
"""Minutes; in less time caches still fill, and growth is shown but no fault."""
OVERTAKEN = 5
"""Every so many sentences one is overtaken by the next, …"""
MESSAGES = 97
"""… each time at another place among the messages that make a page."""
_SHOWN = 20
"""Faults that are printed."""


@dataclass(frozen=True)
class LoadArguments:
    """Drive the app with many sessions and check every answer."""

    sessions: int = 20
    """At once, in the last stage; smaller ones of 1 and 5 come first."""
    minutes: float = 5.0
    """A stage."""
    pages: int = 5
    """Pages in Chromium at once, in a stage of their own; 0 for none."""
    pause: float = 0.0
    """Seconds between a page drawn and the session's next sentence."""
    run: str = "en-es"
    """A run that sentences are shipped for."""
    json: Path | None = None
    """File to write the results to."""


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
    kilobytes: float | None = None
    """Received for an answer."""
    memory: float | None = None
    """Most of the server's, MiB."""
    growth: float = 0.0
    """By which part the most memory of its last third exceeds that of the third before."""
    faults: list[str] = field(default_factory=list)


async def drive(
    server: Server,
    expected: Expected,
    sessions: int,
    seconds: float,
    sentences: Iterator[str],
    *,
    pause: float = 0.0,
) -> Stage:
    """Some sessions at once, for some seconds; their answers are compared when all have ended."""
    stage = Stage(f"{sessions} session" + "s" * (sessions > 1))
    answers: list[Answer] = []
    times: list[float] = []
    received = 0
    until = time.monotonic() + seconds

    async def one(number: int) -> None:
        nonlocal received
        try:
            async with connected(number, expected.head(number), server.address) as session:
                try:
                    await session.open(expected.run.info.name, next(sentences))
                    typed = 0
                    while time.monotonic() < until:
                        typed += 1
                        if typed % OVERTAKEN:
                            await session.type(next(sentences))
                        else:
                            first, second = islice(sentences, 2)
                            await session.type_over(first, second, after=typed % MESSAGES)
                        await asyncio.sleep(pause)
                finally:
                    answers.extend(session.answers)
                    times.extend(session.seconds)
                    received += session.received
        except (TimeoutError, ValueError, OSError, WebSocketException) as error:
            stage.faults.append(f"session {number}: {type(error).__name__}: {error}")

    began, before = time.monotonic(), len(server.memory)
    await asyncio.gather(*(one(number) for number in range(sessions)))
    _measure(stage, times, time.monotonic() - began, server.memory[before:])
    for answer in tqdm(answers, "comparing", leave=False, disable=None):
        right = expected.answer(answer.session, answer.head, answer.sentence)
        stage.faults += faults_of(answer, right)
    stage.answers = len(answers)
    stage.kilobytes = received / 1000 / max(1, len(answers))
    return stage


async def show(
    server: Server, expected: Expected, pages: int, seconds: float, sentences: Iterator[str]
) -> Stage:
    """Some pages in Chromium at once, for some seconds."""
    from benchmarks.load_pages import watch_pages  # the only part that needs a browser

    stage = Stage(f"{pages} page" + "s" * (pages > 1))
    began, before = time.monotonic(), len(server.memory)
    watched = await watch_pages(server.address, expected, pages, seconds, sentences)
    _measure(stage, watched.seconds, time.monotonic() - began, server.memory[before:])
    stage.answers = len(watched.seconds)
    stage.faults += watched.faults
    return stage


def _measure(stage: Stage, times: list[float], seconds: float, memory: list[float]) -> None:
    stage.a_second = len(times) / seconds
    if not times:
        stage.faults.append(f"{stage.what}: not one sentence was answered")
    else:
        stage.p50, stage.p95 = np.quantile(times, [0.5, 0.95]).tolist()
    if memory:
        stage.memory, stage.growth = max(memory), growth(memory)


async def run_stages(arguments: LoadArguments, tick: Tick) -> list[Stage]:
    """All stages on one server; what its log says counts for the last."""
    expected = Expected(arguments.run)
    sentences = sentences_of(arguments.run)
    seconds = 60 * arguments.minutes
    stages = []
    with serving() as server:
        watching = asyncio.create_task(server.watch())
        for sessions in [n for n in (1, 5) if n < arguments.sessions] + [arguments.sessions]:
            stages.append(
                await drive(server, expected, sessions, seconds, sentences, pause=arguments.pause)
            )
            tick(stages[-1].what)
        if arguments.pages:
            stages.append(await show(server, expected, arguments.pages, seconds, sentences))
            tick(stages[-1].what)
        watching.cancel()
        stages[-1].faults += server.faults()
    for stage in stages:
        stage.faults += memory_faults(stage, arguments.minutes)
    return stages


def memory_faults(stage: Stage, minutes: float) -> list[str]:
    """What is wrong with the memory of a stage."""
    faults = []
    if stage.memory is not None and stage.memory > MOST_MEMORY:
        faults.append(f"{stage.what}: {stage.memory:,.0f} MiB, more than {MOST_MEMORY:,.0f}")
    if minutes >= LEVEL_AFTER and stage.growth > MOST_GROWTH:
        faults.append(f"{stage.what}: memory still grew by {stage.growth:.1%} in the last third")
    return faults


def table(stages: list[Stage], minutes: float) -> Table:
    """The results."""
    columns = (
        "",
        "answers",
        "sentences/s",
        "p50 (s)",
        "p95 (s)",
        "kB an answer",
        "most memory (MiB)",
        "growth at the end",
        "faults",
    )
    rows = tuple(
        (
            stage.what,
            stage.answers,
            stage.a_second,
            stage.p50,
            stage.p95,
            stage.kilobytes,
            stage.memory,
            f"{stage.growth:+.1%}",
            len(stage.faults),
        )
        for stage in stages
    )
    return Table(f"Load, {minutes:g} minutes a stage", columns, rows)


def main(arguments: LoadArguments) -> int:
    """The results on standard output, faults after them; 1 if there are any."""
    torch.set_num_threads(1)
    stages = asyncio.run(run_stages(arguments, lambda what: print(what, file=sys.stderr)))
    print("\n".join(markdown(table(stages, arguments.minutes))))
    if arguments.json is not None:
        results = {"arguments": asdict(arguments), "stages": [asdict(stage) for stage in stages]}
        arguments.json.write_text(json.dumps(results, indent=2, default=str) + "\n")
    faults = [fault for stage in stages for fault in stage.faults]
    for fault in faults[:_SHOWN]:
        print(fault)
    if len(faults) > _SHOWN:
        print(f"… and {len(faults) - _SHOWN} more")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(LoadArguments)))
