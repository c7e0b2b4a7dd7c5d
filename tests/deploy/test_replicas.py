"""Behind the proxy, people spread over the replicas again, and leave one that hangs.

Servers that only say which they are stand for replicas of the app.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.deploy import replicas as load_replicas
from tests.deploy.replicas import CONFIGURATION, names_of, proxying

HOSTS = ("127.0.0.2", "127.0.0.3")
SOON = 60.0
"""Seconds; spent only where something is broken."""
REPLICA = """
import sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

host, port = sys.argv[1], int(sys.argv[2])

class Replica(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/_stcore/stream":  # a page that stays open
            self.send_response(200)
            self.send_header("Content-Length", "9")
            self.end_headers()
            self.wfile.write(b"opened")
            self.wfile.flush()
            self.rfile.read()
            return
        found = not self.path.startswith("/media/") or self.path.endswith(host)
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(host)))
        self.end_headers()
        self.wfile.write(host.encode())

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer((host, port), Replica)
print("ready", flush=True)
server.serve_forever()
"""


class Proxied:
    """Two replicas behind the proxy, which knows both."""

    def __init__(self, address: str, replicas: dict[str, subprocess.Popen[bytes]]) -> None:
        self.port = int(address.rpartition(":")[2])
        self.replicas = replicas

    def get(self, path: str, cookie: str = "") -> tuple[str, str]:
        """Ask for a path; return which replica answered, and the cookie from then on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        given = (answer.headers["Set-Cookie"] or cookie).partition(";")[0]
        return said if answer.status == 200 else str(answer.status), given

    def hold(self, cookie: str) -> socket.socket:
        """Open a connection that stays, as a page has it, at the replica of a cookie."""
        held = socket.create_connection(("127.0.0.1", self.port), SOON)
        request = f"GET /_stcore/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
        held.sendall(request.encode())
        said = b""
        while not said.endswith(b"opened"):
            part = held.recv(4096)
            assert part, said
            said += part
        return held


@contextmanager
def two_replicas(folder: Path) -> Iterator[Proxied]:
    with ExitStack() as running:
        with socket.create_server(("", 0)) as free:
            port: int = free.getsockname()[1]
        replicas = {}
        for host in HOSTS:
            command = [sys.executable, "-c", REPLICA, host, str(port)]
            replicas[host] = running.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            )
            running.callback(replicas[host].kill)
        for replica in replicas.values():
            assert replica.stdout is not None
            assert replica.stdout.readline() == b"ready\n"
        names = running.enter_context(names_of(HOSTS))
        proxied = Proxied(
            running.enter_context(proxying(f"app:{port}", names, folder / "log.txt")), replicas
        )
        until, found = time.monotonic() + SOON, set[str]()
        while not found >= {*HOSTS}:
            assert time.monotonic() < until, (folder / "log.txt").read_text()
            found.add(proxied.get("/_stcore/health")[0])
        yield proxied


@pytest.mark.usefixtures("haproxy")
def test_people_spread_again_when_they_open_a_page(tmp_path: Path) -> None:
    with two_replicas(tmp_path) as proxied, ExitStack() as held:
        first, cookie = proxied.get("/")
        [second] = {*HOSTS} - {first}
        for _ in range(3):  # all are at one, as after a restart of the other
            held.enter_context(proxied.hold(cookie))
        for path in ("/_stcore/host-config", "/static/a.js", "/translate/_stcore/health"):
            assert proxied.get(path, cookie) == (first, cookie)
        # A page that is opened or loaded anew goes to the other, and stays there.
        replica, new = proxied.get("/translate?q=a", cookie)
        assert (replica, new == cookie) == (second, False)
        assert proxied.get("/_stcore/host-config", new) == (second, new)
        # A page in another tab has its files at the first one, though the browser has one cookie.
        for host in HOSTS:
            assert proxied.get(f"/media/{host}", new)[0] == host
        assert proxied.get("/media/none", new)[0] == "404"


@pytest.mark.usefixtures("haproxy")
def test_who_is_at_a_replica_that_hangs_comes_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CONFIGURATION.read_text()
    for usual, fast in (("timeout check 5s", "timeout check 1s"), ("inter 5s", "inter 200ms")):
        assert text.count(usual) == 1
        text = text.replace(usual, fast)
    (tmp_path / "haproxy.cfg").write_text(text)
    monkeypatch.setattr(load_replicas, "CONFIGURATION", tmp_path / "haproxy.cfg")
    with two_replicas(tmp_path) as proxied:
        first, cookie = proxied.get("/")
        [second] = {*HOSTS} - {first}
        with proxied.hold(cookie) as held:
            os.kill(proxied.replicas[first].pid, signal.SIGSTOP)
            assert held.recv(4096) == b""  # the browser connects again
        until = time.monotonic() + SOON
        while proxied.get("/_stcore/host-config", cookie)[0] != second:  # it may be late itself
            assert time.monotonic() < until
        os.kill(proxied.replicas[first].pid, signal.SIGCONT)
