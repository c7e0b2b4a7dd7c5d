"""Chromium without a window, and the seconds from what a person does to what is then drawn."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as BrowserError
from playwright.sync_api import TimeoutError as NotInTime

PATIENCE = 60.0
"""Seconds that a drawing may take."""
_OWN_SURFACE = 2_000
"""Milliseconds in which Chromium loads what it needs for a new window."""
SCREEN = {"width": 1280, "height": 1000}
_FILMED = {"format": "jpeg", "quality": 60, "maxWidth": 640}
_NOISE, _LEAST = 32, 8
"""Shades by which a pixel of a film must change, and how many pixels, to count."""
_FROM_NOW = """() => {
    window.actedAt = undefined;
    const note = ({timeStamp}) => { actedAt ??= (performance.timeOrigin + timeStamp) / 1000; };
    for (const deed of ['keydown', 'pointerdown']) addEventListener(deed, note, {capture: true});
}"""
MISSING = "there is no chromium on the path; install it (on Debian: apt-get install chromium)"
_QUIET = ("background-networking", "component-update", "sync", "gpu")
_LOOK = """
    const right = %s;
    let began = %s;
    window.drawnAfter = undefined;
    for (const deed of ['keydown', 'pointerdown'])
        addEventListener(deed, event => { began ??= event.timeStamp; }, {capture: true});
    const look = () => requestAnimationFrame(() => {
        if (began === undefined || !right(given)) return look();
        // Now it is in the page; by the next frame this one is laid out and painted.
        requestAnimationFrame(() => { window.drawnAfter = (performance.now() - began) / 1000; });
    });
    look();
"""


@contextmanager
def chromium(*more: str) -> Iterator[Callable[[], Browser]]:
    """Starts browsers, with these flags, that find no host but this one; all are closed at the end.

    Raises:
        RuntimeError: if there is none, or what is done with them fails.
    """
    path = shutil.which("chromium")
    if path is None:
        raise RuntimeError(MISSING)
    flags = ["--no-sandbox", *more, *(f"--disable-{name}" for name in _QUIET)]
    # (To route requests would do too, but then nothing is cached.)
    flags.append("--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost")
    with sync_playwright() as playwright:
        try:
            yield lambda: playwright.chromium.launch(executable_path=path, args=flags)
        except BrowserError as error:
            raise RuntimeError(f"Chromium: {error.message}") from error


@contextmanager
def new_window(browser: Browser) -> Iterator[Page]:
    """A window of a browser that knows nothing, once Chromium has loaded its own surface for it."""
    with browser.new_context(viewport=SCREEN) as context:
        page = context.new_page()
        page.set_default_timeout(1_000 * PATIENCE)
        page.wait_for_timeout(_OWN_SURFACE)
        yield page


def watch(page: Page, condition: str, given: object = None) -> None:
    """Begin to look, frame by frame, for what the next key or click leads to.

    ``condition`` is a function in JavaScript, true of ``given`` when it is drawn.
    """
    look = _LOOK % (condition, "undefined")
    # As one text: Playwright passes lists number by number.
    page.evaluate(f"text => {{ const given = JSON.parse(text); {look} }}", json.dumps(given))


def watch_next(page: Page, condition: str) -> None:
    """Look the same way at the next document, from when the page goes to it; nothing is given."""
    page.add_init_script(f"{{ const given = undefined; {_LOOK % (condition, '0')} }}")


def drawn_after(page: Page, *, patience: float = PATIENCE) -> float:
    """Seconds until the frame after the one in which the condition was true.

    Raises:
        TimeoutError: if it is not true in time.
    """
    try:
        page.wait_for_function("window.drawnAfter !== undefined", timeout=1_000 * patience)
    except NotInTime as error:
        raise TimeoutError(f"not drawn in {patience:.0f} s: {page.url[:200]}") from error
    return float(page.evaluate("window.drawnAfter"))


def last_change(page: Page, act: Callable[[], None], *, rests: int = 1_500) -> float:
    """Seconds from the key or click of an act to the last change of the picture that it leads to.

    It is filmed for so many milliseconds, half as large as it is, and without a caret.
    """
    page.add_style_tag(content="* { caret-color: transparent !important; }")
    session = page.context.new_cdp_session(page)
    film: list[tuple[float, bytes]] = []

    def keep(event: dict[str, Any]) -> None:
        film.append((event["metadata"]["timestamp"], base64.b64decode(event["data"])))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", keep)
    session.send("Page.startScreencast", _FILMED)
    page.wait_for_timeout(300)
    page.evaluate(_FROM_NOW)
    act()
    page.wait_for_timeout(rests)
    session.send("Page.stopScreencast")
    session.detach()
    began: float = page.evaluate("actedAt")
    last, before = 0.0, None
    for at, picture in film:
        now = np.asarray(Image.open(io.BytesIO(picture)).convert("L"), np.int16)
        if before is not None and at > began and np.sum(abs(now - before) > _NOISE) > _LEAST:
            last = at - began
        before = now
    return last
