"""The Translate page of a sentence as a server draws and sends it, however long the sentence."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlencode

from websockets.exceptions import WebSocketException

from benchmarks.load_answers import Answer, address_of, faults_of
from benchmarks.load_server import serving
from benchmarks.load_session import Session, connected
from benchmarks.report import Tick
from benchmarks.runs import Figures, Sentences, Size
from headwise.model.checkpoint import Checkpoint, TrainedRun
from headwise.model.interface import Head
from headwise.model.runs import open_checkpoint
from headwise.viz_app.trace.sentence import run_trace

_HEAD: Head = ("cross", 0, 0)


class _Reader(Session):
    """A session with a target of its own; its sentences may be too long for the address."""

    async def begin(self, run: str, sentence: str, target: str) -> None:
        self._run, self._target = run, target
        await self.type(sentence)
        self.seconds.clear()

    async def type(self, sentence: str) -> None:
        """Follow a link to a sentence with the session's target, which a typed one would drop."""
        began = time.perf_counter()
        address = address_of(self._run, self.head, sentence)
        self._query = f"{address}&{urlencode({'target': self._target})}"
        await self._send(None)
        await self._until(sentence, among=(sentence,))
        self.seconds.append(time.perf_counter() - began)

    def _note(self, among: tuple[str, ...]) -> str:
        # The address cannot say whose page this is; the map is compared in the end.
        self.answers[:] = [replace(self._answer(), sentence=among[-1])]
        return among[-1]


def draw_pages(
    root: Path, runs: Mapping[int, str], rounds: Mapping[Size, int], tick: Tick
) -> Figures:
    """Let a server draw pages of sentences that it has not seen, of each size in turn.

    Seconds are from a sentence sent to its script finished, bytes all that came meanwhile.

    Args:
        root: folder of runs.
        runs: by their layers.
        rounds: size → how many sentences.
        tick: called after the last sentence of each size.

    Raises:
        RuntimeError: if a page is not that of its sentence, or the server complained.
    """
    with patch.dict(os.environ, HEADWISE_CHECKPOINTS=str(root)), serving() as server:
        try:
            found = asyncio.run(_draw(server.address, root, runs, rounds, tick))
        except WebSocketException as error:
            raise RuntimeError(f"the server hung up: {server.faults()}") from error
        faults = server.faults()
    if faults:
        raise RuntimeError(faults[0])
    return found


async def _draw(
    address: str, root: Path, runs: Mapping[int, str], rounds: Mapping[Size, int], tick: Tick
) -> Figures:
    opened = {layers: open_checkpoint(name, None, root) for layers, name in runs.items()}
    sentences = Sentences(next(iter(opened.values()))[0].tokenizers, seed=1)
    targets = {size: sentences.of(size.tokens) for size in rounds}
    found: Figures = {"page (s)": {}, "page (MB)": {}}
    async with AsyncExitStack() as stack:
        readers = {
            size: await stack.enter_async_context(connected(0, _HEAD, address, _Reader))
            for size in rounds
        }
        for size, reader in readers.items():
            await reader.begin(runs[size.layers], sentences.of(size.tokens), targets[size])
        for number in range(max(rounds.values())):
            for size, reader in readers.items():
                if number < rounds[size]:
                    before = reader.received
                    await reader.type(sentences.of(size.tokens))
                    sent = (reader.received - before) / 1e6
                    found["page (MB)"].setdefault(size, []).append(sent)
                if number == rounds[size] - 1:
                    tick(f"page, {size}")
    for size, reader in readers.items():
        found["page (s)"][size] = reader.seconds
        _check(*opened[size.layers], reader.answers[-1], targets[size])
    return found


def _check(run: TrainedRun, checkpoint: Checkpoint, shown: Answer, target: str) -> None:
    trace = run_trace(checkpoint.model, run.tokenizers, shown.sentence, target)
    kind, layer, head = _HEAD
    weights = trace.attention[kind][layer, head]
    if faults := faults_of(shown, replace(shown, translation=target, weights=weights)):
        raise RuntimeError(f"{run.info.name}: the page shows {'; '.join(faults)[:1_000]}")
