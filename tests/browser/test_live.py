"""A page follows a training without a reload, and reads a file of sentences."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import CHECKPOINTS, open_trained_run, steps_of
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.session.panels import SECONDS_BETWEEN_LOOKS
from tests.browser.driver import App, NewApp
from tests.imports import ROOT
from tests.tiny import start_training, tiny_training

pytestmark = pytest.mark.release

STEP = "() => +new URL(location).searchParams.get('step')"


@contextmanager
def training(root: Path) -> Iterator[None]:
    """A tiny training that goes on until it is stopped."""
    changes = {"steps": 1_000_000, "accumulate": 1, "learning_rate": 0.001, "log_every": 10}
    changes |= {"resume_every": 1_000_000, "milestones": tuple(range(0, 50_000, 50))}
    with (root / "log.txt").open("wb") as log:
        process = start_training(replace(tiny_training(root, **changes), run="live"), log=log)
    try:
        yield
        assert process.poll() is None, (root / "log.txt").read_text()
    finally:
        process.kill()
        process.wait()


CURVE = """(name => {
    const curve = gd._fullData.find(trace => trace.name.startsWith(name));
    const valid = gd._fullData.find(trace => trace.name === 'valid');
    const live = valid?.customdata[0] === '0,live' && valid.x.length >= 3;
    return live ? [curve.x, curve.y] : undefined;
})"""
"""Steps and values of a curve of this run, once it has three milestones."""


def test_training_is_followed_without_a_reload(
    new_app: NewApp, serve: Callable[..., str], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "checkpoints" / "copy", tmp_path / "copy")
    app = new_app(at=serve(tmp_path))
    app.open("/", run="copy", q="c a f")
    app.page.evaluate("window.untouched = true")
    app.go_to("Training")
    app.choose(training="curves")
    app.go_to("Translate")
    with training(tmp_path):
        # It appears, whatever page is open, and is opened, with what there is so far.
        app.page.locator(".stSidebar").get_by_role("button", name="Show it").click()
        app.expect_address(run="live")
        app.go_to("Training")

        # All curves grow; what is drawn is what the log says.
        for name, key in (
            ("training batches", "train_loss"),
            ("train sample", "train_sample_loss"),
            ("valid", "valid_loss"),
        ):
            steps, values = np.array(app.read("curves", f"{CURVE}('{name}')"))
            logged = curve_of(open_trained_run("live", root=tmp_path).metrics(), key)
            np.testing.assert_array_equal(steps, logged.steps[: len(steps)])
            np.testing.assert_array_equal(values, np.float32(logged.values[: len(steps)]))
            assert len(steps) >= 3
        status = app.page.locator(".st-key-live-live")
        expect(status).to_contain_text("live, training: step ")
        expect(status).to_contain_text(" of 1,000,000, ")

        # The checkpoint in use is left alone, and the newest is offered.
        opened = app.find(STEP)
        newer = app.page.locator(".st-key-newer button")
        newer.click()
        app.expect(f"opened => ({STEP})() > opened", True, opened)
        chosen = app.find(STEP)
        assert chosen in steps_of(tmp_path / "live")
        newer.wait_for()
        assert app.find(STEP) == chosen

        # So do the translations.
        app.choose(training="translations")
        rows = app.page.locator(".st-key-own_table tbody tr")
        rows.first.wait_for()
        rows.nth(rows.count()).wait_for()
        used = app.page.locator(".st-key-own_table tbody tr.chosen th")
        expect(used.first).to_have_text(f"{chosen:,}")
    assert app.page.evaluate("window.untouched")


_COUNT_RUNS = """() => {
    const app = document.querySelector('.stApp');
    window.runs = 0;
    new MutationObserver(() => { runs += app.dataset.testScriptState === 'running'; })
        .observe(app, {attributeFilter: ['data-test-script-state']});
}"""
_USE = """async milliseconds => {
    const press = () => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'Shift'}));
    const pressing = setInterval(press, 50);
    const wait = () => new Promise(then => setTimeout(then, milliseconds));
    await wait();  // A look that began before the first key ends.
    runs = 0;
    await wait();
    clearInterval(pressing);
    return runs;
}"""


def test_page_looks_for_news_only_while_nobody_uses_it(app: App) -> None:
    app.open("/model")
    app.page.evaluate(_COUNT_RUNS)
    assert app.page.evaluate(_USE, 1500 * SECONDS_BETWEEN_LOOKS) == 0
    app.page.wait_for_function("runs")


@pytest.mark.release
def test_a_file_is_put_into_the_field_and_measured(
    serve: Callable[..., str], new_app: NewApp, tmp_path: Path
) -> None:
    """One that is too large is refused where it was chosen, and not sent."""
    runs = tmp_path / "runs"
    shutil.copytree(CHECKPOINTS / "copy", runs / "own", ignore=shutil.ignore_patterns("measures"))
    app = new_app(serve(runs))
    app.open("/heads")
    place = app.page.locator(".text_file input")
    field = app.page.get_by_role("textbox", name="Your sentences, one a line")
    large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a\n" * 2**18}
    place.set_input_files(large)
    expect(app.page.locator(".text_file [role=status]")).to_have_text(
        "large.txt has 512 KiB; at most 256 are read here."
    )
    expect(field).to_have_value("")
    place.set_input_files({**large, "buffer": b"1 2 3 4\n5 6 7 8\n"})
    expect(field).to_have_value("1 2 3 4\n5 6 7 8\n")
    measure = app.page.get_by_role("button", name="Measure checkpoint")
    measure.click()
    expect(app.page.get_by_text("translates none of the sentences into a text")).to_be_visible()
    expect(field).to_have_value("1 2 3 4\n5 6 7 8\n")  # no symbol of the task
    place.set_input_files({**large, "buffer": b"c a f e\nb d\n"})
    expect(field).to_have_value("c a f e\nb d\n")
    measure.click()
    expect(app.page.get_by_text("Measured on your sentences: 2 sentences")).to_be_visible()
    assert not (runs / "own" / "measures").exists()
