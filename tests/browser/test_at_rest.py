"""A page looks for news by itself, but never while somebody uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwise.viz_app.views.shared.panels import SECONDS_BETWEEN_LOOKS

if TYPE_CHECKING:
    from tests.browser.driver import App

_COUNT_RUNS = """() => {
    const app = document.querySelector('.stApp');
    window.runs = 0;
    new MutationObserver(() => { runs += app.dataset.testScriptState === 'running'; })
        .observe(app, {attributeFilter: ['data-test-script-state']});
}"""
_USE = """async milliseconds => {
    const press = () => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'Shift'}));
    const pressing = setInterval(press, 50);
    await new Promise(then => setTimeout(then, milliseconds));
    clearInterval(pressing);
    return runs;
}"""


def test_page_looks_for_news_only_while_nobody_uses_it(app: App) -> None:
    app.open("/architecture")
    app.page.evaluate(_COUNT_RUNS)
    assert app.page.evaluate(_USE, 1500 * SECONDS_BETWEEN_LOOKS) == 0
    app.page.wait_for_function("runs")
