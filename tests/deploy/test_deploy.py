"""The files in ``deploy/``, as far as they can be tried without Docker and Kubernetes."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, get_args

import kubernetes_validate
import pytest
import yaml

from headwise.viz_app.session.view import MOST_BYTES_IN_ADDRESS
from headwise.viz_app.session.widgets import PageName
from tests.deploy.replicas import CONFIGURATION, proxying
from tests.imports import ROOT

DEPLOY = ROOT / "deploy"


def services(*files: str) -> dict[str, Any]:
    return {
        name: service
        for file in files
        for name, service in yaml.safe_load((DEPLOY / file).read_text())["services"].items()
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"HEADWISE_PASSWORD": "s3cret", "HEADWISE_MOST": "4"},
        {"HEADWISE_HOSTS": "a.example b.example", "HEADWISE_FRAMES": "https://school.example"},
    ],
)
def test_haproxy_takes_its_configuration(haproxy: str, given: dict[str, str]) -> None:
    command = [haproxy, "-c", "-f", CONFIGURATION]
    checked = subprocess.run(command, env=os.environ | given, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr


@pytest.mark.usefixtures("haproxy")
def test_the_proxy_asks_for_a_password_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def status(password: str) -> int:
        known = b64encode(f"class:{password}".encode()).decode()
        with asking(tmp_path) as ask:
            return ask("/", Authorization=f"Basic {known}").status if password else ask("/").status

    assert status("") == 503  # there is no replica
    monkeypatch.setenv("HEADWISE_PASSWORD", "s3cret")
    assert [status(given) for given in ("", "secret", "s3cret")] == [401, 401, 503]
    assert "s3cret" not in (tmp_path / "log.txt").read_text()


NOWHERE = ("app:8501", "127.0.0.1:9")
"""A name of replicas and a DNS server that does not know it."""


@contextmanager
def asking(tmp_path: Path) -> Iterator[Callable[..., HTTPResponse]]:
    """HAProxy without replicas: a function that sends a path as it is and returns the answer.

    What is let through is answered with 503, since there is no replica.
    """
    with proxying(*NOWHERE, tmp_path / "log.txt") as address:
        port = int(address.rpartition(":")[2])

        def ask(path: str, method: str = "GET", **headers: str) -> HTTPResponse:
            connection = HTTPConnection("localhost", port, timeout=60)
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            return answer

        yield ask


NEEDED = (
    *("/", *(f"/{name}" for name in get_args(PageName))),
    *("/_stcore/health", "/_stcore/host-config", "/_stcore/stream", "/translate/_stcore/health"),
    *("/static/js/PlotlyChart.B1-x_.js", "/media/0af.svg", "/favicon.png", "/?q=%73%2F..%20a"),
    "/_stcore/bidi-components/headwise.tokens/main.js",
    "/_scripts/0123456789ab/heat_map.js",
)
NOT_NEEDED = (
    *("/_stcore/metrics", "/_stcore/metric%73", "/%5fstcore/metrics", "/_stcore%2fmetrics"),
    *("/translate/_stcore/metrics", "//_stcore/metrics", "/./_stcore/metrics", "/_STCORE/metrics"),
    *("/static/../_stcore/metrics", "/media/%2e%2e/_stcore/metrics", "/_stcore/metrics/"),
    *("/_stcore/script-health-check", "/_stcore/upload_file/a/b", "/_stcore/agent/interact"),
)


@pytest.mark.usefixtures("haproxy")
def test_the_proxy_passes_what_pages_need_and_nothing_else(tmp_path: Path) -> None:
    with asking(tmp_path) as ask:
        assert {path: ask(path).status for path in NEEDED} == dict.fromkeys(NEEDED, 503)
        assert {path: ask(path).status for path in NOT_NEEDED} == dict.fromkeys(NOT_NEEDED, 403)
        assert [ask("/", method).status for method in ("POST", "PUT", "DELETE")] == [403] * 3


@pytest.mark.usefixtures("haproxy")
def test_every_answer_of_the_proxy_has_the_headers_of_safety(tmp_path: Path) -> None:
    with asking(tmp_path) as ask:
        for path in ("/", "/_stcore/metrics"):
            headers = ask(path).headers
            policy = dict(
                each.strip().split(" ", 1) for each in headers["Content-Security-Policy"].split(";")
            )
            assert policy["default-src"] == policy["frame-ancestors"] == "'self'"
            assert policy["object-src"] == policy["form-action"] == "'none'"
            assert not any("*" in sources or "http" in sources for sources in policy.values())
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.usefixtures("haproxy")
def test_the_longest_address_fits_twice_with_cookies_beside_it(tmp_path: Path) -> None:
    long = "/translate?q=" + "a" * MOST_BYTES_IN_ADDRESS
    given = {"Referer": f"http://localhost{long}", "Cookie": "a=" + "b" * 8_000}
    with asking(tmp_path) as ask:
        assert ask(long, **given).status == 503
        assert ask(long, **given, other="c" * 30_000).status == 400


@pytest.mark.usefixtures("haproxy")
def test_the_proxy_answers_its_names_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWISE_HOSTS", "class.example.org localhost")
    with asking(tmp_path) as ask:
        hosts = ("class.example.org", "CLASS.example.org:8501", "localhost", "evil.example")
        assert [ask("/", Host=host).status for host in hosts] == [503, 503, 503, 421]


@pytest.mark.usefixtures("haproxy")
def test_one_client_gets_so_many_requests_and_connections(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADWISE_RATE", "20")
    with asking(tmp_path) as ask:
        # As many more as a slow machine may need: those of more than ten seconds ago do not count.
        statuses = [ask("/").status for _ in range(60)]
        assert (statuses[:20], 429 in statuses[20:]) == ([503] * 20, True)
    monkeypatch.setenv("HEADWISE_RATE", "6000")
    monkeypatch.setenv("HEADWISE_CONNECTIONS", "3")
    with proxying(*NOWHERE, tmp_path / "log.txt") as address, ExitStack() as opened:
        port = int(address.rpartition(":")[2])
        held = [
            opened.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            for _ in range(3)
        ]
        # Those that wait are served; one more is closed before it could ask for anything.
        held[-1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held[-1].recv(12) == b"HTTP/1.1 503"
        # It may be closed even before this side has noticed that it was opened.
        with suppress(ConnectionResetError):
            more = opened.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            assert more.recv(12) == b""


def test_compose_gives_the_proxy_what_it_knows_and_mounts_what_is_there() -> None:
    known = set(re.findall(r"HEADWISE_[A-Z]+", CONFIGURATION.read_text()))
    app, proxy = (services("compose.yaml")[name] for name in ("app", "proxy"))
    https = services("compose.https.yaml")["proxy"]
    given = {entry.split("=")[0] for entry in proxy["environment"] + https["environment"]}
    assert given <= known
    assert "${HEADWISE_APP-app:8501}" in CONFIGURATION.read_text()
    [configuration] = [each.split(":")[0] for each in proxy["volumes"] if each.startswith(".")]
    assert (DEPLOY / configuration).samefile(CONFIGURATION)
    assert "${HEADWISE_RUNS:-../checkpoints}:/app/checkpoints:ro" in app["volumes"]
    assert 'CMD ["headwise", "--ready"]' in (DEPLOY / "Dockerfile").read_text()


def test_the_image_is_made_of_files_that_are_there() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = {
        each for line in lines if line.startswith("COPY ") for each in shlex.split(line)[1:-1]
    }
    assert copied >= {"requirements.txt", "headwise", "model", "viz_app", "checkpoints"}
    assert [source for source in copied if not (ROOT / source).exists()] == []
    patterns = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {pattern[1:] for pattern in patterns if pattern.startswith("!")} == copied
    assert fnmatch("checkpoints/en-es/resume", patterns[-4])
    for package, file in (("torch", "requirements.txt"), ("umap-learn", "requirements-dev.txt")):
        assert f"grep '^{package}==' {file}" in " ".join(lines)
        assert re.search(rf"^{package}==[\d.]+$", (ROOT / file).read_text(encoding="utf-8"), re.M)


def test_kubernetes_takes_its_file() -> None:
    objects = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert [each["kind"] for each in objects] == ["Deployment", "Service", "Ingress"]
    for each in objects:
        kubernetes_validate.validate(each, "1.37", strict=True)
    deployment, service, ingress = objects
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/_stcore/health"
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    [port] = service["spec"]["ports"]
    assert port["targetPort"] == container["ports"][0]["name"]
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": service["metadata"]["name"],
        "port": {"name": port["name"]},
    }
    deployment["spec"]["replica"] = 2  # a field that there is not
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.37", strict=True)
