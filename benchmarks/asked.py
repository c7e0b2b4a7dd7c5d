"""The page Why in Chromium: seconds from a click until what it asks for is drawn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Page

from benchmarks.chromium import PATIENCE, SCREEN, chromium, drawn_after, watch
from benchmarks.load_server import serving, started
from benchmarks.traffic import Traffic

SENTENCE = "The old man gave the little girl a red apple."
"""Of 12 tokens in en-es, 11 in the translation."""
_AT = 7
CLICKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "a bar": ("its head's map, and the frame of its bar", ("head_map", "account_parts")),
    "a cell": ("its head's map, and the frame of the cell", ("head_map", "account_cross")),
    "a source token": ("its column, in both maps", ("head_map", "account_cross")),
    "a neuron": ("its frame, and what drove it", ("neurons", "decoder_drivers_expand")),
    "another word": ("its bars and maps", ("account_parts", "account_cross", "head_map")),
}
"""Click → what is waited for, and the charts that have it."""
BARE = """import streamlit as st

count = st.session_state.setdefault("count", 0)
st.button("on", on_click=lambda: st.session_state.update(count=count + 1))
st.text(f"clicked {count}")
"""
_CHARTS = """
const chart = key => [...document.querySelectorAll(`.st-key-${key} .js-plotly-plot`)]
    .findLast(each => each.checkVisibility());  // Streamlit hides the old ones and leaves them
const list = each => ArrayBuffer.isView(each) || Array.isArray(each) ? [...each].map(list) : each;
const drawn = key => {
    const data = chart(key)?._fullData?.[0], shapes = chart(key)?._fullLayout?.shapes ?? [];
    return data && JSON.stringify([
        list(data.z ?? data.x), shapes.map(({x0, x1, y0, y1}) => [x0, x1, y0, y1])]);
};
"""
_CHANGED = f"""given => {{ {_CHARTS}
    return Object.entries(given).every(
        ([key, before]) => ![undefined, before].includes(drawn(key)));
}}"""
_DRAWN = f"keys => {{ {_CHARTS} return Object.fromEntries(keys.map(key => [key, drawn(key)])); }}"
_POINT = f"""([key, x, y]) => {{ {_CHARTS}
    const {{left, top}} = chart(key).getBoundingClientRect();
    const {{xaxis, yaxis}} = chart(key)._fullLayout;
    return [left + xaxis._offset + xaxis.d2p(x), top + yaxis._offset + yaxis.d2p(y)];
}}"""
_BARS_OF_HEADS = f"""() => {{ {_CHARTS}
    const {{hovertext, y}} = chart('account_parts').data[1];
    return [...hovertext.keys()].filter(at => hovertext[at] === 'choose this head');
}}"""
_MOUSE_RESTS = 400
"""Milliseconds for which the mouse stays on a mark before it is clicked, as a person's does."""


def clicked(rounds: int) -> dict[str, list[float]]:
    """Seconds of each of ``CLICKS``, and of a bare page of Streamlit, in turn."""
    with tempfile.TemporaryDirectory() as scratch, chromium() as launch:
        script = Path(scratch, "bare.py")
        script.write_text(BARE)
        bare = ("-m", "streamlit", "run", str(script), "--server.port", "0")
        with serving() as server, started(bare, Path(scratch)) as other:
            browser = launch()
            plain, page = (browser.new_page(viewport=SCREEN) for _ in range(2))
            plain.goto(other.address)
            plain.get_by_text("clicked 0").wait_for()
            asked = _Asked(page, server.address)
            seconds: dict[str, list[float]] = {name: [] for name in (*CLICKS, "a bare page")}
            for round in range(-1, rounds):  # the first is a warm-up
                for name in CLICKS:
                    page.bring_to_front()
                    seconds[name].append(asked.click(name, round + 1))
                plain.bring_to_front()
                seconds["a bare page"].append(_click_bare(plain, round + 2))
            if faults := server.faults():
                raise RuntimeError("\n".join(faults))
    return {name: each[1:] for name, each in seconds.items()}


def _click_bare(page: Page, count: int) -> float:
    page.wait_for_timeout(_MOUSE_RESTS)
    watch(page, "given => document.body.innerText.includes(`clicked ${given}`)", count)
    page.get_by_role("button", name="on").click()
    return drawn_after(page)


class _Asked:
    """The page Why on the shipped run, whose pictures are clicked."""

    def __init__(self, page: Page, address: str) -> None:
        self._page = page
        page.set_default_timeout(1_000 * PATIENCE)
        self._traffic = Traffic(page)
        page.goto(f"{address}/why?{urlencode({'run': 'en-es', 'q': SENTENCE, 'at': _AT})}")
        self._traffic.settle(patience=PATIENCE)
        page.locator(".st-key-neurons .js-plotly-plot").wait_for()

    def click(self, name: str, round: int) -> float:
        """Click something that is not chosen yet, and wait until what it asks for is drawn."""
        press = self._ready(name, round)
        self._traffic.clear()
        before = self._page.evaluate(_DRAWN, list(CLICKS[name][1]))
        watch(self._page, _CHANGED, before)
        press()
        seconds = drawn_after(self._page)
        self._traffic.settle(patience=PATIENCE)
        return seconds

    def _ready(self, name: str, round: int) -> Callable[[], None]:
        """Go where a click of this name is made, and return what makes it."""
        if name == "a bar":
            heads = self._page.evaluate(_BARS_OF_HEADS)
            return self._mark("account_parts", 0.0, heads[round % 2 + 1])
        if name == "a cell":
            return self._mark("account_cross", 1 + 2 * (round % 4), round % 5)
        if name == "a neuron":
            return self._mark("neurons", 0.0, round % 6)
        side, place = (
            ("source", 2 * (round % 5)) if name == "a source token" else ("target", round % 6 + 1)
        )
        token = self._page.locator(f".st-key-{side}_tokens [data-place='{place}']")
        token.scroll_into_view_if_needed()
        self._page.wait_for_timeout(_MOUSE_RESTS)
        return token.click

    def _mark(self, key: str, x: float, y: float) -> Callable[[], None]:
        chart = self._page.locator(f".st-key-{key}-box")
        chart.evaluate("box => box.scrollIntoView({block: 'center'})")
        self._page.wait_for_timeout(_MOUSE_RESTS)
        at = self._page.evaluate(_POINT, [key, x, y])
        for by in (0, 1):  # a chart only listens once the mouse has moved in it
            self._page.mouse.move(at[0] + by, at[1])
            self._page.wait_for_timeout(_MOUSE_RESTS)

        def press() -> None:
            self._page.mouse.down()
            self._page.mouse.up()

        return press
