"""What the app serves and shares, what a browser gets first, and the parts of Streamlit it uses."""

from __future__ import annotations

import http.client
import os
import pkgutil
import re
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import streamlit
from packaging.requirements import Requirement
from packaging.version import Version
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.runtime import Runtime
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.runtime.websocket_session_manager import WebsocketSessionManager

import headwise.viz_app.analysis
import headwise.viz_app.records
from benchmarks.load_server import serving
from headwise.model.placement import DEFAULT_PLACEMENT, Placement
from headwise.viz_app.__main__ import main
from headwise.viz_app.components.assets import SCRIPTS, SCRIPTS_AT, VERSION
from headwise.viz_app.first_document import document_routes, first_document
from headwise.viz_app.left_pages import SHARED
from headwise.viz_app.lessons.reading import SHIPPED
from headwise.viz_app.served import (
    describe_served,
    first_run,
    lesson_folders,
    runs_folder,
    serve,
    served_models,
    served_placement,
)
from headwise.viz_app.session.widgets import PAGE_TITLES
from tests.imports import ROOT
from tests.viz_app.pages.driver import break_file, without_weights


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is named; put back at the end, whatever a command sets."""
    for name in ("CHECKPOINTS", "MODELS", "DEVICE", "DTYPE", "LESSONS"):
        monkeypatch.setenv(f"HEADWISE_{name}", "")


def test_named_models_come_before_the_runs_of_the_folder_and_are_open_at_first(
    run_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_CHECKPOINTS", str(run_root))
    assert served_models() == {"tiny": run_root / "tiny"}
    models = dict.fromkeys(("a", "en-es"), Path())
    assert (first_run(models), first_run({"a": Path()})) == (1, 0)
    serve({"mine": tmp_path, "other/mine": run_root}, DEFAULT_PLACEMENT)
    assert list(served_models()) == ["mine", "other/mine", "tiny"]
    assert served_models()["mine"] == tmp_path
    named = f"mine ({tmp_path}), other/mine ({run_root})"
    assert describe_served() == f"{named}, the runs in {run_root}"
    assert first_run(models) == 0


Start = Callable[..., list[list[str]]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Runs the command; the command lines with which Streamlit is started, in place of that."""
    lines: list[list[str]] = []
    monkeypatch.setattr("runpy.run_module", lambda *_, **__: lines.append(sys.argv))

    def run(*line: str, fails: str = "") -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", ["headwise", *line])
        if fails:
            with pytest.raises(SystemExit, match=fails):
                main()
        else:
            main()
        return lines

    return run


def test_the_command_serves_given_models(run_root: Path, unequal_root: Path, start: Start) -> None:
    given = [str(run_root / "tiny"), str(unequal_root / "tiny")]
    options = ["--checkpoints", str(run_root), "--port", "8600"]
    options += ["--device", "cpu", "--dtype", "bfloat16", "--lessons", str(run_root)]
    [line] = start(*given, *options)
    assert line[:2] == ["streamlit", "run"]
    assert Path(line[2]).name == "app.py"
    assert line[3:] == ["--server.port", "8600"]
    # Both end in "tiny": the second is named by more of its path.
    second = f"{unequal_root.name}/tiny"
    assert served_models() == {"tiny": run_root / "tiny", second: unequal_root / "tiny"}
    assert served_placement() == Placement("cpu", "bfloat16")
    assert runs_folder() == run_root
    assert lesson_folders() == [SHIPPED, run_root]


def test_what_cannot_be_opened_is_named_before_the_app_starts(tmp_path: Path, start: Start) -> None:
    assert lesson_folders() == [SHIPPED]
    assert start("nothing", fails="no run named 'nothing'") == []
    (tmp_path / "model.gguf").touch()
    assert start(str(tmp_path), fails="expected a run") == []
    none = str(tmp_path / "none")
    assert start("--lessons", none, fails="is no folder; name one with lessons") == []


def test_a_training_that_has_no_checkpoint_yet_is_served(
    own_root: Path, tmp_path: Path, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = tmp_path / "begun"
    (begun / "checkpoint-500").mkdir(parents=True)
    (tmp_path / "new").mkdir()
    given = [begun, tmp_path / "new", without_weights(own_root / "tiny")]
    assert len(start(*map(str, given))) == 1
    assert [*served_models().values()][:3] == given
    said = capsys.readouterr().out
    assert said.count("The app shows its first checkpoint when it is complete.") == 3
    start(str(begun), "--ready", fails="wait for the training")


def test_a_replica_is_ready_once_translated(own_root: Path, tmp_path: Path, start: Start) -> None:
    assert len(start("--checkpoints", str(own_root), "--ready")) == 1
    for path in (own_root / "tiny").glob("step-*.safetensors"):
        break_file(path)
    start("--checkpoints", str(own_root), "--ready", fails=r"error: .*step-0000060\.safetensors: ")
    start("--checkpoints", str(tmp_path / "none"), "--ready", fails="error: there is no run in ")
    assert len(start("--checkpoints", str(own_root))) == 2  # pages say what is wrong


STATIC = Path(streamlit.__file__).parent / "static"


def test_what_it_loads_is_there() -> None:
    loaded = re.findall(r'import\("\./([^"]+)"\)', first_document())
    kinds = {Path(name).name.partition(".")[0] for name in loaded}
    assert {"PlotlyChart", "Html", "BidiComponent", "Selectbox"} <= kinds
    ours = {name for name in loaded if name.startswith(SCRIPTS_AT)}
    assert {Path(name).name for name in ours} <= SCRIPTS.keys()
    assert all((STATIC / name).is_file() for name in {*loaded} - ours)


@pytest.mark.parametrize(
    ("name", "version", "status", "kept"),
    [
        ("heat_map.js", VERSION, 200, "public, max-age=31536000, immutable"),
        ("heat_map.js", "0", 200, "no-store"),
        ("assets.py", VERSION, 404, None),
    ],
)
def test_scripts_are_kept_by_a_browser_until_there_are_others(
    name: str, version: str, status: int, kept: str | None
) -> None:
    with TestClient(Starlette(routes=document_routes("lab"))) as client:
        answer = client.get(f"/lab/{SCRIPTS_AT}/{version}/{name}")
    assert (answer.status_code, answer.headers.get("cache-control")) == (status, kept)
    assert answer.content == (SCRIPTS[name] if status == 200 else b"")


@pytest.mark.parametrize(("under", "before"), [("", ""), ("lab", "/lab"), ("/a/b/", "/a/b")])
def test_every_page_has_it_under_any_path(under: str, before: str) -> None:
    routes = [route.path for route in document_routes(under) if isinstance(route, Route)]
    names = {*PAGE_TITLES, "architecture", "embeddings"}
    typed = {name.capitalize() for name in names}
    names |= {"", *typed, f"{SCRIPTS_AT}/{{version}}/{{name}}"}
    assert sorted(routes) == sorted(f"{before}/{name}" for name in names)


@pytest.mark.parametrize(
    ("asked", "opened"),
    [
        ("architecture?q=a%20b", "q=a+b&section=diagram"),
        ("Architecture?layers_by_step=true&q=:", "layers_by_step=true&q=%3A&section=layers"),
        ("embeddings?section=positions&q=3&q=5", "section=positions&q=3&q=5"),
    ],
)
def test_pages_of_before_open_the_section_that_shows_the_same(asked: str, opened: str) -> None:
    with TestClient(Starlette(routes=document_routes(""))) as client:
        answer = client.get(f"/{asked}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, f"./model?{opened}")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
def test_small_files_are_sent_at_once() -> None:
    """A connection that is kept waits 40 ms for each where small packets are collected."""
    with serving() as server:
        connection = http.client.HTTPConnection(urlsplit(server.address).netloc)
        seconds = []
        for _ in range(21):
            began = time.perf_counter()
            connection.request("GET", "/favicon.png")
            assert connection.getresponse().read()
            seconds.append(time.perf_counter() - began)
        connection.request("GET", "/heads")
        answer = connection.getresponse()
        assert answer.read().decode() == first_document()
        assert answer.getheader("Cache-Control") == "no-cache"
        for typed, opened in (("translate", ""), ("Translate", ""), ("Inside", "inside")):
            connection.request("GET", f"/{typed}?q=a%20b")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (307, b"")
            assert answer.getheader("Location") == f"./{opened}?q=a%20b"
        connection.close()
    assert statistics.median(seconds) < 0.03


@pytest.mark.parametrize("package", [headwise.viz_app.analysis, headwise.viz_app.records])
def test_shared_dataclasses_are_frozen(package: ModuleType) -> None:
    classes = {
        value
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and is_dataclass(value)
    }
    assert len(classes) > 15
    assert [each for each in classes if not cast(Any, each).__dataclass_params__.frozen] == []


TORCH_IS_IMPORTED = """
import os, runpy, sys

class Torch:
    def find_spec(self, name, *_):
        if name == "torch":
            print(os.environ["OMP_WAIT_POLICY"], flush=True)
            os._exit(0)

sys.meta_path.insert(0, Torch())
"""
STARTS = {
    "a page": f"runpy.run_path({str(ROOT / 'viz_app' / 'script.py')!r})",
    "import headwise.viz_app": "import headwise.viz_app.trace.sentence",
} | {
    f"python -m headwise.viz_app{name}": f"runpy.run_module('headwise.viz_app{name}', "
    "run_name='__main__')"
    for name in ("", ".measure")
}


@pytest.mark.parametrize(
    ("start", "given"),
    [*((start, None) for start in STARTS), ("import headwise.viz_app", "ACTIVE")],
)
def test_threads_sleep_while_they_wait_unless_told_otherwise(start: str, given: str | None) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run(
        [sys.executable, "-c", TORCH_IS_IMPORTED + STARTS[start]],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=ROOT,
    )
    assert done.stdout.strip() == (given or "PASSIVE")


def test_streamlit_has_the_private_parts_that_are_used() -> None:
    pages = vars(PagesManager(str(Path("script.py"))))
    made = Runtime, WebsocketSessionManager
    sets = {each: set(each.__init__.__code__.co_names) for each in made}
    assert {*SHARED} <= pages.keys()
    assert "_session_mgr" in sets[Runtime]
    assert {"_session_storage", "_storage_lock"} <= sets[WebsocketSessionManager]
    assert callable(WebsocketSessionManager.num_active_sessions)
    assert callable(MemorySessionStorage()._cache.expire)
    assert "is_history_navigation" in ScriptRunContext.__dataclass_fields__


def test_only_versions_of_streamlit_are_required_in_which_they_were_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [required] = [r for r in map(Requirement, project["dependencies"]) if r.name == "streamlit"]
    installed = Version(version("streamlit"))
    assert installed in required.specifier
    assert f"{installed.major}.{installed.minor + 1}" not in required.specifier
