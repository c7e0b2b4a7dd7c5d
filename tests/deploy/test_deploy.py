"""The files in ``deploy/``, as far as they can be tried without Docker and Kubernetes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import urllib.request
from base64 import b64encode
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import kubernetes_validate
import pytest
import yaml

from benchmarks.load_replicas import CONFIGURATION, proxying
from tests.imports import ROOT

DEPLOY = ROOT / "deploy"


def services(*files: str) -> dict[str, Any]:
    return {
        name: service
        for file in files
        for name, service in yaml.safe_load((DEPLOY / file).read_text())["services"].items()
    }


@pytest.mark.parametrize("given", [{}, {"HEADWISE_PASSWORD": "s3cret", "HEADWISE_MOST": "4"}])
def test_haproxy_takes_its_configuration(haproxy: str, given: dict[str, str]) -> None:
    command = [haproxy, "-c", "-f", CONFIGURATION]
    checked = subprocess.run(command, env=os.environ | given, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "WARNING" not in checked.stderr


@pytest.mark.usefixtures("haproxy")
def test_the_proxy_asks_for_a_password_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def status(address: str, password: str = "") -> int:
        known = {"Authorization": f"Basic {b64encode(f'class:{password}'.encode()).decode()}"}
        request = urllib.request.Request(address, headers=known if password else {})
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        refused.value.close()
        return refused.value.code

    nowhere = ("app:8501", "127.0.0.1:9")
    with proxying(*nowhere, tmp_path / "log.txt") as address:
        assert status(address) == 503  # there is no replica
        assert status(f"{address}/_stcore/metrics") == 403
    monkeypatch.setenv("HEADWISE_PASSWORD", "s3cret")
    with proxying(*nowhere, tmp_path / "log.txt") as address:
        assert [status(address, given) for given in ("", "secret", "s3cret")] == [401, 401, 503]
    assert "s3cret" not in (tmp_path / "log.txt").read_text()


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
    assert 'CMD ["headwise"]' in (DEPLOY / "Dockerfile").read_text()


def test_the_image_is_made_of_files_that_are_there() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    copied = {
        source for line in lines if line.startswith("COPY ") for source in shlex.split(line)[1:-1]
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
