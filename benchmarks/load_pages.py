"""Pages of the app in a real Chromium, each with sentences of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.async_api import Browser, async_playwright
from playwright.async_api import Error as BrowserError

from benchmarks.load_answers import TOLERANCE, Expected, address_of

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 60_000
"""Milliseconds."""
_FLAGS = ("background-networking", "component-update", "sync", "gpu")
_DRAWN = """([translation, weights, tolerance]) => {
    if (document.querySelector('.stException, .stAlert')) return 'a message on the page';
    const chart = document.querySelector('.st-key-large .js-plotly-plot');
    const text = document.querySelector('.st-key-translation')?.textContent;
    const cells = Array.from(chart?._fullData?.[0]?.z ?? []).flatMap(row => Array.from(row));
    const right = text === translation && cells.length === weights.length &&
        weights.every((weight, i) => Math.abs(cells[i] - weight) <= tolerance);
    const rests = document.querySelector('.stApp[data-test-script-state="notRunning"]');
    return right && rests && 'right';
}"""


@dataclass
class Watched:
    """What the pages did."""

    seconds: list[float] = field(default_factory=list)
    """From Enter to the right translation and map drawn."""
    faults: list[str] = field(default_factory=list)


async def watch_pages(
    address: str, expected: Expected, pages: int, seconds: float, sentences: Iterator[str]
) -> Watched:
    """Type in some pages at once, for some seconds from when each is open.

    A page that never draws what is right is a fault, and so are messages on it, errors of its
    scripts, and other hosts that it asks.
    """
    watched = Watched()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                *(f"--disable-{name}" for name in _FLAGS),
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost",
            ],
        )
        typing = (
            _type(browser, address, expected, number, seconds, sentences, watched)
            for number in range(pages)
        )
        await asyncio.gather(*typing)
        await browser.close()
    return watched


async def _type(
    browser: Browser,
    address: str,
    expected: Expected,
    number: int,
    seconds: float,
    sentences: Iterator[str],
    watched: Watched,
) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 1000})
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: watched.faults.append(f"page {number}: {error}"))
    page.on(
        "request",
        lambda request: (
            None
            if urlsplit(request.url).hostname in (None, "localhost")
            else watched.faults.append(f"page {number} asked another host: {request.url}")
        ),
    )
    head = expected.head(number)
    run = expected.run.info.name
    sentence = next(sentences)
    try:
        await page.goto(f"{address}/?{address_of(run, head, sentence)}")
        entry = page.locator(".st-key-sentence textarea")
        await entry.wait_for()
        await page.locator(".st-key-large .js-plotly-plot").wait_for()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            sentence = next(sentences)
            answer = await asyncio.to_thread(expected.answer, number, head, sentence)
            assert answer.weights is not None
            right = [answer.translation, answer.weights.ravel().tolist(), TOLERANCE]
            await entry.fill(sentence)
            began = time.perf_counter()
            await entry.press("Enter")
            handle = await page.wait_for_function(_DRAWN, arg=right)
            watched.seconds.append(time.perf_counter() - began)
            if (found := await handle.json_value()) != "right":
                raise ValueError(found)
    except (BrowserError, ValueError) as error:
        watched.faults.append(f"page {number}, {sentence!r}: {error}")
    await context.close()
