"""A trace in JupyterLab itself, in Chromium; for those who have ``pip install jupyterlab``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import headwise
from headwise.viz_app.figures.theme import DARK, LIGHT
from tests.browser.test_notebook import expect_map
from tests.imports import ROOT

pytest.importorskip("jupyterlab", reason="pip install jupyterlab, to test notebooks in it")
TEXT = "Ein kleiner Hund läuft über die grüne Wiese und ein Mann spielt im Park Gitarre, sagt sie."
CELL = f"import headwise\nheadwise.open('de-en')[-1].trace({TEXT!r})"
PATIENCE = 60_000
"""Milliseconds in which a page and a kernel start."""
RUN = """async () => {
    const { sessionContext } = jupyterapp.shell.currentWidget;
    await sessionContext.ready;
    await sessionContext.session.kernel.info;
    await jupyterapp.commands.execute("notebook:run-all-cells");
}"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a JupyterLab, and its folder with a notebook."""
    folder = tmp_path_factory.mktemp("lab")
    cell: dict[str, Any] = {"cell_type": "code", "source": CELL, "id": "one", "metadata": {}}
    notebook: dict[str, Any] = {
        "cells": [cell | {"outputs": [], "execution_count": None}],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (folder / "new.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    options = ("--no-browser", "--expose-app-in-browser", "--allow-root", "--port=0")
    quiet = ("--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True")
    own = {name: str(folder / ".own") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    own |= {"JUPYTER_RUNTIME_DIR": str(folder / ".own"), "PYTHONPATH": str(ROOT)}
    own |= {"JUPYTERLAB_SETTINGS_DIR": str(folder / ".own"), "IPYTHONDIR": str(folder / ".own")}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                *options,
                *quiet,
                f"--ServerApp.root_dir={folder}",
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=os.environ | own,
        )
    try:
        yield _address(folder, process), folder
    finally:
        process.terminate()
        process.wait(20)


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < until and process.poll() is None:
        for file in (folder / ".own").glob("jpserver-*.json"):
            address: str = json.loads(file.read_text())["url"].rstrip("/")
            urllib.request.urlopen(f"{address}/api", timeout=60).close()
            return address
        time.sleep(0.2)
    raise RuntimeError((folder / "log.txt").read_text()[-2_000:])


def opened(browser: Browser, address: str, name: str) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}/lab/tree/{name}?reset")  # without what was open before
    expect(page.locator(".jp-Notebook .jp-CodeCell")).to_be_visible(timeout=PATIENCE)
    return page


def do(page: Page, command: str, **arguments: str) -> None:
    page.evaluate("([name, args]) => jupyterapp.commands.execute(name, args)", [command, arguments])


def test_a_trace_shows_itself_as_a_map_in_both_themes(
    browser: Browser, lab: tuple[str, Path]
) -> None:
    """When its cell runs, when the saved notebook is opened again, and not in a stranger's."""
    address, folder = lab
    trace = headwise.open("de-en")[-1].trace(TEXT)
    assert len(trace.source) >= 20
    page = opened(browser, address, "new.ipynb")
    page.wait_for_function("jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel")
    page.evaluate(RUN)
    expect(page.locator("canvas.large")).to_be_visible(timeout=PATIENCE)
    expect_map(page, trace, "cross", 0, 0, LIGHT)
    page.locator('select[data-of="kind"]').select_option("decoder_self")
    page.locator('select[data-of="layer"]').select_option(index=3)
    expect_map(page, trace, "decoder_self", 3, 0, LIGHT)
    do(page, "apputils:change-theme", theme="JupyterLab Dark")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    page.wait_for_timeout(300)
    expect_map(page, trace, "decoder_self", 3, 0, DARK)
    do(page, "docmanager:save")
    page.close()
    text = (folder / "new.ipynb").read_text(encoding="utf-8")
    [output] = json.loads(text)["cells"][0]["outputs"]
    assert len("".join(output["data"]["text/html"]).encode()) <= 300_000
    again = opened(browser, address, "new.ipynb")
    expect(again.locator("canvas.large")).to_be_visible(timeout=PATIENCE)
    expect_map(again, trace, "cross", 0, 0, DARK)
    again.close()
    strange = text.replace(' sie."', ' er."').replace("sagt sie.", "sagt er.")
    (folder / "strange.ipynb").write_text(strange, encoding="utf-8")
    other = opened(browser, address, "strange.ipynb")
    expect(other.locator(".waiting")).to_be_visible(timeout=PATIENCE)
    other.close()
