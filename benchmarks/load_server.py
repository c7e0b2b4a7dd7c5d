"""The app's server in a process of its own, and how much memory that has (on Linux)."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
APP = ("-m", "streamlit", "run", str(ROOT / "viz_app/app.py"))
"""What Python is told, to start the app."""
START = 60.0
"""Seconds that a start may take."""

_TRACEBACK = re.compile(r"^Traceback.*?^(?!Traceback)\S[^\n]*", re.DOTALL | re.MULTILINE)
"""What Python writes of an exception, up to the line that says what it was."""


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, address: str) -> None:
        self.process, self._log = process, log
        self.address = address
        self.memory: list[float] = []
        """Resident MiB, each time that it was looked at."""

    def resident(self) -> float | None:
        """MiB in memory; None where the system does not say, or the server has died."""
        with suppress(OSError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            if found := re.search(r"VmRSS:\s+(\d+) kB", status):
                return int(found[1]) / 1024
        return None

    def cpu_seconds(self) -> float:
        """Return the time of processors that it has used, all threads (on Linux)."""
        clock = (~self.process.pid << 3) | 2  # how Linux numbers the clock of a process
        return time.clock_gettime(clock)

    async def watch(self, every: float = 1.0) -> None:
        """Look at its memory until cancelled."""
        while True:
            if (now := self.resident()) is not None:
                self.memory.append(now)
            await asyncio.sleep(every)

    def faults(self) -> list[str]:
        """What its log complains of."""
        log = self._log.read_text(errors="replace")
        first = _TRACEBACK.search(log)
        faults = [f"log of the server: {first[0][-3_000:]}"] if first else []
        if self.process.poll() is not None:
            faults.append(f"the server ended with {self.process.returncode}: {log[-1_000:]}")
        return faults


@contextmanager
def serving(host: str = "localhost", port: int = 0, **own: str) -> Iterator[Server]:
    """The app on a port, or a free one, of a name or address of this machine, stopped at the end.

    ``own`` are variables of its environment. RuntimeError if it does not start.
    """
    options = ("--server.port", str(port), "--server.address", host)
    with (
        tempfile.TemporaryDirectory() as folder,
        started((*APP, *options), Path(folder), host, **own) as server,
    ):
        yield server


@contextmanager
def started(
    command: Sequence[str], folder: Path, host: str = "localhost", *, cwd: Path = ROOT, **own: str
) -> Iterator[Server]:
    """A server that Python is told to start, stopped at the end; RuntimeError if it does not start.

    Args:
        command: what follows ``python``.
        folder: where its log and cache are written.
        host: the name or address of this machine that it listens on.
        cwd: where it is started.
        own: variables of its environment.
    """
    log = folder / "log.txt"
    # One thread as here: sums are then added in the same order. Arenas of memory as in
    # deploy/Dockerfile.
    own = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", **own}
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=cwd,
            stdout=written,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"HEADWISE_CACHE": str(folder / "cache")} | own,
        )
    try:
        yield Server(process, log, _address_of(process, log, host))
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _address_of(process: subprocess.Popen[bytes], log: Path, host: str) -> str:
    until = time.monotonic() + START
    while time.monotonic() < until and process.poll() is None:
        if started := re.search(r"(?:server started on|URL:) \S*:([1-9]\d*)", log.read_text()):
            address = f"http://{host}:{started[1]}"
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=START).close()
            return address
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise RuntimeError(f"the app did not start:\n{log.read_text()}")
