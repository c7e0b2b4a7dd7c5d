"""The app's start: from its process to the first map, in a browser that already runs.

And how long a second browser then waits, which has nothing of the app in its cache either. A map
is first seen as HTML; it can be clicked once Plotly has drawn it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from unittest.mock import patch

import numpy as np
from playwright.sync_api import Browser, Page

from benchmarks.chromium import chromium, new_window
from benchmarks.load_server import ROOT, serving
from benchmarks.report import Findings, Rule, Table, Tick
from benchmarks.rounds import median

_HEAVY = (
    *("tyro", "datasets", "accelerate", "pyarrow", "sacrebleu", "tensorboard"),
    *("sklearn", "umap", "numba", "transformers", "sympy"),
)
"""Packages that no page needs before somebody asks for what they do."""
_SEEN = "document.querySelector('.st-key-large-box .early-map img')?.complete"
_PAINTED = """document.querySelector('.st-key-large .heatmaplayer image')
    ?.href.baseVal.startsWith('data:image')"""
_SUMS = """Array.from(document.querySelector('.st-key-large .js-plotly-plot')._fullData[0].z,
    row => row.reduce((sum, cell) => sum + cell, 0))"""
_OPEN = f"""
import json, sys
from streamlit.testing.v1 import AppTest
app = AppTest.from_file({str(ROOT / "viz_app" / "script.py")!r}, default_timeout=600).run()
assert not app.exception, app.exception
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""
STEPS = 2
_IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)")


def measure(*, rounds: int, tick: Tick) -> Findings:
    """Start the app again and again, then once more to see what it imports."""
    with chromium() as launch:
        browser = launch()
        starts = [seconds_to_first_maps(browser) for _ in range(rounds)]
    seen, painted, seen_later, painted_later = zip(*starts, strict=True)
    tick("starts")
    imported, times = imports_of_start()
    tick("imports")
    early = sorted(imported & set(_HEAVY))
    note = (
        "Each start is a process of its own, and no browser has anything of the app in its cache."
    )
    return Findings(
        (
            Table(
                f"Until the first map, {rounds} starts",
                ("", "median (s)", "fastest (s)", "slowest (s)"),
                tuple(
                    (since, median(each), min(each), max(each))
                    for since, each in (
                        ("seen, from the start of the process", seen),
                        ("drawn by Plotly, from the start of the process", painted),
                        ("seen in a second browser, from its going there", seen_later),
                        ("drawn by Plotly in that browser, likewise", painted_later),
                    )
                ),
            ),
            Table(
                "What the start imports, by package",
                ("", "its own modules (ms)"),
                tuple((name, 1e3 * time) for name, time in times.most_common(8)),
            ),
        ),
        (
            Rule("start: seconds to the first map", median(seen), 3.0),
            Rule("start: seconds to the first map of a second browser", median(seen_later), 1.5),
            Rule(
                f"start: of {len(_HEAVY)} heavy packages, not imported",
                len(_HEAVY) - len(early),
                len(_HEAVY),
                at_least=True,
            ),
        ),
        notes=(note, *(f"The start imports {name}." for name in early)),
        raw={
            "start (s)": seen,
            "start, Plotly (s)": painted,
            "second browser (s)": seen_later,
            "second browser, Plotly (s)": painted_later,
        },
    )


def seconds_to_first_maps(browser: Browser) -> tuple[float, float, float, float]:
    """From starting the server to the large map seen and drawn; a second browser's, likewise.

    That one counts from its going there.

    Raises:
        RuntimeError: if the app does not start.
        ValueError: if that is no map of attention.
    """
    with (
        patch.dict(os.environ, {"STREAMLIT_SERVER_HEADLESS": "true"}),
        new_window(browser) as first,
        new_window(browser) as second,
    ):
        began = time.perf_counter()
        with serving() as server:
            of_first = _first_map(first, server.address, began)
            return *of_first, *_first_map(second, server.address, time.perf_counter())


def _first_map(page: Page, address: str, began: float) -> tuple[float, float]:
    """Open the app; seconds since it began until its large map is seen, and drawn by Plotly."""
    page.goto(address, wait_until="commit")
    page.wait_for_function(_SEEN)
    seen = time.perf_counter()
    page.wait_for_function(_PAINTED)
    painted = time.perf_counter()
    sums = page.evaluate(_SUMS)
    if not sums or not np.allclose(sums, 1, atol=1e-4):
        raise ValueError(f"rows of the first map sum to {sums}, not to 1")
    return seen - began, painted - began


def imports_of_start() -> tuple[set[str], Counter[str]]:
    """Top-level modules that are there when the first page is drawn; package → seconds of import.

    Raises:
        RuntimeError: if the page is not drawn.
    """
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", _OPEN],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        raise RuntimeError(f"the app's first page failed:\n{process.stderr[-3_000:]}")
    return set(json.loads(process.stdout.splitlines()[-1])), times_of(process.stderr)


def times_of(log: str) -> Counter[str]:
    """Seconds that each package's own modules take, of what ``-X importtime`` writes."""
    times: Counter[str] = Counter()
    for microseconds, package in _IMPORTED.findall(log):
        times[package] += int(microseconds) / 1e6
    return times
