"""Walk through the app in Chromium at random, and compare what it says of itself after each act.

    python -m tests.robustness.walk [--acts 1000] [--seed 0] [--far 0] [--at http://localhost:8501]

An act uses a widget, clicks into a picture, on a token or a button, or turns to another page; at
times a second act follows before the first is answered. After each, four things must say the same:
the address, the link in the menu, the view in the citation, and the page, which must be what a
fresh page draws at that link. Where they differ, the acts so far are printed, and the status
is 1. Without ``--at``, the app is started on the runs of this project.
"""

from __future__ import annotations

import contextlib
import random
import re
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import tyro
from playwright.sync_api import Error, Locator, Page, ViewportSize
from tqdm import tqdm

from benchmarks.chromium import chromium
from benchmarks.load_server import serving
from headwise.viz_app.session.state import CHOICES, parameter_of
from tests.browser.driver import App, cited_view

SCREEN: ViewportSize = {"width": 1440, "height": 7000}
"""High enough that all of a page is in sight, and drawn."""
TEXTS = (
    "I am hungry.",
    "The girl has a red ball.",
    "We saw three black cats on the white roof.",
    "La chica tiene una pelota roja.",
    "Vimos tres gatos.",
    "Hund",
)
"""Typed as sentences, translations and tokens alike."""
BURST = 0.25
"""How often an act does not wait for the answer to the one before."""
_HASTE = 3_000
"""Milliseconds that an act is tried for: what it is done to may go away."""
_SLOWNESS = 60_000
"""Milliseconds in which a fresh page is drawn at last."""
_HASTES = (5_000, 10_000, 20_000, 20_000)
"""The same for a page that may change while it is compared, and is then compared again."""
_LEFT_ALONE = re.compile(
    "^(download-(html|npz|json)|compute|play|player|moving|heads_graph|projection_by|lesson.*"
    "|first-lesson|start.*|show-.*|newer|checks-hold|come-back|at_rest|goes_on.*)$"
)
"""What saves files, plays by itself, takes long, or is of a lesson, which has tests of its own.

Sliders of players are left alone, too: how far one has played is no choice.
"""
_ACTS = """() => {
    const acts = [];
    const add = (what, element, place = 0) => {
        const box = element.closest('[class*="st-key-"]')
            ?? element.getRootNode().host?.closest('[class*="st-key-"]');
        const name = box && [...box.classList].find(each => each.startsWith('st-key-')).slice(7);
        acts.push([what, name ?? '', place]);
    };
    const all = (what, place) => visible(place).forEach(element => add(what, element));
    all('option', '[role="radio"][aria-checked="false"]:not([disabled])');
    all('switch', '[role="switch"]');
    all('slider', '[role="slider"], input[type="range"]:not(.player *)');
    all('list', '[role="combobox"]');
    all('text', '.stTextArea textarea, .stTextInput input');
    all('number', '.stNumberInput input');
    all('button', '.stButton button:not([disabled])');
    all('token', '[class$="_tokens"] button, .stBidiComponent button');
    all('picture', '.js-plotly-plot .nsewdrag, .heat_map image:first-of-type');
    visible('[data-testid="stTopNavLink"]').forEach((_, place) => acts.push(['page', '', place]));
    return acts;
}"""
_SAID = """() => {
    const named = element => [...element.closest('[class*="st-key-"]').classList]
        .find(each => each.startsWith('st-key-'));
    const values = visible('.stMain input, .stMain textarea, .stSidebar input, .stSidebar textarea')
        .filter(field => field.closest('[class*="st-key-"]'))
        .map(field => [named(field), field.type === 'checkbox' ? field.checked
            : field.getAttribute('aria-valuetext') ?? field.value]);
    const chosen = visible('[role="radio"][aria-checked="true"]')
        .map(option => [named(option), option.textContent]);
    const plain = value => ArrayBuffer.isView(value) || Array.isArray(value)
        ? Array.from(value, plain) : value;
    const charts = visible('.js-plotly-plot, .heat_map').map(gd => [named(gd),
        JSON.stringify((gd.figure?.data ?? gd._fullData).map(each => [each.type, plain(each.x),
            plain(each.y), plain(each.z)])),
        JSON.stringify(((gd.figure ?? gd).layout.shapes ?? []).map(each => [each.x0, each.x1,
            each.y0, each.y1]))]);
    const components = roots.filter(root => root.host.checkVisibility())
        .map(root => [...root.children].filter(each => each.tagName !== 'STYLE')
            .map(each => each.textContent).join('')).filter(Boolean);
    const texts = ['.stMain', '.stSidebar'].flatMap(part => visible(
        `${part} [data-testid="stMarkdownContainer"], ${part} .stText, ${part} .stHtml`))
        .map(element => element.innerText).filter(Boolean);
    return [...values, ...chosen, ...charts, components, ...texts];
}"""
"""What widgets have, what pictures and components draw, and all texts."""


@dataclass(frozen=True)
class Act:
    """An act does something to a widget or picture, or turns to a page."""

    what: str
    key: str
    place: int
    luck: float = 0.0
    """From 0 to 1: which of the options, keys, texts or places."""

    def __str__(self) -> str:
        return f"{self.what} {self.key or self.place} ({self.luck:.3f})"


class Walker:
    """Walks in one page and looks at another, fresh one."""

    def __init__(self, app: App, fresh: App, seed: int) -> None:
        self.app, self.fresh = app, fresh
        for each in (app, fresh):
            each.page.set_viewport_size(SCREEN)
        fresh.load_always()
        self.random = random.Random(seed)
        self.done: list[str] = []
        self.used: Counter[Act] = Counter()
        """How often each thing was used, whatever the luck."""
        self.chosen: set[str] = set()
        """The parameters that links have had."""

    def step(self) -> None:
        """Do an act, or two at once, and compare.

        Raises:
            AssertionError: if something differs, or a page complains; with what was done before.
        """
        self._do(self._choose())
        if self.random.random() < BURST:
            with contextlib.suppress(Error):  # what there is to do may change meanwhile
                self._do(self._choose(resting=False))
        try:
            self.compare()
        except (AssertionError, Error) as error:
            error.add_note("\n".join(["after", *self.done[-40:], "at", self.app.page.url]))
            raise

    def _choose(self, *, resting: bool = True) -> Act:
        """Choose a kind of thing, then one of these, rather one that was seldom used before."""
        if resting:
            found = self.app.find(_ACTS)
        else:
            found = self.app.page.evaluate(
                "() => { const roots = [], visible = place => [...document.querySelectorAll(place)]"
                f".filter(element => element.checkVisibility()); return ({_ACTS})(); }}"
            )
        things = sorted({tuple(each) for each in found if not _LEFT_ALONE.match(each[1])})
        kind = self.random.choice(sorted({what for what, _, _ in things}))
        acts = [Act(*each) for each in things if each[0] == kind]
        rarity = [1 / (1 + self.used[each]) ** 2 for each in acts]
        [act] = self.random.choices(acts, rarity)
        self.used[act] += 1
        return replace(act, luck=self.random.random())

    def _do(self, act: Act) -> None:
        self.done.append(str(act))
        with contextlib.suppress(Error):
            self._try(act, self.app.widget(act.key), self.app.page)

    def _try(self, act: Act, box: Locator, page: Page) -> None:
        """Do it to the widget or picture, for some seconds only."""

        def click_one_of(found: Locator, most: int = 10_000) -> None:
            found.first.wait_for(timeout=_HASTE)
            found.nth(int(act.luck * min(found.count(), most))).click(timeout=_HASTE)

        match act.what:
            case "option":
                click_one_of(box.locator('[role="radio"][aria-checked="false"]:not([disabled])'))
            case "button" | "token":
                click_one_of(box.locator("button:not([disabled])"))
            case "page":
                click_one_of(page.locator('[data-testid="stTopNavLink"]'))
            case "switch":
                box.locator("label").first.click(timeout=_HASTE)
            case "slider":
                keys = ("ArrowLeft", "ArrowRight", "Home", "End")
                slider = box.locator('[role="slider"], input[type="range"]').first
                slider.press(keys[int(act.luck * len(keys))], timeout=_HASTE)
            case "list":
                box.get_by_role("combobox").first.click(timeout=_HASTE)
                click_one_of(page.get_by_role("option"), 12)
                page.keyboard.press("Escape")
            case "text" | "number":
                text = TEXTS[int(act.luck * len(TEXTS))]
                field = box.locator("input, textarea").first
                field.fill(text if act.what == "text" else f"{act.luck:.2f}", timeout=_HASTE)
                field.press("Enter", timeout=_HASTE)
            case "picture":
                place = box.locator(":is(.js-plotly-plot .nsewdrag, .heat_map image)").first
                place.scroll_into_view_if_needed(timeout=_HASTE)
                found = place.bounding_box(timeout=_HASTE)
                if found is None:  # gone meanwhile
                    return
                x = found["x"] + found["width"] * act.luck
                y = found["y"] + found["height"] * (act.luck * 7 % 1)
                page.mouse.move(x - 1, y)
                page.mouse.click(x, y)

    def photograph(self) -> list[Path]:
        """Save a picture of the page and of the fresh one; return where."""
        folder = Path(tempfile.mkdtemp(prefix="headwise-walk-"))
        paths = [folder / "walked.png", folder / "fresh.png"]
        for each, path in zip((self.app, self.fresh), paths, strict=True):
            each.page.screenshot(path=path)
        return paths

    def compare(self) -> None:
        """Compare address, link, citation, and the page with a fresh one.

        What changes while it is compared, as behind an act that the browser has yet to send, is
        compared again.

        Raises:
            AssertionError: if something differs, or a page complains.
        """
        app, fresh = self.app, self.fresh
        app.page.keyboard.press("Escape")
        app.page.mouse.move(0, 0)
        app.rest()
        for patience in (*_HASTES, _SLOWNESS):
            link, *citations = app.link_and_citations()
            path = urlsplit(link).path
            fresh.open(f"{fresh.address}{path}?{urlsplit(link).query}")
            said = app.find(_SAID)
            again = fresh.find(_SAID, wanted=said, patience=patience)
            now = app.page.url
            view = query(link)
            # On Learn there is no link but the address, which is written behind the page.
            written = now == link if path == "/learn" else view.items() <= query(now).items()
            at_rest = urlsplit(now).path == path and written
            if at_rest and again == said:
                break
        self.chosen |= {*view}
        assert view.items() <= query(now).items(), now
        for citation in citations[:1]:  # the second is the same in BibTeX
            assert cited_view(citation) == view, citation
            is_own = "target" not in view and view.get("decoding") != ["beam"]
            assert ("target: the model's own" in citation) == is_own, citation
        assert again == said, _difference(said, again)
        assert query(fresh.page.url) == view, fresh.page.url
        complaints = app.complaints + fresh.complaints
        assert not complaints, complaints


def query(address: str) -> dict[str, list[str]]:
    """Return the parameters of an address."""
    return parse_qs(urlsplit(address).query, keep_blank_values=True)


def _difference(walked: list[Any], fresh: list[Any]) -> str:
    """Return the first things in which two pages differ, from where they differ."""
    rows = []
    for a, b in zip(map(str, walked), map(str, fresh), strict=False):
        if a != b:
            same = next(
                (i for i, pair in enumerate(zip(a, b, strict=False)) if len({*pair}) > 1), 0
            )
            part = slice(max(0, same - 40), same + 300)
            rows.append(f"walked … {a[part]}\nfresh  … {b[part]}")
    return f"{len(walked)} and {len(fresh)} things\n" + "\n".join(rows[:3])


@dataclass(frozen=True)
class Arguments:
    """Walk through the app at random."""

    acts: int = 1000
    seed: int = 0
    far: float = 0.0
    """Seconds after which the walked page hears what the server says."""
    at: str = ""
    """The address of a running app; empty starts one."""


def main(arguments: Arguments) -> None:
    """Walk; exit with status 1 where something differs."""
    with contextlib.ExitStack() as running:
        address = arguments.at or running.enter_context(serving()).address
        browser = running.enter_context(chromium("--process-per-site"))()
        # A page that is behind another in one window is drawn twice a second.
        walked, fresh = (App(browser.new_context(), address) for _ in range(2))
        walker = Walker(walked, fresh, arguments.seed)
        if arguments.far:
            walked.be_far(1_000 * arguments.far)
        walker.app.open(q=TEXTS[0])
        for _ in tqdm(range(arguments.acts), unit="act"):
            try:
                walker.step()
            except (AssertionError, Error) as error:
                traceback.print_exception(error)
                print("pictures of both pages:", *walker.photograph())
                sys.exit(1)
    never = {parameter_of(name) for name in CHOICES} - walker.chosen
    print(f"{arguments.acts} acts without a difference; never chosen: {', '.join(sorted(never))}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
