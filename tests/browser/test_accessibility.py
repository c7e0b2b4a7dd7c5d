"""Axe-core finds nothing against a page: the rules of WCAG 2.2, and its best practices.

Beside these: no text is cut without a sign, and a button saves each chart.

All rules are tried on each section of each page in the light theme. In the dark one only contrast
is another; on a phone or a tablet, what is scrolled and how large targets are.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import pytest
from axe_playwright_python.sync_playwright import Axe

from headwise.viz_app.views.model import Section
from tests.browser.driver import App, NewApp

SENTENCE = "We saw three black cats on the white roof."
OTHER = "We saw three black dogs on the white roof."
PLACES: list[tuple[str, dict[str, str]]] = [
    ("/", {"style": "lines", "below": "steps", "sampling": "true", "column": "3"}),
    ("/", {"compare": "true", "below": "beam", "decoding": "beam"}),
    ("/", {"lesson": "rows"}),
    ("/inside", {}),
    ("/why", {"account": "waterfall"}),
    ("/why", {"why": "two sentences", "other": OTHER}),
    ("/why", {"why": "turn heads"}),
    ("/model", {"unfold": "everything", "section": "modules"}),
    *(("/model", {"section": section}) for section in get_args(Section)),
    *(
        ("/training", {"training": section})
        for section in ("watch", "curves", "translations", "compare", "heads", "embeddings")
    ),
    *(
        ("/heads", {"heads": section, "measure": "entropy"})
        for section in ("atlas", "writes", "feeds", "search", "queries and keys", "off together")
    ),
    *(("/errors", {"errors": section}) for section in ("failing sentences", "pairs")),
    ("/learn", {}),
    *(
        ("/inside", {"inside": step})
        for step in ("scores", "heads", "residual", "feed forward", "score parts")
    ),
    *(("/why", {"answer": answer}) for answer in ("tokens", "encoder", "words", "training")),
    ("/training", {"training": "stages"}),
]
"""Addresses that have every section of every page, and a lesson."""
ALL_RULES: dict[str, Any] = {"rules": {"target-size": {"enabled": True}}}
"""Axe leaves the rules of WCAG 2.2 out if it is not told."""
CONTRAST, ROOM = (
    {"runOnly": {"type": "rule", "values": rules}}
    for rules in (["color-contrast"], ["target-size", "scrollable-region-focusable"])
)
WRAPPED = [PLACES[0], *PLACES[2:4], *PLACES[6:8]]
"""What is not as wide on a phone: maps, lessons, formulas, sliders and a tree."""
COLOURED = [*PLACES[:4], PLACES[5], PLACES[13], PLACES[17], PLACES[19]]
"""What is written in colours of ours: tokens, a lesson, sentences side by side, tables."""
_UNSAVED = """() => visible('.st-key-beam-progress').length ? undefined : visible('.stPlotlyChart')
    .filter(each => !each.closest('[class*="-box "]')?.querySelector('.chart-tools .save'))
    .map(each => `no button saves it: ${each.outerHTML.slice(0, 200)}`)"""
"""The charts that no button saves, once the beam beside the translation is there too."""
_RUN = """async options => {
    const {violations} = await axe.run({...options, resultTypes: ['violations']});
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


def violations_by_place(
    app: App, places: list[tuple[str, dict[str, str]]], options: dict[str, Any]
) -> dict[tuple[str, ...], list[str]]:
    """Return what axe finds against some addresses, of those against which it finds anything."""
    found = {}
    for path, choices in places:
        app.open(path, q=SENTENCE, **choices)
        unsaved = app.find(_UNSAVED, wanted=[])  # the buttons come in the frame after a chart
        app.page.evaluate(Axe().axe_script)
        if against := [*unsaved, *app.page.evaluate(_RUN, options)]:
            found[path, *choices.values()] = against
    return found


@pytest.mark.parametrize(
    ("scheme", "places", "options"),
    [("light", PLACES, ALL_RULES), ("dark", COLOURED, CONTRAST)],
    ids=["light", "dark"],
)
def test_nothing_is_against_a_page(
    new_app: NewApp,
    scheme: Literal["light", "dark"],
    places: list[tuple[str, dict[str, str]]],
    options: dict[str, Any],
) -> None:
    app = new_app(viewport={"width": 1280, "height": 6000}, color_scheme=scheme)
    app.load_always()
    assert violations_by_place(app, places, options) == {}


@pytest.mark.parametrize("width", [390, 820])
def test_all_can_be_reached_where_there_is_less_room(new_app: NewApp, width: int) -> None:
    """What is scrolled has a focus, and what is touched is large enough or has room around it."""
    app = new_app(viewport={"width": width, "height": 6000})
    app.load_always()
    assert violations_by_place(app, WRAPPED, ROOM) == {}
