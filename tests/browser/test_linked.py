"""What is under the pointer, or where the keys are, lights up wherever else it is drawn."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.browser.driver import App, NewApp, asked

SENTENCE = "We saw three black cats on the white roof."
LIT = """() => {
    const inside = (key) => document
        .querySelector(`.st-key-${key} [data-testid="stBidiComponentIsolated"]`).shadowRoot;
    const large = inside('large_cells');
    const sheet = large.querySelector('.sheet').getBoundingClientRect();
    const bands = [...large.querySelectorAll('.lit > div')].map((band) => {
        const {top, left, width, height} = band.getBoundingClientRect();
        return width > height
            ? `row ${Math.round((top - sheet.top) / height)}`
            : `column ${Math.round((left - sheet.left) / width)}`;
    });
    const tokens = ['source', 'target'].flatMap((side) => {
        return [...inside(`${side}_tokens`).querySelectorAll('button.lit')]
            .map((each) => `${side} ${each.dataset.place}`);
    });
    const small = document.querySelectorAll('.small-map .lit').length;
    const heads = document.querySelector('.lit-heads')?.style.background ?? '';
    const inHeads = heads.split('linear-gradient').length - 1;
    return [...bands, ...tokens, `${inHeads} in all heads`, `${small} in the small map`];
}"""


@pytest.fixture
def app(new_app: NewApp) -> App:
    return new_app(viewport={"width": 1280, "height": 800})


@pytest.fixture
def sent(app: App) -> list[bytes]:
    """Open a sentence; return what the page sends from then on."""
    sent = app.frames("framesent")
    app.open("/translate", run="en-es", q=SENTENCE, kind="cross")
    app.page.locator(".st-key-inspector img").first.wait_for()
    app.rest()
    sent.clear()
    return sent


def centre(app: App, rows: int, columns: int, row: int, column: int) -> tuple[float, float]:
    left, top, width, height = app.box('.st-key-large .nsewdrag[data-subplot="xy"]')
    return left + (column + 0.5) * width / columns, top + (row + 0.5) * height / rows


def test_a_cell_lights_its_tokens_and_a_token_its_row_without_the_server(
    app: App, sent: list[bytes]
) -> None:
    rows, columns = app.read("large", "[gd._fullData[0].z.length, gd._fullData[0].z[0].length]")
    app.page.mouse.move(*centre(app, rows, columns, 3, 5))
    lit = ["row 3", "column 5", "source 5", "target 3", "2 in all heads", "2 in the small map"]
    app.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert app.page.evaluate(f"({LIT})()") == lit  # in the frame after the pointer came
    app.page.locator(".st-key-target_tokens button").nth(2).hover()
    app.expect(LIT, ["row 2", "target 2", "1 in all heads", "1 in the small map"])
    app.page.locator(".st-key-source_tokens button").nth(1).focus()
    app.page.keyboard.press("ArrowRight")
    app.expect(LIT, ["column 2", "source 2", "1 in all heads", "1 in the small map"])
    app.page.mouse.move(2, 2)
    app.page.locator(".st-key-source_tokens button").nth(2).blur()
    app.expect(LIT, ["0 in all heads", "0 in the small map"])
    assert asked(sent) == []


@pytest.mark.release
@pytest.mark.parametrize(
    ("kind", "lit"),
    [
        ("encoder_self", ["row 4", "column 4", "source 4", "2 in all heads", "2 in the small map"]),
        ("decoder_self", ["source 4", "0 in all heads", "0 in the small map"]),
    ],
)
def test_a_source_token_is_in_the_maps_of_the_source(
    app: App, sent: list[bytes], kind: Literal["encoder_self", "decoder_self"], lit: list[str]
) -> None:
    app.choose(kind=kind)
    app.page.locator(".st-key-source_tokens button").nth(4).hover()
    app.expect(LIT, lit)


def test_a_head_under_the_pointer_is_seen_large(app: App, sent: list[bytes]) -> None:
    app.hover_in("mosaic", 0.9, 0.1)
    name = app.page.locator(".st-key-large_cells .preview")
    name.wait_for()
    layers, heads = app.read(
        "mosaic", "[gd.layout.yaxis, gd.layout.xaxis].map(a => a.tickvals.length)"
    )
    assert name.inner_text() == f"layer 1 · head {heads}"
    assert layers > 1
    app.page.mouse.move(2, 2)
    name.wait_for(state="hidden")
    assert asked(sent) == []
