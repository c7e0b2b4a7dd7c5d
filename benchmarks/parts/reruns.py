"""What the server's processor does for one person: a sentence, another head, another page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from benchmarks.load_server import Server, serving
from benchmarks.load_session import Session, connected
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import median
from headwise.model.checkpoint import open_trained_run
from headwise.model.interface import Head

RUN, TOKENS = "en-es", 10
TIMES = 20
WORDS = (
    *("cat", "dog", "house", "car", "book", "tree", "boy", "girl", "man", "woman", "apple"),
    *("table", "chair", "school", "river", "street", "bird", "horse", "door", "city", "window"),
)
MOST = {"a sentence of 10 tokens": 0.09, "another head": 0.05, "another page": 0.12}
"""What is done → most seconds of processor."""
STEPS = len(MOST)


def sentences() -> list[str]:
    """Return sentences of so many tokens, ``</s>`` included, each another.

    Raises:
        ValueError: if one has another number of tokens.
    """
    made = [f"The {a} and the {b} are here now." for a, b in zip(WORDS, WORDS[::-1], strict=True)]
    tokenizers = open_trained_run(RUN).tokenizers
    for sentence in made:
        if (length := len(tokenizers.encode_source(sentence))) != TOKENS:
            raise ValueError(f"{sentence!r} has {length} tokens, not {TOKENS}")
    return made


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Drive a session over the WebSocket; the number of rounds is always the same."""
    with serving() as server, ThreadPoolExecutor(1) as pool:
        # A loop of events may be running in this thread.
        times = pool.submit(lambda: asyncio.run(_drive(server, tick))).result()
    return Findings(
        (
            Table(
                f"Processor time of the server, one thread, {TIMES} times",
                ("", "median (s)", "least (s)", "most (s)"),
                tuple((what, median(each), min(each), max(each)) for what, each in times.items()),
            ),
        ),
        tuple(
            Rule(f"reruns: seconds of processor, {what}", median(each), MOST[what])
            for what, each in times.items()
        ),
        raw={f"reruns: {what} (s)": each for what, each in times.items()},
    )


async def _drive(server: Server, tick: Tick) -> dict[str, list[float]]:
    first, *others = sentences()
    pages = ["inside", "architecture", "embeddings", "training", "heads", ""]
    times: dict[str, list[float]] = {}
    async with connected(0, Head("cross", 2, 0), server.address, Session) as session:
        await session.open(RUN, first)
        actions: dict[str, Callable[[int], Awaitable[None]]] = {
            "a sentence of 10 tokens": lambda at: session.type(others[at]),
            "another head": lambda at: session.choose("head", str(at % 4 + 1)),
            "another page": lambda at: session.go_to(pages[at % len(pages)]),
        }
        for what, act in actions.items():
            # Once before: what is computed once for all sessions does not count.
            for at in range(len(pages)) if what == "another page" else ():
                await act(at)
            times[what] = [await _seconds(server, act, at) for at in range(TIMES)]
            tick(what)
    return times


async def _seconds(server: Server, act: Callable[[int], Awaitable[None]], at: int) -> float:
    before = server.cpu_seconds()
    await act(at)
    await asyncio.sleep(0.2)  # what the server does after its script has ended
    return server.cpu_seconds() - before
