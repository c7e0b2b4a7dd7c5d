"""Several replicas of the app behind HAProxy, as ``deploy/haproxy.cfg`` has it (on Linux).

All replicas have one port, each at an address of its own: 127.0.0.2, 127.0.0.3, … HAProxy learns
these from a DNS server, as it does from that of Docker where they are containers.
"""

from __future__ import annotations

import os
import shutil
import socket
import socketserver
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from benchmarks.load_server import ROOT, START, Server, serving

CONFIGURATION = ROOT / "deploy" / "haproxy.cfg"
MISSING = "there is no haproxy; install it with: sudo apt-get install haproxy"
_NAME = "app"
"""That the replicas have in the DNS."""


@dataclass(frozen=True)
class Replicas:
    """Replicas that run, and where people reach them."""

    address: str
    servers: tuple[Server, ...]
    log: Path
    """Lines of HAProxy."""


def find_haproxy() -> str | None:
    """Where the program is; Debian puts it where only administrators look."""
    return shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def serving_replicas(number: int) -> Iterator[Replicas]:
    """So many replicas behind HAProxy, stopped at the end.

    Raises:
        RuntimeError: if HAProxy is missing, or something does not start.
    """
    with ExitStack() as running:
        with socket.create_server(("", 0)) as free:
            port: int = free.getsockname()[1]
        hosts = [f"127.0.0.{2 + place}" for place in range(number)]
        servers = tuple(running.enter_context(serving(host, port)) for host in hosts)
        folder = running.enter_context(tempfile.TemporaryDirectory())
        log = Path(folder) / "haproxy.txt"
        names = running.enter_context(names_of(hosts))
        address = running.enter_context(proxying(f"{_NAME}:{port}", names, log))
        _wait_for(address, number, log)
        yield Replicas(address, servers, log)


@contextmanager
def proxying(app: str, names: str, log: Path) -> Iterator[str]:
    """HAProxy on a free port of localhost, before the replicas of a name; its address."""
    program = find_haproxy()
    if program is None:
        raise RuntimeError(MISSING)
    with socket.create_server(("127.0.0.1", 0)) as listening, log.open("wb") as written:
        process = subprocess.Popen(
            [program, "-db", "-f", CONFIGURATION],
            stdout=written,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            env=os.environ
            | {
                "HEADWISE_BIND": f"fd@{listening.fileno()}",
                "HEADWISE_APP": app,
                "HEADWISE_DNS": names,
            },
        )
        port = listening.getsockname()[1]
    try:
        yield f"http://localhost:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_for(address: str, number: int, log: Path) -> None:
    """Wait until HAProxy gives cookies of so many replicas."""
    cookies: set[str | None] = set()
    until = time.monotonic() + START
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=START) as answer:
                cookies.add(answer.headers["Set-Cookie"])
        except HTTPError as error:
            error.close()
            time.sleep(0.05)  # no replica is known yet
        if len(cookies) == number:
            return
    raise RuntimeError(f"HAProxy found {len(cookies)} of {number} replicas:\n{log.read_text()}")


@contextmanager
def names_of(hosts: Sequence[str]) -> Iterator[str]:
    """A DNS server for which every name has these addresses; its own address and port."""

    class Answers(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            query, reply = self.request
            question = query[12 : query.index(0, 12) + 5]
            head = query[:2] + struct.pack("!5H", 0x8180, 1, len(hosts), 0, 0)
            # Name: that of the question. Type A, class IN, one second, four bytes.
            record = struct.pack("!HHHIH", 0xC00C, 1, 1, 1, 4)
            records = b"".join(record + socket.inet_aton(host) for host in hosts)
            reply.sendto(head + question + records, self.client_address)

    with socketserver.UDPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
