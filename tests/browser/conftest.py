"""Servers of the app, pages in a real Chromium, and traces computed in the test's process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect

from benchmarks.load_server import APP, ROOT, started
from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import PATIENCE, App, Motion, NewApp, Traced

SCREEN: ViewportSize = {"width": 1440, "height": 2000}
"""High enough that nothing scrolls: a list that is open closes when the page scrolls."""
PORT = ("--server.port", "0")
_LOG = pytest.StashKey[Path]()

expect.set_options(timeout=PATIENCE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the app's log with a test that fails."""
    report = yield
    log = item.config.stash.get(_LOG, None)
    if log is not None and report.failed:
        report.sections.append(("log of the app", log.read_text()[-8_000:]))
    return report


@pytest.fixture(scope="session")
def serve(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Callable[..., str]]:
    """Starts a server of the app on a folder of runs, the project's own by default; its address.

    All are stopped at the end; then none may have logged a traceback but those that ``may_fail``.
    """
    logs: list[Path] = []
    with contextlib.ExitStack() as running:

        def start(
            checkpoints: Path | str = "",
            *,
            cwd: Path = ROOT,
            command: Sequence[str] = (*APP, *PORT),
            may_fail: bool = False,
        ) -> str:
            folder = tmp_path_factory.mktemp("app")
            pytestconfig.stash[_LOG] = folder / "log.txt"
            own = {"HEADWISE_CHECKPOINTS": str(checkpoints)}
            logs.extend([] if may_fail else [folder / "log.txt"])
            return running.enter_context(started(command, folder, cwd=cwd, **own)).address

        yield start
    for log in logs:
        assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture(scope="session")
def address(serve: Callable[..., str]) -> str:
    """The server on the project's own runs."""
    return serve()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What pages share: a cache, so that each loads the app's scripts from there."""
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def motion() -> Motion:
    """Drawn without motion, a page takes three quarters of the time; who tests motion has some."""
    return "reduce"


@pytest.fixture(scope="session")
def kept() -> list[App]:
    """A page that tests use one after another, in which the app has been loaded."""
    return []


@pytest.fixture
def new_app(
    context: BrowserContext, motion: Motion, kept: list[App], request: pytest.FixtureRequest
) -> Iterator[NewApp]:
    """Makes a page, at another server's address perhaps, of another size or in dark colours.

    One that is ``fresh`` has a history of its own.

    At the end nothing may have been complained of in any of them. One is kept for the next test.
    """
    opened: dict[App, bool] = {}
    failed = request.session.testsfailed

    def make(
        at: str = "",
        *,
        viewport: ViewportSize = SCREEN,
        color_scheme: Literal["light", "dark"] = "light",
        fresh: bool = False,
    ) -> App:
        address = at or request.getfixturevalue("address")
        if not context.pages:  # one that stays open, and with it the process of all
            context.new_page().goto(f"{address}/_stcore/health")
        is_usual = not at and not fresh and viewport["width"] > 1_000 and color_scheme == "light"
        if kept and is_usual:
            app = kept.pop()
            app.clear()
        else:
            app = App(context, address)
            # Else it has the width of the sidebar of the last one that was as narrow, or as wide.
            app.page.add_init_script("try { localStorage.clear() } catch {}")
        opened[app] = is_usual
        app.page.set_viewport_size(viewport)
        app.page.emulate_media(color_scheme=color_scheme, reduced_motion=motion)
        return app

    yield make
    for app, is_usual in opened.items():
        if app.page.is_closed():
            continue
        if is_usual and not (app.loads or kept or failed < request.session.testsfailed):
            kept.append(app)
        else:
            app.page.close()
    assert [complaint for app in opened for complaint in app.complaints] == []


@pytest.fixture
def app(new_app: NewApp) -> App:
    """A page of its own."""
    return new_app()


@pytest.fixture(scope="session")
def run() -> TrainedRun:
    """The run that the app offers first."""
    return open_trained_run("en-es")


@pytest.fixture(scope="session")
def newest(run: TrainedRun) -> int:
    """The step of training that the app chooses at first."""
    return run.steps()[-1]


@pytest.fixture(scope="session")
def trace_at(run: TrainedRun) -> Callable[..., Trace]:
    """Traces by step, sentence and, where it is given, target."""
    load = cache(lambda step: load_weights(run, step))

    @cache
    def trace(step: int, sentence: str, target: tuple[int, ...] | None = None) -> Trace:
        return run_trace(load(step).model, run.tokenizers, sentence, target)

    return trace


@pytest.fixture(scope="session")
def traced(newest: int, trace_at: Callable[..., Trace]) -> Traced:
    """Traces by sentence, of the checkpoint that the app chooses at first."""
    return lambda sentence: trace_at(newest, sentence)


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[[bytes], Page]]:
    """Opens a page from disk, offline; nothing may be asked for or complained of."""
    context = browser.new_context(offline=True, viewport={"width": 1300, "height": 900})
    complaints: list[object] = []

    def make(content: bytes) -> Page:
        file = tmp_path / f"page{len(context.pages)}.html"
        file.write_bytes(content)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(error))
        page.on("websocket", lambda socket: complaints.append(socket.url))
        page.on("request", lambda each: each.url == file.as_uri() or complaints.append(each.url))
        page.goto(file.as_uri())
        return page

    yield make
    context.close()
    assert complaints == []
