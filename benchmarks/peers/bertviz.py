"""BertViz: its model view and head view, written and drawn as a notebook draws them."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from bertviz import head_view, model_view
from playwright.sync_api import Browser, Route
from playwright.sync_api import Error as BrowserError

from benchmarks.chromium import PATIENCE, SCREEN, drawn_after, watch_next
from benchmarks.peers.marian import attention_of
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Trace

_CDN = "https://cdnjs.cloudflare.com/ajax/libs"
_SCRIPTS = {
    f"{_CDN}/require.js/2.3.6/require.min.js": ("requirejs@2.3.6", "package/require.js"),
    f"{_CDN}/d3/5.7.0/d3.min.js": ("d3@5.7.0", "package/dist/d3.min.js"),
    # It names 2.0.0, which npm does not have.
    f"{_CDN}/jquery/2.0.0/jquery.min.js": ("jquery@2.1.0", "package/dist/jquery.min.js"),
}
"""Address in BertViz's page → package of npm, and the file in it."""


def fetch_scripts() -> dict[str, str]:
    """What BertViz's page loads, by npm: address → content.

    Kept in the folder HEADWISE_PEERS, or a temporary one.

    Raises:
        RuntimeError: if npm is missing, or does not find them.
    """
    folder = Path(os.environ.get("HEADWISE_PEERS") or Path(tempfile.gettempdir(), "headwise-peers"))
    folder.mkdir(parents=True, exist_ok=True)
    scripts = {}
    for address, (package, member) in _SCRIPTS.items():
        archive = folder / f"{package.replace('@', '-')}.tgz"
        if not archive.exists():
            command = ["npm", "pack", "--silent", package]
            try:
                subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise RuntimeError(
                    f"BertViz's page needs {package} of npm, and `npm pack` did not fetch it "
                    f"({error}); put the file into {folder} (HEADWISE_PEERS names another folder)"
                ) from error
        with tarfile.open(archive) as files:
            file = files.extractfile(member)
            assert file is not None
            scripts[address] = file.read().decode()
    return scripts


@torch.inference_mode()
def prepared(marian: Any, trace: Trace) -> str:
    """The HTML of the model view of a sentence, of Marian's attention."""
    source, target = torch.tensor([trace.source.ids]), torch.tensor([trace.consumed.ids])
    weights = attention_of(marian, source, target)
    layers = len(weights) // 3
    decoder = weights[layers:]
    shown: str = model_view(
        encoder_attention=weights[:layers],
        decoder_attention=decoder[::2],
        cross_attention=decoder[1::2],
        encoder_tokens=list(trace.source.texts),
        decoder_tokens=list(trace.consumed.texts),
        html_action="return",
    ).data
    return shown


def page_of(trace: Trace) -> str:
    """Both views of all three kinds of attention, as BertViz writes them."""
    kinds = {"encoder": "encoder_self", "decoder": "decoder_self", "cross": "cross"}
    given: dict[str, Any] = {
        f"{name}_attention": [torch.tensor(layer)[None] for layer in trace.attention[kind]]
        for name, kind in kinds.items()
    }
    given["encoder_tokens"] = token_labels(trace.source)
    given["decoder_tokens"] = token_labels(trace.consumed)
    views = (view(**given, html_action="return").data for view in (model_view, head_view))
    return f'<!doctype html><meta charset="utf-8">{"".join(views)}'


class BertViz:
    """Draws traces, in a browser that is started again when a page has hung."""

    def __init__(self, launch: Callable[[], Browser], folder: Path) -> None:
        self._launch, self._page = launch, folder / "bertviz.html"
        self._scripts = fetch_scripts()
        self._browser = launch()

    def draw(self, trace: Trace) -> tuple[int, float]:
        """Bytes of its page, and seconds until that is written and drawn, infinite if never."""
        began = time.perf_counter()
        written = page_of(trace).encode()
        writing = time.perf_counter() - began
        self._page.write_bytes(written)
        weights = trace.attention["encoder_self"]
        # One line for each weight in the model view, and of the first layer in the head view.
        lines = weights.size + weights[0].size
        try:
            return len(written), writing + self._drawing(lines)
        except (TimeoutError, BrowserError):
            self._browser.close()
            self._browser = self._launch()
            return len(written), float("inf")

    def _drawing(self, lines: int) -> float:
        """Seconds until both views are drawn; TimeoutError if so many lines are not in time.

        Scripts come at once from here, and the page from a file: no network is measured.
        """

        def answer(route: Route) -> None:
            route.fulfill(
                body=self._scripts[route.request.url],
                content_type="text/javascript",
                headers={"cache-control": "max-age=3600"},
            )

        with self._browser.new_context(viewport=SCREEN) as context:
            context.route(f"{_CDN}/**", answer)
            opened = context.new_page()
            watch_next(opened, f"() => document.getElementsByTagName('line').length === {lines}")
            opened.goto(self._page.as_uri(), wait_until="commit", timeout=1_000 * PATIENCE)
            return drawn_after(opened)
