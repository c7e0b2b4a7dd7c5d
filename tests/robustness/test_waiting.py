"""Waiting on a busy machine is fair and moves, and nobody who asks for little is held up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from itertools import count

from benchmarks.load_answers import Expected
from benchmarks.load_server import Server, serving
from benchmarks.load_session import Session, connected
from headwise.model.budget import MEMORY

PATIENT = 300.0
"""Seconds; spent only where something is broken."""
WORDS = 800
"""Of a long sentence, whose trace takes more than an eighth of a GiB."""
VAIN = WORDS + 100
"""Of one for which nobody waits any more when its turn comes."""
APART = 1.5
"""Seconds between two who ask, in which the first of them gets into the queue."""


class Patient(Session):
    """Somebody who waits."""

    patience = PATIENT


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Others keep so many processors busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def long_sentence(words: int) -> str:
    return " ".join(["cats", "dogs"] * (words // 2))


async def drive(server: Server) -> tuple[list[int], int]:
    """Return in which order long sentences were answered, and how many short ones meanwhile."""
    head, order = Expected("en-es").head(0), list[int]()
    async with AsyncExitStack() as opened:
        sessions = [
            await opened.enter_async_context(connected(number, head, server.address, Patient))
            for number in range(5)
        ]
        *longs, gone, short = sessions
        await short.open("en-es", "The dog sleeps.")

        async def ask(number: int) -> None:
            await asyncio.sleep(APART * number)
            # A translation that is given takes no time before the queue.
            await longs[number].open(
                "en-es", long_sentence(WORDS + 2 * number), target="Los gatos."
            )
            order.append(number)

        async def ask_in_vain() -> None:
            await asyncio.sleep(APART * len(longs))
            with suppress(TimeoutError):
                async with asyncio.timeout(APART / 2):
                    await gone.open("en-es", long_sentence(VAIN), target="Los gatos.")
            await gone.socket.close()

        async def ask_for_little() -> None:
            for number in count():
                await short.type(f"I see {number} cats.")

        little = asyncio.create_task(ask_for_little())
        await asyncio.gather(*map(ask, range(len(longs))), ask_in_vain())
        little.cancel()
        with suppress(asyncio.CancelledError):
            await little
        return order, len(short.seconds)


def test_waiting_is_fair_on_a_busy_machine() -> None:
    """Long sentences are answered as they came, short ones meanwhile, and nobody's not at all."""
    # In a thread of its own: the browser's tests may have left a running loop in this one.
    with serving(**{MEMORY: "1GiB"}) as server, busy(2), ThreadPoolExecutor(1) as apart:
        order, short = apart.submit(asyncio.run, drive(server)).result()
        assert server.faults() == []
        log = server._log.read_text()
    assert order == [0, 1, 2]
    assert short >= 3  # behind the long ones it would be one
    traced = [line for line in log.splitlines() if " trace: " in line]
    lengths = [int(line.partition("source ")[2].partition(",")[0]) for line in traced]
    assert [length for length in lengths if length > WORDS] == [WORDS + 1 + 2 * n for n in range(3)]
