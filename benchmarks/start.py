"""The app's start: from its process to the first map, in a browser that already runs.

And how long a second browser then waits, which has nothing of the app in its cache either. A map
is first seen as HTML; it can be clicked once Plotly has drawn it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from statistics import median
from unittest.mock import patch

import numpy as np
from playwright.sync_api import Page

from benchmarks.chromium import chromium, new_window
from benchmarks.load_server import ROOT, serving
from benchmarks.report import Findings

_HEAVY = (
    *("tyro", "datasets", "accelerate", "pyarrow", "sacrebleu", "tensorboard"),
    *("sklearn", "umap", "numba", "transformers", "sympy"),
)
"""Packages that no page needs before somebody asks for what they do."""
_SEEN = "document.querySelector('.st-key-large .heat_map image') !== null"
_SUMS = """document.querySelector('.st-key-large .heat_map').figure.data[0].z
    .map(row => row.reduce((sum, cell) => sum + cell, 0))"""
_OPEN = f"""
import json, sys
from streamlit.testing.v1 import AppTest
app = AppTest.from_file({str(ROOT / "viz_app" / "script.py")!r}, default_timeout=600).run()
assert not app.exception, app.exception
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def measure(found: Findings, rounds: int) -> None:
    """Start the app again and again, then once more to see what it imports."""
    firsts, later = list[float](), list[float]()
    with patch.dict(os.environ, STREAMLIT_SERVER_HEADLESS="true"), chromium() as launch:
        browser = launch()
        for _ in range(rounds):
            with new_window(browser) as first, new_window(browser) as second:
                began = time.perf_counter()
                with serving() as server:
                    firsts.append(_first_map(first, server.address, began))
                    later.append(_first_map(second, server.address, time.perf_counter()))
    rows = []
    for since, seconds, what, most in (
        ("from the start of the process", firsts, "", 3.0),
        ("in a second browser, from its going there", later, " of a second browser", 1.5),
    ):
        rows.append((since, median(seconds), min(seconds), max(seconds)))
        found.rule(f"start: seconds to the first map{what}", median(seconds), most)
    columns = ("", "median (s)", "fastest (s)", "slowest (s)")
    found.table(f"Until the first map, {rounds} starts", columns, rows)
    found.notes.append(
        "Each start is a process of its own, and no browser has anything of the app in its cache."
    )
    # Which packages are imported when the first page is drawn that it does not need.
    command = [sys.executable, "-c", _OPEN]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if process.returncode:
        raise RuntimeError(f"the app's first page failed:\n{process.stderr[-3_000:]}")
    early = sorted({*json.loads(process.stdout.splitlines()[-1])} & {*_HEAVY})
    found.notes += [f"The start imports {name}." for name in early]
    late, most_late = len(_HEAVY) - len(early), len(_HEAVY)
    what = f"start: of {most_late} heavy packages, not imported"
    found.rule(what, late, most_late, at_least=True)


def _first_map(page: Page, address: str, began: float) -> float:
    """Open the app; seconds since it began until its large map is drawn, which takes clicks."""
    page.goto(address, wait_until="commit")
    page.wait_for_function(_SEEN)
    seen = time.perf_counter()
    sums = page.evaluate(_SUMS)
    if not sums or not np.allclose(sums, 1, atol=1e-4):
        raise ValueError(f"rows of the first map sum to {sums}, not to 1")
    return seen - began
