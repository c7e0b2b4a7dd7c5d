"""What the server's processor does for one person: a sentence, another head, another page."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from statistics import median

from benchmarks.load_server import Server, serving
from benchmarks.load_session import apart, connected
from benchmarks.report import Findings
from headwise.model.interface import Head

TIMES = 20
SENTENCE = "The {} and the {} are here now."
"""Of ten tokens in en-es, ``</s>`` included."""
WORDS = (
    *("cat", "dog", "house", "car", "book", "tree", "boy", "girl", "man", "woman", "apple"),
    *("table", "chair", "school", "river", "street", "bird", "horse", "door", "city", "window"),
)
MOST = {"a sentence of 10 tokens": 0.09, "another head": 0.05, "another page": 0.12}
"""What is done → most seconds of processor."""
_PAGES = ("inside", "model", "training", "heads", "errors", "")


def measure(found: Findings, rounds: int) -> None:
    """Drive a session over the WebSocket; the number of rounds is always the same."""
    with serving() as server:
        times = apart(_drive(server))
    rows = [(what, median(each), min(each), max(each)) for what, each in times.items()]
    title = f"Processor time of the server, one thread, {TIMES} times"
    found.table(title, ("", "median (s)", "least (s)", "most (s)"), rows)
    for what, each in times.items():
        found.rule(f"reruns: seconds of processor, {what}", median(each), MOST[what])


async def _drive(server: Server) -> dict[str, list[float]]:
    first, *others = (SENTENCE.format(*two) for two in zip(WORDS, WORDS[::-1], strict=True))
    times: dict[str, list[float]] = {}
    async with connected(0, Head("cross", 2, 0), server.address) as session:
        await session.open("en-es", first)
        actions: dict[str, Callable[[int], Awaitable[None]]] = {
            "a sentence of 10 tokens": lambda at: session.type(others[at]),
            "another head": lambda at: session.choose("head", str(at % 4 + 1)),
            "another page": lambda at: session.go_to(_PAGES[at % len(_PAGES)]),
        }
        for what, act in actions.items():
            # Once before: what is computed once for all sessions does not count.
            for at in range(len(_PAGES)) if what == "another page" else ():
                await act(at)
            times[what] = [await _seconds(server, act, at) for at in range(TIMES)]
    return times


async def _seconds(server: Server, act: Callable[[int], Awaitable[None]], at: int) -> float:
    before = server.cpu_seconds()
    await act(at)
    await asyncio.sleep(0.2)  # what the server does after its script has ended
    return server.cpu_seconds() - before
