"""The app as a person runs it, in a real Chromium, beside traces computed in the test's process.

Charts are known by the keys of their widgets. What a chart shows is read from Plotly's own objects
after Plotly has decoded them, and its labels from the page, as they are drawn.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    TimeoutError,
    expect,
    sync_playwright,
)

from model.checkpoint import Run, load_weights, open_run
from viz_app.records import Floats, Trace
from viz_app.trace import run_trace

ROOT = Path(__file__).parents[2]
PATIENCE = 30_000
"""Milliseconds; spent only where something is broken."""
SCREEN = {"width": 1440, "height": 2000}
"""High enough that nothing scrolls: a list that is open closes when the page scrolls."""
HARMLESS = re.compile(r"/(embeddings|flow|heads|inside|training)/_stcore/(health|host-config)$")
"""Streamlit looks for its server under the address of a page first, and is told 404."""
_LOG = pytest.StashKey[Path]()

expect.set_options(timeout=PATIENCE)


class App:
    """One page of the app."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.complaints: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("request", lambda request: self._is_ours(request.url))
        self.page.on("console", self._hear)
        self.page.on("websocket", lambda socket: self._is_ours(socket.url))
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))

    def _is_ours(self, url: str) -> bool:
        parts = urlsplit(url)
        ours = parts.scheme in ("data", "blob") or parts.netloc == urlsplit(self.address).netloc
        if not ours:
            self.complaints.append(f"another host: {url}")
        return ours

    def _hear(self, message: ConsoleMessage) -> None:
        harmless = HARMLESS.search(urlsplit(message.location["url"]).path)
        if message.type in ("error", "warning") and not harmless:
            self.complaints.append(f"console {message.type}: {message.text} {message.location}")

    def open(self, path: str = "/", **query: object) -> None:
        """Go to an address of the app, or to a path and query of it."""
        url = path if path.startswith("http") else self.address + path
        self.page.goto(url + ("?" + urlencode(query, doseq=True) if query else ""))
        self.page.locator(".st-key-sentence input").wait_for()

    def type(self, sentence: str) -> None:
        """Type a sentence and press Enter."""
        field = self.page.get_by_role("textbox", name="Sentence in English")
        field.fill(sentence)
        field.press("Enter")

    def choose(self, key: str, option: str) -> None:
        """Choose an option of a segmented control."""
        self.page.locator(f".st-key-{key}").get_by_role("radio", name=option, exact=True).click()

    def chosen(self, key: str) -> str | None:
        """The option that is chosen in a segmented control."""
        control = self.page.locator(f".st-key-{key}")
        return control.get_by_role("radio", checked=True).text_content()

    def pick(self, key: str, label: str) -> None:
        """Choose in a list that opens."""
        self.page.locator(f".st-key-{key} input").fill(label)
        self.page.get_by_role("option", name=label, exact=True).click()

    def press(self, key: str, button: str) -> None:
        """Press a button of the keyboard, such as ArrowLeft, on a slider."""
        self.page.locator(f".st-key-{key} input").press(button)

    def click_in(self, key: str, x: float, y: float, *, subplot: str = "xy") -> None:
        """Click in a chart, at parts of its width and height between the axes."""
        for attempt in range(100):  # a chart that was only just drawn does not listen yet
            self.hover_in(key, x + attempt % 2 * 0.002, y, subplot=subplot)
            if self.read(key, "gd._hoverdata?.length ?? 0"):
                break
            self.page.wait_for_timeout(50)
        self.page.mouse.down()
        self.page.mouse.up()

    def hover_in(self, key: str, x: float, y: float, *, subplot: str = "xy") -> None:
        """Move the mouse in a chart, to parts of its width and height between the axes."""
        area = self.page.locator(f'.st-key-{key} .nsewdrag[data-subplot="{subplot}"]')
        expect(area).to_have_count(1)
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])

    def wait(self, condition: str, argument: object = None) -> None:
        """Wait until a function in JavaScript gives true and the app has come to rest.

        Where that never comes it goes on, so that the assertion after it says what is there.
        """
        failed = self.page.locator(".stException")
        with suppress(TimeoutError):
            self.page.wait_for_function(
                f"argument => document.querySelector('.stException') || ({condition})(argument)",
                arg=argument,
            )
        assert failed.all_text_contents() == []
        self.page.locator('.stApp[data-test-script-state="notRunning"]').wait_for()

    def read(self, key: str, expression: str) -> Any:
        """A value from a chart, ``gd`` in the expression."""
        chart = self.page.locator(f".st-key-{key} .js-plotly-plot")
        return chart.evaluate(f"gd => {expression}")

    def drawn(self, key: str, values: str = "z") -> Floats:
        """What a chart draws: the cells z of a heat map, the lengths x of bars."""
        rows = f"Array.from(gd._fullData[0].{values}, row => row.length ? Array.from(row) : row)"
        return np.array(self.read(key, rows))

    def expect_drawn(
        self, key: str, expected: Floats, *, values: str = "z", tolerance: float = 1e-6
    ) -> None:
        """Wait until a chart draws these values; fails, with both, if it does not."""
        self.wait(
            """([key, values, expected, tolerance]) => {
                const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`);
                const drawn = Array.from(chart?._fullData?.[0]?.[values] ?? [])
                    .flatMap(row => row.length ? Array.from(row) : [row]);
                return drawn.length === expected.length &&
                    expected.every((value, i) => Math.abs(drawn[i] - value) <= tolerance);
            }""",
            [key, values, expected.ravel().tolist(), tolerance],
        )
        np.testing.assert_allclose(self.drawn(key, values), expected, rtol=0, atol=tolerance)

    def expect_text(
        self, key: str, expected: str, *, within: str = "", by: str = "textContent"
    ) -> None:
        """Wait until an element shows this text; fails, with both, if it does not."""
        place = f".st-key-{key} {within}"
        self.wait(
            "([place, by, text]) => document.querySelector(place)?.[by] === text",
            [place, by, expected],
        )
        assert self.page.locator(place).evaluate(f"element => element.{by}") == expected

    def expect_labels(self, key: str, axis: str, expected: Sequence[str]) -> None:
        """Wait until an axis, x or y, has these labels; fails if it does not, or draws others.

        Maps cut long labels, and draw only some where there are many.
        """
        labels = dict(enumerate(t if len(t) <= 22 else t[:21] + "…" for t in expected))
        self.wait(
            """([ticks, labels]) => {
                const drawn = [...document.querySelectorAll(ticks)];
                return drawn.length && drawn.every(t => labels[t.__data__.x] === t.textContent);
            }""",
            [f".st-key-{key} .{axis}tick", list(labels.values())],
        )
        ticks = self.page.locator(f".st-key-{key} .{axis}tick")
        drawn = dict(ticks.evaluate_all("all => all.map(t => [t.__data__.x, t.textContent])"))
        aliases = self.read(key, f"gd.layout.{axis}axis.labelalias ?? null")
        if aliases is not None:
            assert drawn
            assert {int(at): unescape(text) for at, text in aliases.items()} == labels
            labels = {at: labels.get(at, "") for at in drawn}
        assert drawn == labels


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

    All are stopped at the end.
    """
    with contextlib.ExitStack() as running:

        def start(checkpoints: Path | str = "") -> str:
            folder = tmp_path_factory.mktemp("app")
            log = pytestconfig.stash[_LOG] = folder / "log.txt"
            own = {
                "HEADWISE_CHECKPOINTS": str(checkpoints),
                "HEADWISE_CACHE": str(folder / "cache"),
            }
            return running.enter_context(_served(log, own))

        yield start


@contextlib.contextmanager
def _served(log: Path, own: dict[str, str]) -> Iterator[str]:
    """A server on a free port, in an environment of its own."""
    with log.open("wb") as written:
        server = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "viz_app/app.py", "--server.port", "0"],
            cwd=ROOT,
            stdout=written,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            # One thread as in tests: sums are then added in the same order.
            env=os.environ | own | {"OMP_NUM_THREADS": "1"},
        )
    try:
        yield _address_of(server, log)
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.fixture(scope="session")
def address(serve: Callable[..., str]) -> str:
    """The server on the project's own runs."""
    return serve()


def _address_of(server: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PATIENCE / 1_000
    while time.monotonic() < until and server.poll() is None:
        started = re.search(r"server started on \S*?:(\d+)", log.read_text())
        if started:
            address = f"http://localhost:{started[1]}"
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=30).close()
            return address
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(0.05)  # over at once if it has died
    raise RuntimeError(f"the app did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    path = shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(path).exists():
        missing = "there is no Chromium; install it with: sudo apt-get install chromium"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    quiet = ("background-networking", "component-update", "sync", "gpu")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", *(f"--disable-{name}" for name in quiet)]
        # Other hosts are not found. (To route requests would do too, but then nothing is cached.)
        flags.append("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost")
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """What pages share: a cache, so that each loads the app's scripts from there."""
    context = browser.new_context(viewport=SCREEN)
    yield context
    context.close()


@pytest.fixture
def new_app(
    browser: Browser, context: BrowserContext, request: pytest.FixtureRequest
) -> Iterator[Callable[..., App]]:
    """Makes a page, at another server's address perhaps; with options of a browser context, in one
    of its own.

    At the end nothing may have been complained of in any of them.
    """
    opened: list[App] = []

    def make(at: str = "", **options: Any) -> App:
        own = browser.new_context(**({"viewport": SCREEN} | options)) if options else context
        opened.append(App(own, at or request.getfixturevalue("address")))
        return opened[-1]

    yield make
    for app in opened:
        app.page.close()
        if app.page.context is not context:
            app.page.context.close()
    assert [complaint for app in opened for complaint in app.complaints] == []


@pytest.fixture
def app(new_app: Callable[..., App]) -> App:
    """A page of its own."""
    return new_app()


@pytest.fixture(scope="session")
def run() -> Run:
    """The run that the app offers first."""
    return open_run("en-es")


@pytest.fixture(scope="session")
def trace_at(run: Run) -> Callable[..., Trace]:
    """Traces by step, sentence and, where it is given, target."""
    load = cache(lambda step: load_weights(run, step))

    @cache
    def trace(step: int, sentence: str, target: tuple[int, ...] | None = None) -> Trace:
        return run_trace(load(step).model, run.tokenizers, sentence, target, step=step)

    return trace
