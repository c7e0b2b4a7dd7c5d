"""A person who reads beside a running training: what each costs the other, and when it is seen."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from benchmarks.chromium import PATIENCE, SCREEN, chromium
from benchmarks.load_server import ROOT, serving
from benchmarks.load_session import Session, connected
from benchmarks.parts.reruns import RUN, sentences
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import median, ratio
from headwise.model.checkpoint import CHECKPOINTS
from headwise.model.files import has_writer, read_log
from headwise.model.interface import Head
from headwise.viz_app.views.shared.cache import stamp_if_there

TRAINED = "live"
READ = 5
"""Sentences that are typed in a round."""
PAUSE = 2.0
"""Seconds from the start of one sentence to that of the next."""
STEPS = 2
_OPTIONS = """--preset copy --train copy --model.d-model 192 --model.d-ff 768
    --training.steps 1000000 --training.milestones 0 --training.log-every 1
    --training.resume-every 1000000 --training.precision no"""


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Start the app and then a training; read beside it, and do not, in turn."""
    alone: list[float] = []
    beside: list[float] = []
    during: list[float] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        root = Path(folder)
        (root / RUN).symlink_to(CHECKPOINTS / RUN)
        with (
            patch.dict(os.environ, HEADWISE_CHECKPOINTS=folder),
            serving() as server,
            chromium() as launch,
        ):

            def read() -> list[float]:
                # A loop of events is running in this thread.
                return pool.submit(asyncio.run, _read(server.address)).result()

            before = [seconds for _ in range(rounds) for seconds in read()]
            page = launch().new_page(viewport=SCREEN)
            page.goto(server.address)
            page.locator(".st-key-large .main-svg").first.wait_for()
            with _training(root):
                began = time.perf_counter()
                page.get_by_role("button", name="Show it").wait_for()
                seen = time.perf_counter() - began
                page.close()
                tick("seen")
                for _ in range(rounds):
                    alone.append(_tokens_per_second(root, lambda: time.sleep(READ * PAUSE)))
                    beside.append(_tokens_per_second(root, lambda: during.extend(read())))
                tick("read beside it")
            if faults := server.faults():
                raise RuntimeError("\n".join(faults))
    return _findings(seen, before, during, alone, beside)


def _findings(
    seen: float,
    before: Sequence[float],
    during: Sequence[float],
    alone: Sequence[float],
    beside: Sequence[float],
) -> Findings:
    slower, kept = median(during) / median(before), ratio(beside, alone)
    table = Table(
        f"A reader who types a sentence of 10 tokens every {PAUSE:g} s, and a training",
        ("", "alone", "beside each other", "ratio"),
        (
            ("a sentence (s)", median(before), median(during), slower),
            ("target tokens of the training in a second", median(alone), median(beside), kept),
        ),
    )
    rules = (
        Rule("live: seconds until a training is seen on Translate", seen, 5.0),
        Rule("live: a sentence beside a training, times that alone", slower, 3.0),
        Rule("live: speed of a training beside a reader, of that alone", kept, 0.75, True),
    )
    raw = {
        "live: a sentence alone (s)": before,
        "live: a sentence beside a training (s)": during,
        "live: training alone (tokens/s)": alone,
        "live: training beside a reader (tokens/s)": beside,
    }
    return Findings((table,), rules, raw=raw)


@contextmanager
def _training(root: Path) -> Iterator[None]:
    """A training in a process of its own, with as many threads as PyTorch takes; then stopped.

    Raises:
        RuntimeError: if it does not begin.
    """
    log = root / "training.txt"
    command = [
        sys.executable,
        "-m",
        "headwise.model.train",
        "--run",
        TRAINED,
        "--checkpoints",
        str(root),
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, *_OPTIONS.split()], cwd=ROOT, stdout=written, stderr=subprocess.STDOUT
        )
    try:
        while not has_writer(root / TRAINED):
            if process.poll() is not None:
                raise RuntimeError(f"the training did not begin:\n{log.read_text()}")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _tokens_per_second(root: Path, meanwhile: Callable[[], None]) -> float:
    """Return how many target tokens the training sees in a second, while something is done."""
    (done, began), _ = _logged(root), meanwhile()
    tokens, ended = _logged(root)
    return (tokens - done) / (ended - began)


def _logged(root: Path) -> tuple[int, float]:
    """Wait until the training logs a step; return its target tokens so far, and the time.

    Raises:
        RuntimeError: if it logs nothing.
    """
    log = root / TRAINED / "metrics.jsonl"
    known, until = stamp_if_there(log), time.perf_counter() + PATIENCE
    tokens: list[int] = []
    while not tokens:  # a file that was just made has no line yet
        if time.perf_counter() > until:
            raise RuntimeError("the training logs nothing")
        time.sleep(0.01)
        if stamp_if_there(log) != known:
            now = time.perf_counter()
            tokens = [int(row.get("tokens", 0)) for row in read_log(log)]
    return max(tokens), now


async def _read(address: str) -> list[float]:
    """Type some sentences, one at a time; return the seconds until the page of each was there."""
    first, *others = sentences()
    async with connected(0, Head("cross", 2, 0), address, Session) as session:
        await session.open(RUN, first)
        for sentence in others[:READ]:
            await session.type(sentence)
            await asyncio.sleep(max(0, PAUSE - session.seconds[-1]))
        return session.seconds
