"""How quick the app feels: the Core Web Vitals, seen from inside the page, in Chromium.

As https://web.dev/articles/vitals defines them: when the largest thing of a page is painted
(Largest Contentful Paint), how much of it jumps (Cumulative Layout Shift: the largest sum over a
window of five seconds), and how long an input waits for the next frame (Interaction to Next Paint).
What a person waits for is filmed too: the last change of the picture after a click.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import Browser, Page

from benchmarks.chromium import (
    PATIENCE,
    SCREEN,
    chromium,
    drawn_after,
    last_change,
    new_window,
    watch,
    watch_next,
)
from benchmarks.load_server import serving, started
from benchmarks.report import Findings
from benchmarks.traffic import Traffic

SENTENCE = "The old man gave the little girl a red apple."
BARE = """import streamlit as st

st.button("on")
st.text("clicked 0")
"""
PAGES: Mapping[str, str] = {
    "translate": ".st-key-large .heat_map image",
    "inside": ".st-key-projections .heat_map image",
    "why": ".st-key-account_parts .js-plotly-plot .main-svg",
    "model": ".st-key-stacks svg",
    "training": ".st-key-player .stBidiComponent",
    "heads": ".st-key-head_table .stBidiComponent",
    "errors": ".st-key-failure_table .stBidiComponent",
    "learn": "[class*=st-key-start-] button",
}
"""Page → its first picture, or the last of what a screen shows of it at first."""
CLICKS: Mapping[str, str] = {
    "a head": ".st-key-head [aria-checked=false]",
    "a layer": ".st-key-layer [aria-checked=false]",
    "a kind of attention": ".st-key-kind [aria-checked=false]",
    "a source token": ".st-key-source_tokens [data-place='3']",
    "a position": ".st-key-target_tokens [data-place='4']",
    "a cell": ".st-key-large .heat_map image",
    "words in place of tokens": ".st-key-units [aria-checked=false]",
    "lines in place of a map": ".st-key-style [aria-checked=false]",
    "an earlier checkpoint": ".st-key-step :is([role=slider], input)",
    "the sentence": ".st-key-sentence textarea",
}
"""What is used most on *Translate* → where; the last two by a key."""
_LIMITS = {"LCP (s)": 2.5, "CLS": 0.1, "INP (s)": 0.2, "another page (s)": 0.4}
"""Of 75th percentiles; those of the first three are what the definition calls good."""
_CHANGED = dict.fromkeys(CLICKS, 0.3) | dict.fromkeys(
    ("a cell", "an earlier checkpoint", "the sentence"), 0.5
)
"""Seconds from each to the last change of the picture, at most at the median."""
_QUICKEST = 0.016
"""Seconds below which a browser does not tell how long an input waited."""
OBSERVE = """
window.felt = {largest: 0, shifts: [], waited: {}};
const observe = (type, note, more) => new PerformanceObserver(
    list => list.getEntries().forEach(note)).observe({type, buffered: true, ...more});
observe('largest-contentful-paint', entry => { felt.largest = entry.startTime; });
observe('layout-shift', entry => {
    if (!entry.hadRecentInput) felt.shifts.push([entry.startTime, entry.value]);
});
observe('event', ({interactionId: id, duration}) => {
    if (id) felt.waited[id] = Math.max(felt.waited[id] ?? 0, duration);
}, {durationThreshold: 16});
"""
"""Notes in ``felt`` what is painted, what jumps, and how long inputs wait."""
Times = dict[str, list[float]]
_FIGURES = ("drawn (s)", "LCP (s)", "CLS")


def measure(found: Findings, rounds: int) -> None:
    """Open each page in a browser that knows nothing, turn from page to page, and click."""
    with tempfile.TemporaryDirectory() as scratch, chromium() as launch:
        script = Path(scratch, "bare.py")
        script.write_text(BARE)
        bare = ("-m", "streamlit", "run", str(script), "--server.port", "0")
        with serving() as server, started(bare, Path(scratch)) as other:
            browser = launch()
            _open(browser, f"{server.address}/{_query()}", PAGES["translate"])  # a warm-up
            asked = {
                name: (f"{server.address}/{name}{_query()}", first) for name, first in PAGES.items()
            }
            asked["a bare page"] = (other.address, ".stButton button")
            opened = {name: list[tuple[float, ...]]() for name in asked}
            for _ in range(rounds):
                for name, (address, first) in asked.items():
                    opened[name].append(_open(browser, address, first))
            turned = _turns(browser, server.address, rounds)
            waited, changed = _clicks(browser, server.address, rounds)
            if faults := server.faults():
                raise RuntimeError("\n".join(faults))

    of_pages = {name: [p75(each) for each in zip(*of, strict=True)] for name, of in opened.items()}
    bare_lcp = of_pages["a bare page"][1]
    rows = [(name, *figures, figures[1] / bare_lcp) for name, figures in of_pages.items()]
    title = "A page opened by a browser that knows nothing, 75th percentiles"
    found.table(title, ("", *_FIGURES, "its LCP in bare pages"), rows)
    turns, waits = "From a click on a page's name until it is drawn", "Interaction to Next Paint"
    for title, times in ((turns, turned), (f"{waits} on Translate", waited)):
        found.table(title, ("", "75th percentile (s)"), [(of, p75(at)) for of, at in times.items()])
    all_opened = np.array([each for name in PAGES for each in opened[name]])
    over_all = dict(zip(_FIGURES, all_opened.T, strict=True))
    over_all["INP (s)"] = np.concatenate([*waited.values()])
    over_all["another page (s)"] = np.concatenate([*turned.values()])
    for name, limit in _LIMITS.items():
        found.rule(f"felt: {name}, 75th percentile", p75(over_all[name]), limit)
    middle = [(name, median(each), _CHANGED[name]) for name, each in changed.items()]
    title = "From a click on Translate to the last change of the picture"
    found.table(title, ("", "median (s)", "at most"), middle)
    for name, seconds, most in middle:
        found.rule(f"felt: {name}, to the last change (s)", seconds, most)
    found.notes.append(
        f"{len(PAGES)} pages of en-es at {SCREEN['width']} pixels. {waits} is of what the browser "
        "does by itself: the answer of the server comes later."
    )


def p75(values: Iterable[float]) -> float:
    """The 75th percentile, interpolated."""
    return float(np.percentile([*values], 75))


def _query() -> str:
    # An address of Training that names no section is of before, and opens the curves.
    return "?" + urlencode({"run": "en-es", "q": SENTENCE, "training": "watch"})


def _open(browser: Browser, address: str, selector: str) -> tuple[float, ...]:
    """Open an address in a browser's new profile until nothing more comes: ``_FIGURES``."""
    with new_window(browser) as page:
        page.add_init_script(OBSERVE)
        watch_next(page, f"() => document.querySelector({selector!r})")
        traffic = Traffic(page)
        page.goto(address)
        drawn = drawn_after(page)
        traffic.settle(patience=PATIENCE)
        page.wait_for_timeout(500)  # what comes after the script's end: fonts, late parts
        felt = page.evaluate("felt")
    return drawn, felt["largest"] / 1e3, jumped(felt["shifts"])


def jumped(shifts: Sequence[tuple[float, float]]) -> float:
    """The largest sum of shifts (milliseconds, share) in a window, as Cumulative Layout Shift.

    A window ends a second after its last shift, or five seconds after its first.
    """
    most = total = 0.0
    first = last = -np.inf
    for at, share in shifts:
        if at - last > 1_000 or at - first > 5_000:
            total, first = 0.0, at
        total, last = total + share, at
        most = max(most, total)
    return most


def _new_page(browser: Browser) -> tuple[Page, Traffic]:
    page = browser.new_page(viewport=SCREEN)
    page.set_default_timeout(1_000 * PATIENCE)
    page.add_init_script(OBSERVE)
    return page, Traffic(page)


def _go_to_translate(page: Page, traffic: Traffic, address: str) -> None:
    traffic.clear()
    page.goto(f"{address}/{_query()}")
    page.locator(PAGES["translate"]).wait_for()
    traffic.settle(patience=PATIENCE)
    traffic.clear()


def _turns(browser: Browser, address: str, rounds: int) -> Times:
    """Seconds from a click on a page's name until it is drawn, all pages known to the browser."""
    page, traffic = _new_page(browser)
    _go_to_translate(page, traffic, address)
    seconds: Times = {name: [] for name in PAGES}
    for round in range(-1, rounds):  # the first is a warm-up
        for name in list(PAGES)[round < 0 :]:
            there = "" if name == "translate" else name
            condition = f"""() => location.pathname === '/{there}'
                && document.querySelector({PAGES[name]!r})?.checkVisibility()"""
            link = page.locator(f"[data-testid=stTopNavLink][href$='/{there}']").first
            watch(page, condition)
            link.click()
            if round >= 0:
                seconds[name].append(drawn_after(page))
            traffic.settle(patience=PATIENCE)
            traffic.clear()
    page.close()
    return seconds


def _clicks(browser: Browser, address: str, rounds: int) -> tuple[Times, Times]:
    """Seconds that each input waits until the browser has painted what it does at once, and those
    until the picture changes no more.
    """
    page, traffic = _new_page(browser)
    seconds: Times = {name: [] for name in CLICKS}
    changed: Times = {name: [] for name in CLICKS}
    for _ in range(rounds):
        for name, selector in CLICKS.items():
            _go_to_translate(page, traffic, address)
            page.wait_for_timeout(1_000)  # what else comes late: the inspector's examples
            page.evaluate("() => { felt.waited = {}; }")
            thing = page.locator(selector).first
            thing.scroll_into_view_if_needed()
            if name == "the sentence":
                thing.fill("The girl has a red ball.")
                thing.focus()
            key = {"an earlier checkpoint": "ArrowLeft", "the sentence": "Enter"}.get(name)
            act = partial(thing.press, key) if key else thing.click
            changed[name].append(last_change(page, act))
            traffic.settle(patience=PATIENCE)
            waited = page.evaluate("Object.values(felt.waited)")
            seconds[name].append(max([_QUICKEST, *(each / 1e3 for each in waited)]))
    page.close()
    return seconds, changed
