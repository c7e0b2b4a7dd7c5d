"""The worst that is allowed, by many: ``python -m benchmarks.load_memory --sessions 1 8 30``.

For each number of sessions the app is started with a budget of memory. Each session opens a
sentence of as many tokens as the model takes, no two the same, in one of these ways, in turn: with
a translation of its own that is as long, with the widest beam, with the ranking of all heads by
what they cost that translation, compared with another checkpoint on it, and with the account of its
last word.
Beside them one visitor types ordinary sentences. A sentence that is refused for its memory counts
as refused; no session may lose its connection. Ends with 1 if one did, if the process took more
than its budget or ended, or if an ordinary sentence took longer than 5 seconds (95 of 100). Linux
only.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import numpy as np
import tyro
from websockets.exceptions import WebSocketException

from benchmarks.load_answers import Expected, sentences_of
from benchmarks.load_server import Server, serving
from benchmarks.load_session import Session, connected
from benchmarks.report import Table
from benchmarks.written import markdown
from headwise.model.budget import MEMORY, parse_bytes
from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.views.shared.target import BEAM_SIZES

LONG = {"target": " ".join("a" * 1_000)}
"""A translation of about as many tokens as the model takes."""
WAYS: dict[str, dict[str, str]] = {
    "own translation": LONG,
    "beam": {"decoding": "beam", "beam": str(max(BEAM_SIZES)), "below": "beam"},
    "ranking": LONG | {"below": "off", "rank": "true"},
    "comparison": LONG | {"training": "compare"},
    "account": LONG | {"at": "1000"},
}
"""How a sentence is opened: choices of the address."""
PAGES = {"comparison": "training", "account": "why"}
"""Which page is opened then."""
MOST_SECONDS = 5.0
"""That an ordinary sentence may take, 95 of 100."""
_WORDS = "a an at be by do go he hi if in is it me my no of on or so to up us we"
_REFUSED = "of memory, and"
"""Part of the message with which a sentence is refused for its memory."""


class PatientSession(Session):
    """A session that waits as long as a queue of the longest sentences may take."""

    patience = 1_800.0


@dataclass(frozen=True)
class MemoryArguments:
    """Drive the app with the longest sentences and watch its memory."""

    sessions: tuple[int, ...] = (1, 8, 30)
    """With the longest sentences at once; a stage for each number."""
    memory: str = "2GiB"
    """The budget that the app is given."""
    run: str = "en-es"
    """A run that sentences are shipped for."""
    after: float = 150.0
    """Seconds to wait, when all sessions have closed, before what is still held is read."""


@dataclass
class MemoryStage:
    """What some sessions with the longest sentences did."""

    sessions: int
    answered: int = 0
    refused: int = 0
    seconds: float = 0.0
    """Until the last of them was answered."""
    most: float = 0.0
    """MiB."""
    left: float = 0.0
    """MiB, when all had closed."""
    ordinary: list[float] = field(default_factory=list)
    """Seconds of the ordinary sentences meanwhile."""
    faults: list[str] = field(default_factory=list)


def longest_sentence(run: TrainedRun, seed: int) -> str:
    """A sentence of as many tokens as a run's model takes, another one for each seed."""
    drawn = random.Random(seed)
    most = run.description.max_length
    encode = run.tokenizers.encode_source
    words = [drawn.choice(_WORDS.split()) for _ in range(most)]
    while len(encode(" ".join(words))) > most:
        del words[-max(1, (len(encode(" ".join(words))) - most) // 2) :]
    return " ".join(words)


async def _open_longest(
    session: Session, run: str, sentence: str, way: str, stage: MemoryStage
) -> None:
    try:
        await session.open(run, sentence, **WAYS[way])
        if page := PAGES.get(way):
            await session.go_to(page)
    except ValueError as error:
        refused = _REFUSED in str(error)
        stage.refused += refused
        if not refused:
            stage.faults.append(f"session {session.number}, {way}: {error!s:.300}")
    except (TimeoutError, OSError, WebSocketException) as error:
        stage.faults.append(f"session {session.number}, {way}: {type(error).__name__}: {error}")
    else:
        problems = session.answers[-1].problems
        refused = any(_REFUSED in problem for problem in problems)
        stage.refused += refused
        stage.answered += not refused
        stage.faults += [
            f"session {session.number}, {way}: {problem:.300}"
            for problem in problems
            if _REFUSED not in problem
        ]


async def _type_ordinary(session: Session, sentences: Sequence[str], ends: asyncio.Event) -> None:
    """Type ordinary sentences, with a pause of two seconds, until the others have ended."""
    for sentence in sentences:
        if ends.is_set() and session.seconds:
            return
        await session.type(sentence)
        await asyncio.sleep(2)


async def drive(server: Server, number: int, arguments: MemoryArguments) -> MemoryStage:
    """So many sessions with the longest sentences at once, and one with ordinary ones."""
    expected = Expected(arguments.run)
    stage = MemoryStage(number)
    watching = asyncio.create_task(server.watch(0.1))
    ordinary = sentences_of(arguments.run)
    texts = [next(ordinary) for _ in range(2_000)]
    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(
                connected(each, expected.head(each), server.address, PatientSession)
            )
            for each in range(number + 1)
        ]
        *longest, other = sessions
        await other.open(arguments.run, texts[0])
        ends = asyncio.Event()
        typing = asyncio.create_task(_type_ordinary(other, texts[1:], ends))
        began = time.monotonic()
        ways = [list(WAYS)[each % len(WAYS)] for each in range(number)]
        await asyncio.gather(
            *(
                _open_longest(
                    session,
                    arguments.run,
                    longest_sentence(expected.run, session.number),
                    way,
                    stage,
                )
                for session, way in zip(longest, ways, strict=True)
            )
        )
        stage.seconds = time.monotonic() - began
        ends.set()
        try:
            await typing
        except (TimeoutError, ValueError, OSError, WebSocketException) as error:
            stage.faults.append(f"ordinary: {type(error).__name__}: {error!s:.300}")
        stage.ordinary = other.seconds
    await asyncio.sleep(arguments.after)
    watching.cancel()
    stage.most, stage.left = max(server.memory), server.memory[-1]
    return stage


def faults_of(stage: MemoryStage, budget: float) -> list[str]:
    """What is wrong with a stage; ``budget`` is in MiB."""
    faults = [f"{stage.sessions} sessions: {fault}" for fault in stage.faults]
    if stage.most > budget:
        faults.append(f"{stage.sessions} sessions: {stage.most:,.0f} MiB, more than {budget:,.0f}")
    if stage.answered + stage.refused < stage.sessions:
        faults.append(
            f"{stage.sessions} sessions: {stage.answered + stage.refused} were answered or refused"
        )
    p95 = np.quantile(stage.ordinary, 0.95) if stage.ordinary else np.inf
    if p95 > MOST_SECONDS:
        faults.append(f"{stage.sessions} sessions: an ordinary sentence took {p95:.1f} s (p95)")
    return faults


def table(stages: list[MemoryStage], memory: str) -> Table:
    """The results."""
    columns = (
        "sessions with the longest sentence",
        "answered",
        "refused",
        "until the last (s)",
        "most memory (MiB)",
        "left at the end (MiB)",
        "ordinary sentences",
        "their p95 (s)",
    )
    rows = tuple(
        (
            str(stage.sessions),
            stage.answered,
            stage.refused,
            stage.seconds,
            stage.most,
            stage.left,
            len(stage.ordinary),
            float(np.quantile(stage.ordinary, 0.95)) if stage.ordinary else None,
        )
        for stage in stages
    )
    return Table(f"Memory, with a budget of {memory}", columns, rows)


def main(arguments: MemoryArguments) -> int:
    """The results on standard output, faults after them; 1 if there are any."""
    budget = parse_bytes(arguments.memory) / 2**20
    stages, faults = [], []
    for number in arguments.sessions:
        with serving(**{MEMORY: arguments.memory}) as server:
            stage = asyncio.run(drive(server, number, arguments))
            stage.faults += server.faults()
        stages.append(stage)
        faults += faults_of(stage, budget)
        print(f"{number} sessions: {stage.most:,.0f} MiB at most", file=sys.stderr)
    print("\n".join(markdown(table(stages, arguments.memory))))
    print("\n".join(faults[:20]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(MemoryArguments)))
