"""The worst that is allowed, by many: ``python -m benchmarks.load_memory --sessions 8``.

The app is started with a budget of memory. Each session opens a sentence of as many tokens as the
model takes, no two the same, in the ways of ``WAYS``, in turn. Beside them one visitor types
ordinary sentences. With ``--typed`` each session opens a short sentence, clears it and types the
long one, whose translation is the model's own. A sentence that is refused for its memory counts as
refused. Ends with 1 if a session was neither answered nor refused, or lost its connection, if the
process took more than its budget or ended, or if an ordinary sentence took longer than 5 seconds
(95 of 100). Linux only.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import tyro
from websockets.exceptions import WebSocketException

from benchmarks.load_answers import Expected, sentences_of
from benchmarks.load_server import Server
from benchmarks.load_session import Beside, Session, connected, measured_within, type_for_ever
from benchmarks.report import Table, told
from headwise.model.checkpoint import TrainedRun
from headwise.viz_app.session.target import BEAM_SIZES

LONG = {"target": " ".join("a" * 1_000)}
"""A translation of about as many tokens as the model takes."""
WAYS: tuple[tuple[str, dict[str, str]], ...] = (
    ("", LONG),
    ("", {"decoding": "beam", "beam": str(max(BEAM_SIZES)), "below": "beam"}),
    ("", LONG | {"below": "off", "rank": "true"}),
    ("training", LONG | {"training": "compare"}),
    ("why", LONG | {"at": "1000"}),
)
"""How a sentence is opened: the page, if not *Translate*, and choices of the address."""
MOST_SECONDS = 5.0
"""That an ordinary sentence may take, 95 of 100."""
_WORDS = "a an at be by do go he hi if in is it me my no of on or so to up us we"
_SHORT = "we go"
_REFUSED = "of memory, and"
"""Part of the message with which a sentence is refused for its memory."""
_ERRORS = (TimeoutError, OSError, WebSocketException)


class PatientSession(Session):
    """A session that waits as long as a queue of the longest sentences may take."""

    patience = 1_800.0


@dataclass(frozen=True)
class MemoryArguments:
    """Drive the app with the longest sentences and watch its memory."""

    sessions: int = 8
    """With the longest sentences, all at once."""
    memory: str = "2GiB"
    """The budget that the app is given."""
    run: str = "en-es"
    """A run that sentences are shipped for."""
    typed: bool = False
    """Whether the sentences are typed in place of others, and not opened by an address."""


@dataclass
class Longest(Beside):
    """What the sessions with the longest sentences did."""

    sessions: int = 0
    answered: int = 0
    refused: int = 0
    seconds: float = 0.0
    """Until the last of them was answered."""


def longest_sentence(run: TrainedRun, seed: int) -> str:
    """A sentence of as many tokens as a run's model takes, another one for each seed."""
    drawn, most = random.Random(seed), run.description.max_length
    words = [drawn.choice(_WORDS.split()) for _ in range(most)]
    while (over := len(run.tokenizers.encode_source(" ".join(words))) - most) > 0:
        del words[-max(1, over // 2) :]
    return " ".join(words)


async def _open_longest(session: Session, run: TrainedRun, found: Longest, typed: bool) -> None:
    page, choices = WAYS[session.number % len(WAYS)]
    sentence = longest_sentence(run, session.number)
    try:
        await session.open(run.name, _SHORT if typed else sentence, **choices)
        if typed:
            await session.type_over("", sentence, after=1)
        if page:
            await session.go_to(page)
        problems = session.answers[-1].problems
    except ValueError as error:  # of a page that shows an exception, or a refusal
        problems = [str(error)]
    except _ERRORS as error:
        problems = [f"{type(error).__name__}: {error}"]
    others = [problem for problem in problems if _REFUSED not in problem]
    found.refused += len(problems) > len(others)
    found.answered += not problems
    found.faults += [f"session {session.number}: {problem:.300}" for problem in others]


async def drive(server: Server, arguments: MemoryArguments) -> Longest:
    """So many sessions with the longest sentences at once, and one with ordinary ones."""
    expected, found = Expected(arguments.run), Longest(sessions=arguments.sessions)
    watching = asyncio.create_task(server.watch(0.1))
    sentences = sentences_of(arguments.run)

    async with AsyncExitStack() as opened:
        *longest, other = [
            await opened.enter_async_context(
                connected(each, expected.head(each), server.address, PatientSession)
            )
            for each in range(arguments.sessions + 1)
        ]
        await other.open(arguments.run, next(sentences))
        typing = asyncio.create_task(type_for_ever(other, sentences))
        began = time.monotonic()
        await asyncio.gather(
            *(_open_longest(each, expected.run, found, arguments.typed) for each in longest)
        )
        found.seconds = time.monotonic() - began
        if typing.done():
            found.faults.append(f"ordinary: {typing.exception()!r:.300}")
        typing.cancel()
        found.ordinary = other.seconds
    watching.cancel()
    found.most = max(server.memory)
    return found


def faults_of(found: Longest, budget: float) -> list[str]:
    """What is wrong; ``budget`` is in MiB."""
    faults = found.faults_beyond(budget, MOST_SECONDS)
    if (done := found.answered + found.refused) < found.sessions:
        faults.append(f"{done} of {found.sessions} were answered or refused")
    return faults


def table(found: Longest, memory: str) -> Table:
    """The results."""
    columns = (
        *("sessions with the longest sentence", "answered", "refused", "until the last (s)"),
        *("most memory (MiB)", "ordinary sentences", "their p95 (s)"),
    )
    row = (
        *(found.sessions, found.answered, found.refused, found.seconds, f"{found.most:,.0f}"),
        *(len(found.ordinary), found.p95),
    )
    return Table(f"The longest sentences, with a budget of {memory}", columns, [row])


def main(arguments: MemoryArguments) -> int:
    """The results on standard output, faults after them; 1 if there are any."""
    found, budget = measured_within(arguments.memory, lambda server: drive(server, arguments))
    return told(table(found, arguments.memory), faults_of(found, budget))


if __name__ == "__main__":
    sys.exit(main(tyro.cli(MemoryArguments)))
