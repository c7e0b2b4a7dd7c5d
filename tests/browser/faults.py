"""Tells what is against a page: what axe-core finds, cut text, charts that no button saves."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe

from tests.browser.driver import App

_UNSAVED = """() => visible('[class*="st-key-"][class*="-progress"]').length ? undefined
    : visible('.stPlotlyChart')
        .filter(each => !each.closest('[class*="-box "]')?.querySelector('.chart-tools .save'))
        .map(each => `no button saves it: ${each.outerHTML.slice(0, 200)}`)"""
"""The charts that no button saves, once nothing is computed any more, which would fade the page."""
_RUN = """async () => {
    const wcag22 = {rules: {'target-size': {enabled: true}}};  // else axe leaves it out
    const {violations} = await axe.run({...wcag22, resultTypes: ['violations']});
    const found = violations.flatMap(({id, nodes}) => nodes.map(({any, all, none, html}) =>
        `${id}: ${[...any, ...all, ...none].map(each => each.message)[0]}: ${html.slice(0, 200)}`));
    const isRow = each => each.startsWith('target-size') && each.includes('data-name=');
    const all = [...document.querySelectorAll('.stApp *')].filter(each => each.checkVisibility());
    const hasText = ({nodeType, textContent}) => nodeType === 3 && textContent.trim();
    const cut = all.filter(each => {
        const {overflowX, textOverflow} = getComputedStyle(each);
        const field = each.matches('input:not([type=range], [type=radio], [type=checkbox])');
        const {scrollWidth, clientWidth} = each;
        return scrollWidth > clientWidth + 1 && clientWidth > 1 && textOverflow !== 'ellipsis'
            && (field || (overflowX === 'hidden' && [...each.childNodes].some(hasText)));
    }).map(each => `cut without a sign: ${each.outerHTML.slice(0, 200)}`);
    return [...found.filter(each => !isRow(each)), ...cut];
}"""
"""All but the rows of a table that lie beside its chosen one, which stays in sight over them: what
lies too near to it is scrolled away from it, and all of a row is its target."""


def faults_of(app: App) -> list[str]:
    """Return what is against a page, once it rests: no rule of WCAG 2.2 is left out."""
    unsaved = app.find(_UNSAVED, wanted=[])  # the buttons come in the frame after a chart
    app.page.evaluate(Axe().axe_script)
    return [*unsaved, *app.page.evaluate(_RUN)]
