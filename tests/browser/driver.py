"""The app as a person runs it, in a real Chromium.

Charts are known by the keys of their widgets. What a chart shows is read from Plotly's own objects
after Plotly has decoded them, and its labels from the page, as they are drawn. While a script runs,
Streamlit leaves what it drew before beside what it draws now, and hidden copies may stay for good:
``App.find`` waits until the script rests and reads what is visible, in one call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Download,
    Locator,
    Page,
    TimeoutError,
)
from streamlit.proto.BackMsg_pb2 import BackMsg

from headwise.model.interface import KINDS, Head, Kind
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.records.trace import Floats, Trace
from headwise.viz_app.session.state import CHOICES, parameter_of
from tests.floats import rounding

ANOTHER_PASS = rounding(np.float32, 1)
"""How far weights and probabilities are off that another pass of the same operations gives."""
PATIENCE = 60_000
"""Milliseconds; spent only where something is broken."""
NAMES: dict[Kind, str] = {kind: kind.replace("_", " ").capitalize() for kind in KINDS}
"""Kinds of attention as the page names them."""
_WRITTEN = {
    **NAMES,
    **{"joint": "each kind", "own": "your own", "all": "all heads"},
    **{"heads": "Heads by step", "translations": "Translations", "compare": "Compare"},
    **{"watch": "Watch", "curves": "Curves", "embeddings": "Embeddings"},
}
"""Choice as the address has it → its label, if that is another."""
_MENUS = {
    **dict.fromkeys(("show", "rows", "special", "renormalised"), "reading"),
    "shared": "shared-menu",
    "target": "own-target",
    **dict.fromkeys(("pictures", "paper", "printed"), "download-menu"),
}
"""Widget → the menu that it stands in on Translate, or on all pages."""
TEXTS = "all => all.map(element => element.textContent)"
_HARMLESS = re.compile(
    r"/(errors|heads|inside|learn|model|training|why)/_stcore/(health|host-config)$"
)
"""Streamlit looks for its server under the address of a page first, and is told 404."""
_AT_ONCE = "Multiple different fragmentIds detected in a single batch"
"""Widgets of two panels changed at the same moment. Streamlit runs one of the panels again; each
notes what the widgets of all have, and draws what depends on it."""
_BETWEEN_LOOKS = 50
"""Milliseconds. (Playwright looks at every frame if it is not told, and has the page draw them.)"""
_ANY = object()
_LOOK = """argument => {
    const components = [...document.querySelectorAll('[data-testid="stBidiComponentIsolated"]')]
        .filter(element => element.checkVisibility());
    if (components.some(each => !each.shadowRoot?.childElementCount)) return undefined;
    if ([...document.querySelectorAll('.heat_map:empty')].some(each => each.checkVisibility()))
        return undefined;
    const roots = components.map(component => component.shadowRoot);
    const everywhere = place =>
        [document, ...roots].flatMap(root => [...root.querySelectorAll(place)]);
    const visible = place => everywhere(place).filter(element => element.checkVisibility());
    const isSeen = place => place.getBoundingClientRect().top < innerHeight;
    if (visible('.in_sight, [data-testid="stSkeleton"]').some(isSeen)) return undefined;
    const asList = value => ArrayBuffer.isView(value) || Array.isArray(value)
        ? Array.from(value, asList)
        : typeof value === 'number' && !Number.isFinite(value) ? null : value ?? null;
    const found = (LOOK)(argument);
    return found === undefined ? undefined : asList(found);
}"""
"""What a function finds, as lists, once no place is in sight that has yet to be drawn.

Streamlit draws a skeleton where the script of a chart or widget is still being loaded, and nothing
into a component whose script is.

``everywhere`` looks into components too; ``visible`` leaves out what is hidden: Streamlit leaves
copies of charts in the page after a click.
"""
_STATES = """() => new Promise(resolve => {
    const state = () => document.querySelector('.stApp')?.dataset.testScriptState ?? 'none';
    const seen = new Set(), timer = setInterval(() => seen.add(state()), 20);
    setTimeout(() => { clearInterval(timer); resolve([...seen]); }, 3_000);
})"""
"""The states of the script within three seconds."""
_AWAITED = """() => [...document.querySelectorAll(
    '[data-testid="stBidiComponentIsolated"], [data-testid="stSkeleton"]')]
    .flatMap(each => [each, ...(each.shadowRoot?.querySelectorAll('.in_sight') ?? [])])
    .filter(each => each.checkVisibility() && !each.shadowRoot?.childElementCount)
    .map(each => each.closest('[class*="st-key-"]')?.className ?? each.className
        ?? each.getRootNode().host.closest('[class*="st-key-"]')?.className)"""
"""What has yet to be drawn, by the class of what it stands in; see ``_LOOK``."""
_SEEN = "() => `${document.title}: ${document.querySelector('.stMain')?.innerText ?? ''}`"
"""What a person reads on the page."""
DRAWN = """() => {
    if (visible('[class*="st-key-"][class*="-progress"]').length) return undefined;
    if (visible('.js-plotly-plot').some(gd => !gd.dataset.tabled)) return undefined;
    if (visible('.heat_map').some(map => !map.figure)) return undefined;
    const plain = value => ArrayBuffer.isView(value) || Array.isArray(value)
        ? Array.from(value, plain) : value;
    const data = visible('.js-plotly-plot, .heat_map').map(gd => gd.figure?.data ?? gd._fullData);
    const charts = data.map(traces => JSON.stringify(traces.map(
        trace => [trace.type, plain(trace.x), plain(trace.y), plain(trace.z)])));
    const components = roots.map(root => root.textContent);
    return [visible('[data-testid="stMain"]')[0].innerText, ...components, ...charts];
}"""
"""All texts, and the data of all charts, once nothing is computed any more."""
_FIND = """([argument, wanted, tolerance]) => {
    const near = (a, b) => Array.isArray(b)
        ? Array.isArray(a) && a.length === b.length && b.every((each, i) => near(a[i], each))
        : typeof a === 'number' && typeof b === 'number' ? Math.abs(a - b) <= tolerance : a === b;
    const failed = [...document.querySelectorAll('.stException')].map(e => e.textContent);
    if (failed.length) return {failed};
    if (!document.querySelector('.stApp[data-test-script-state="notRunning"]')) return false;
    let value;
    try { value = (LOOK)(argument); } catch { return false; }
    return value !== undefined && (wanted === null || near(value, wanted[0])) && {value};
}"""
_CHART = """() => {
    const charts = visible('.st-key-KEY :is(.js-plotly-plot, .heat_map)');
    const [gd] = charts;
    if (gd?.figure) Object.assign(gd, {_fullData: gd.figure.data, layout: gd.figure.layout});
    return charts.length === 1 && gd._fullData ? (EXPRESSION) : undefined;
}"""
FRAMES = """(gd.figure
    ? gd.layout.shapes.filter(({name, type}) => name === 'mark' && type === 'rect')
        .map(({y0, y1}) => [y0, y1])
    : [...gd.closest('[class*="-box "]').querySelectorAll('.chosen i')].map(frame => {
        const [{top, bottom}, from] = [frame, gd].map(each => each.getBoundingClientRect());
        const axis = gd._fullLayout.yaxis;
        const at = pixel => Math.round(2 * axis.p2d(pixel - from.top - axis._offset)) / 2;
        return [at(top), at(bottom)];
    }))"""
"""Where the frames of a map, or those over bars, begin and end, from its top."""
_LABELS = """(() => {
    const unescape = text => {
        const field = document.createElement('textarea');
        field.innerHTML = text;
        return field.value;
    };
    const aliases = Object.entries(gd.layout.AXISaxis.labelalias ?? {});
    const labels = new Map(aliases.map(([at, text]) => [+at, unescape(text)]));
    const drawn = [...gd.querySelectorAll('.AXIStick')];
    for (const tick of drawn) labels.set(+(tick.dataset.at ?? tick.__data__.x), tick.textContent);
    const sorted = [...labels].sort((a, b) => a[0] - b[0]);
    return drawn.length && sorted.every(([at], i) => at === i)
        ? sorted.map(([, text]) => text) : undefined;
})()"""
"""What is drawn; where an axis draws only some of its labels, also what the others would be."""
_CONTRAST = """element => {
    const luminance = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(value => value / 255)
        .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const style = getComputedStyle(element), app = document.querySelector('.stApp');
    const text = luminance(element.ownerSVGElement ? style.fill : style.color);
    const ground = luminance(getComputedStyle(app ?? document.body).backgroundColor);
    return [(Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05), ground];
}"""
_BOX = """place => {
    const elements = visible(place);
    if (elements.length !== 1) return undefined;
    elements[0].scrollIntoViewIfNeeded();
    const {x, y, width, height} = elements[0].getBoundingClientRect();
    const [before, now] = [window.__box, [place, x, y, width, height].join()];
    window.__box = now;
    return before === now ? [x, y, width, height] : undefined;
}"""
"""Where an element is, once it has stayed there for two frames."""
_STATE = """place => {
    const [element] = visible(place);
    if (!element) return null;
    const inner = element.cloneNode(true), drawn = element.querySelectorAll('canvas');
    inner.querySelectorAll('[id]').forEach(each => each.removeAttribute('id'));
    const shown = [...element.querySelectorAll('[data-testid="stBidiComponentIsolated"]')]
        .map(each => each.shadowRoot?.innerHTML);
    return inner.innerHTML + shown.join('') + drawn.length;
}"""
_CHANGED = f"""([place, before]) => {{
    const now = ({_STATE})(place);
    return Boolean(now) && now !== before;
}}"""
_IS_SEEN = """place => {
    const {top, bottom} = visible(place)[0].getBoundingClientRect();
    const seen = Math.min(bottom, innerHeight) - Math.max(top, 0);
    return seen >= Math.min(150, bottom - top) - 1;
}"""
"""Whether all of a place is seen or, of a large one, 150 pixels."""
_LATE = """(() => {
    window.far = MILLISECONDS;
    const listen = WebSocket.prototype.addEventListener;
    WebSocket.prototype.addEventListener = function (kind, heard, ...options) {
        const late = event => setTimeout(() => heard.call(this, event), window.far);
        return listen.call(this, kind, kind === 'message' ? late : heard, ...options);
    };
})()"""
"""Everything that the server says is heard late, as far from it; ``window.far`` says how late."""
_TURN = """url => {
    history.pushState(null, '', url);
    dispatchEvent(new PopStateEvent('popstate', {state: null}));
}"""
_TURNED = "turned"
"""A parameter that the app does not know: it is gone once the app has written its own address."""
_CODES = """elsewhere => {
    const menu = document.querySelectorAll('[data-testid="stPopoverBody"] code');
    const codes = [...menu].map(code => code.textContent);
    const sorted = query => [...new URLSearchParams(query)]
        .filter(([name]) => !elsewhere.includes(name)).sort().join();
    return codes.length && sorted(codes[0].split('?')[1]) === sorted(location.search)
        ? codes : undefined;
}"""
"""The link and the citations in the menu, once the link is the address without some parameters."""


def cut(labels: Sequence[str]) -> list[str]:
    """Return labels as maps and lines draw them."""
    return [label if len(label) <= 22 else label[:21] + "…" for label in labels]


def step_label(trace: Trace, at: int) -> str:
    """Return a step of decoding as the list of steps names it."""
    consumed, predicted = token_labels(trace.consumed), token_labels(trace.predicted)
    return f"{at + 1}: {predicted[at]} ← {consumed[at]}"


def short_label(head: Head) -> str:
    """Return a head as lists and sentences name it."""
    return f"{NAMES[head.kind]} {head.layer + 1}.{head.head + 1}"


def rgb(colour: str) -> str:
    """Return ``#rrggbb`` as browsers write it."""
    return f"rgb({', '.join(str(value) for value in bytes.fromhex(colour[1:]))})"


def contrast_to_ground(element: Locator) -> tuple[float, float]:
    """Return the contrast of a text to the page's ground (WCAG 2.2), and how light that is."""
    contrast, ground = element.evaluate(_CONTRAST)
    return contrast, ground


class App:
    """One page of the app."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.loads = False
        """Whether each address is loaded, as in a new window."""
        self.complaints: list[str] = []
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("request", lambda request: self._check_host(request.url))
        self.page.on("console", self._note_message)
        self.page.on("websocket", lambda socket: self._check_host(socket.url))
        self.page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))

    def _check_host(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(self.address).netloc:
            self.complaints.append(f"another host: {url}")

    def _note_message(self, message: ConsoleMessage) -> None:
        harmless = _HARMLESS.search(urlsplit(message.location["url"]).path) or (
            _AT_ONCE in message.text
        )
        if message.type in ("error", "warning") and not harmless:
            self.complaints.append(f"console {message.type}: {message.text} {message.location}")

    def load_always(self, script: str = "") -> None:
        """Load each address from here on, as in a new window; run a script before all others."""
        self.loads = True
        if script:
            self.page.add_init_script(script)
        if self.page.url != "about:blank":
            self.page.goto("about:blank")

    def clear(self) -> None:
        """Leave nothing behind of what was done: the app is at another page, the mouse is away."""
        self.page.bring_to_front()
        self.page.mouse.move(0, 0)
        self.page.evaluate("() => { localStorage.clear(); document.activeElement?.blur(); }")
        self.open("/learn", q="")

    def be_far(self, milliseconds: float) -> None:
        """Hear what the server says late, on pages that are opened from here on."""
        self.load_always(_LATE.replace("MILLISECONDS", str(milliseconds)))

    # What a person does

    def open(self, path: str = "/", **query: object) -> None:
        """Go to an address of the app, or to a path and query of it.

        Where the app is open, it turns there as a person goes back, which takes a quarter of the
        time. (Not without a sentence: the app then has the one of before.)
        """
        url = path if path.startswith("http") else self.address + path
        url += "?" + urlencode(query, doseq=True) if query else ""
        turns = "q=" in urlsplit(url).query and not self.loads
        if turns and self.page.url.startswith(self.address):
            self.page.evaluate(_TURN, f"{url}&{_TURNED}=1")
            self.find(f"() => location.search.includes('&{_TURNED}=') ? undefined : true")
            return
        self.page.goto(url)
        self.page.locator(".st-key-sentence textarea").wait_for()
        self.rest()

    def go_to(self, title: str) -> None:
        """Follow the link to another page, and wait until its address is that of the page."""
        link = self.page.get_by_role("link", name=title)
        path = urlsplit(link.get_attribute("href") or "").path
        link.click()
        self.page.wait_for_url(lambda url: urlsplit(url).path == path)

    def widget(self, key: str) -> Locator:
        """Find a widget; one that it has replaced stays behind it until the page is drawn."""
        return self.page.locator(f".st-key-{key}").first

    @contextmanager
    def menu_of(self, key: str, *, patience: int = PATIENCE) -> Iterator[None]:
        """Open the menu that a widget stands in, if it stands in one, and close it in the end."""
        widget = self.widget(key)
        if key in _MENUS:
            place = f".st-key-{key}, .st-key-{_MENUS[key]}"
            self.page.locator(place).first.wait_for(timeout=patience)
        if key not in _MENUS or widget.count():
            yield  # on other pages some stand on the page itself
            return
        for haste in (5_000, 5_000, patience):  # it closes if it is drawn anew meanwhile
            if not self.page.get_by_test_id("stPopoverBody").count():
                button = self.page.locator(f".st-key-{_MENUS[key]} button").first
                button.click(timeout=patience)
            with suppress(TimeoutError):
                widget.wait_for(timeout=haste)
                break
        yield
        self.page.keyboard.press("Escape")
        widget.wait_for(state="detached")

    def enter(self, key: str, text: str) -> None:
        """Type a text and press Enter."""
        with self.menu_of(key):
            field = self.widget(key).locator(":is(input, textarea)")
            field.fill(text)
            field.press("Enter")

    def type(self, sentence: str) -> None:
        """Type a sentence and press Enter."""
        self.enter("sentence", sentence)

    def choose(self, **choices: str) -> None:
        """Choose options of segmented controls, one after the other."""
        for key, option in choices.items():
            control = self.widget(key)
            label = _WRITTEN.get(option, option)
            with self.menu_of(key):
                control.get_by_role("radio", name=label, exact=True).click()
                self.expect_chosen(**{key: option})

    def pick(self, key: str, label: str) -> None:
        """Choose in a list that opens; again, if it is drawn anew meanwhile, which closes it."""
        for patience in (5_000, 5_000, PATIENCE):
            field = self.widget(key).locator("input")
            field.fill("")  # a list that was closed does not open for the same text once more
            field.fill(label)
            with suppress(TimeoutError):
                self.page.get_by_role("option", name=label, exact=True).click(timeout=patience)
                return
        raise AssertionError(f"{key} does not offer {label}")

    def press(self, key: str, button: str) -> None:
        """Press a button of the keyboard, such as ArrowLeft, on a slider."""
        self.widget(key).locator("input").press(button)

    def click_in(self, key: str, x: float, y: float, *, subplot: str = "xy") -> None:
        """Click in a chart or a map, at parts of its width and height between the axes."""
        if self.page.locator(f".st-key-{key} .heat_map").count():
            self.hover_in(key, x, y)
            self.page.mouse.down()
            self.page.mouse.up()
            return
        self.read(key, "(gd._hoverdata = undefined) ?? true")  # of where the mouse was before
        hovered = f"document.querySelector('.st-key-{key} .js-plotly-plot')?._hoverdata?.length"
        for attempt in range(100):  # a chart that was only just drawn does not listen yet
            self.hover_in(key, x + attempt % 2 * 0.002, y, subplot=subplot)
            with suppress(TimeoutError):
                self.page.wait_for_function(hovered, timeout=300)
                break
        self.page.mouse.down()
        self.page.mouse.up()

    def hover_in(self, key: str, x: float, y: float, *, subplot: str = "xy") -> None:
        """Move the mouse in a chart, to parts of its width and height between the axes."""
        cells = f'.nsewdrag[data-subplot="{subplot}"], .heat_map image:first-of-type'
        left, top, width, height = self.box(f".st-key-{key} :is({cells})")
        self.page.mouse.move(left + x * width, top + y * height)

    def tab_to(self, place: str) -> None:
        """Press Tab until what has the focus is there."""
        is_there = "place => document.activeElement.closest(place) !== null"
        for _ in range(80):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(is_there, place):
                return
        raise AssertionError(f"Tab does not reach {place}")

    def download(self, button: Locator) -> Download:
        """Press a button and wait for the file that it gives."""
        with self.page.expect_download() as started:
            button.click()
        return started.value

    # What there is to see

    def rest(self) -> None:
        """Wait until the script rests and all that is in sight has been drawn."""
        self.find("() => true")

    def find(
        self,
        look: str,
        argument: object = None,
        *,
        wanted: Any = _ANY,
        tolerance: float = 0,
        patience: int = PATIENCE,
    ) -> Any:
        """Return what a function in JavaScript finds once the script rests and it finds something.

        With ``wanted`` it waits for that value, numbers within a tolerance; where it never comes,
        the value that is there is returned, so that an assertion can say it. NaN is None.
        """
        look = _LOOK.replace("LOOK", look)
        arguments = [argument, None if wanted is _ANY else [wanted], tolerance]
        try:
            handle = self.page.wait_for_function(
                _FIND.replace("LOOK", look), arg=arguments, polling=_BETWEEN_LOOKS, timeout=patience
            )
        except TimeoutError:
            last = self.page.evaluate(look, argument)
            states = self.page.evaluate(_STATES)
            assert "notRunning" in states, f"the script does not come to rest: {states}"
            assert last is not None, (
                f"there is nothing, or more than one, of what is read ({states}), or something has "
                f"yet to be drawn ({self.page.evaluate(_AWAITED)}): {look}, {argument}\n"
                f"on the page {self.page.url} {self.page.evaluate(_SEEN)}"
            )
            return last
        found: dict[str, Any] = handle.json_value()
        assert "failed" not in found, found["failed"]
        return found["value"]

    def expect(
        self, look: str, expected: Any, argument: object = None, *, tolerance: float = 0
    ) -> None:
        """Wait until a function in JavaScript finds a value; fails, with both, if it does not."""
        if not isinstance(expected, np.ndarray):
            assert self.find(look, argument, wanted=expected, tolerance=tolerance) == expected
            return
        wanted = np.where(np.isfinite(expected), expected, None).tolist()
        found = self.find(look, argument, wanted=wanted, tolerance=tolerance)
        if expected.size == 0:
            assert found == []
        else:
            drawn = np.array(found, dtype=np.float64)
            np.testing.assert_allclose(drawn, expected, rtol=0, atol=tolerance)

    @contextmanager
    def in_sight(self, *places: str) -> Iterator[None]:
        """Have what is done here change these places, which are then seen without a scroll."""
        before = [self.find(_STATE, place) for place in places]
        yield
        for place, state in zip(places, before, strict=True):
            self.expect(_CHANGED, True, [place, state])
        for place in places:
            self.expect(_IS_SEEN, True, place)

    def box(self, place: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element that is scrolled to and rests."""
        left, top, width, height = self.find(_BOX, place)
        return left, top, width, height

    def read(self, key: str, expression: str) -> Any:
        """Return a value from the only chart of a key, ``gd`` in the expression."""
        return self.find(_CHART.replace("KEY", key).replace("EXPRESSION", expression))

    def expect_read(self, key: str, expression: str, expected: Any, tolerance: float = 0) -> None:
        """Wait until a chart gives this value; fails, with both, if it does not."""
        look = _CHART.replace("KEY", key).replace("EXPRESSION", expression)
        self.expect(look, expected, tolerance=tolerance)

    def expect_drawn(
        self, key: str, expected: Floats, *, values: str = "z", tolerance: float = ANOTHER_PASS
    ) -> None:
        """Wait until a chart draws these values: cells z of a heat map, lengths x of bars.

        They are weights or probabilities of another pass, unless a tolerance is given.
        """
        self.expect_read(key, f"gd._fullData[0].{values}", np.asarray(expected), tolerance)

    def expect_labels(self, key: str, axis: str, expected: Sequence[str]) -> None:
        """Wait until an axis, x or y, has these labels, long ones cut."""
        self.expect_read(key, _LABELS.replace("AXIS", axis), cut(expected))

    def expect_text(
        self, key: str, expected: str, *, within: str = "", by: str = "textContent"
    ) -> None:
        """Wait until an element shows this text; fails, with both, if it does not."""
        self.expect(
            """([place, by]) => {
                const elements = visible(place);
                return elements.length === 1 ? elements[0][by] : undefined;
            }""",
            expected,
            [f".st-key-{key} {within}", by],
        )

    def expect_field(self, key: str, expected: str) -> None:
        """Wait until a field or list shows this text."""
        with self.menu_of(key):
            self.expect_text(key, expected, within=":is(input, textarea)", by="value")

    def expect_chosen(self, **choices: str) -> None:
        """Wait until segmented controls show these options and the script rests."""
        for key, option in choices.items():
            label = _WRITTEN.get(option, option)
            with self.menu_of(key):
                self.expect_text(key, label, within='[role="radio"][aria-checked="true"]')

    def expect_address(self, **expected: str | None) -> None:
        """Wait until the address has these parameters; None: has it not."""
        look = "keys => keys.map(key => new URLSearchParams(location.search).get(key))"
        self.expect(look, list(expected.values()), list(expected))

    def link_and_citations(self) -> list[str]:
        """Return what the menu offers to copy, once it is of the address.

        The link has all of the address but the choices that only other pages show. *Learn* has no
        menu: its link is the address.
        """
        codes: list[str] = []
        # Meanwhile the menu may be drawn anew, and closes; or another page comes, asked for before.
        for patience in (5_000, 5_000, PATIENCE):
            if urlsplit(self.page.url).path == "/learn":
                return [self.page.url]
            with (
                suppress(TimeoutError),
                self.menu_of("pictures", patience=patience),
                suppress(AssertionError),
            ):
                codes = self.page.get_by_test_id("stPopoverBody").locator("code").all_inner_texts()
                page = urlsplit(self.page.url).path.strip("/") or "translate"
                others = [name for name, each in CHOICES.items() if each.on and page not in each.on]
                names = [parameter_of(name) for name in others]
                found: list[str] = self.find(_CODES, names, patience=patience)
                return found
        seen = self.page.evaluate(_SEEN)
        raise AssertionError(f"the address is {self.page.url}, the menu had {codes[:1]}: {seen}")

    def frames(self, event: str) -> list[bytes]:
        """Return a list that collects what the page sends or receives from now on.

        ``event`` is ``framesent`` or ``framereceived``.
        """
        self.load_always()
        collected: list[bytes] = []

        def note(frame: bytes | str) -> None:
            collected.append(frame if isinstance(frame, bytes) else frame.encode())

        self.page.on("websocket", lambda socket: socket.on(event, note))
        return collected


def asked(sent: Sequence[bytes]) -> list[BackMsg]:
    """Return what the page asked the server for, without its own looks for news."""
    messages = [BackMsg.FromString(frame) for frame in sent]
    return [
        message
        for message in messages
        if not any(
            "at_rest" in state.id and state.json_trigger_value
            for state in message.rerun_script.widget_states.widgets
        )
    ]


def cited_view(citation: str) -> dict[str, list[str]]:
    """Return the parameters of the view in a citation that is not BibTeX."""
    cited = re.search(r"; view: ([^;]*?)(; beside it,.*)?\.$", citation, re.DOTALL)
    assert cited is not None, citation
    return parse_qs(cited[1], keep_blank_values=True)


def either(told: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern of a whole text, for Playwright's expectations: it is one of these."""
    texts = (r"\s+".join(map(re.escape, each.split())) for each in told)
    return re.compile(rf"^\s*({'|'.join(texts)})\s*$")


# The lines from token to token on Translate

_LINES = """() => {
    const places = ({bundle, query, key, weight}) => [bundle, query, key, weight].map(Number);
    return everywhere('.token').length === 0 ? undefined : everywhere('path[data-bundle]')
        .filter(path => getComputedStyle(path.parentNode).display !== 'none')
        .map(path => places(path.dataset))
        .sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
}"""
"""Bundle, query, key and weight of the lines that can be seen."""


def heavy_cells(
    *maps: Floats, least: float = 0.1, key: int | None = None, query: int | None = None
) -> Floats:
    """Return bundle, query, key and weight (cells, 4) of what lines draw of some maps."""
    cells = [
        (bundle, *at, weights[tuple(at)])
        for bundle, weights in enumerate(maps)
        for at in np.argwhere(weights >= least)
        if key in (None, at[1]) and query in (None, at[0])
    ]
    return np.array(cells, dtype=np.float32)


def expect_lines(app: App, expected: Floats) -> None:
    """Wait until exactly these lines can be seen; fails, with both, if they cannot."""
    # Weights are sent with four decimals.
    app.expect(_LINES, expected, tolerance=0.5e-4 + ANOTHER_PASS)


def lines_locator(app: App, what: str) -> Locator:
    """Return what stands in the component of lines."""
    return app.page.locator(f".st-key-lines {what}")


Motion = Literal["no-preference", "reduce"]
NewApp = Callable[..., App]
"""Makes a page; see the fixture ``new_app``."""
Traced = Callable[[str], Trace]
"""Gives the trace of a sentence; see the fixture ``traced``."""
