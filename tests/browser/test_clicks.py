"""What looks like a thing can be clicked, and each click has a way by keyboard."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from headwise.model.checkpoint import open_trained_run
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.analysis.labels import token_labels
from tests.browser.driver import FRAMES, App, Traced

pytestmark = pytest.mark.release

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
COUNT_PLOTS = """window.plotted = {};
Object.defineProperty(HTMLElement.prototype, 'emit', {set(value) {
    Object.defineProperty(this, 'emit', {value, configurable: true, writable: true});
    this.on('plotly_beforeplot', () => {
        const [, key] = this.closest('[class*="st-key-"]').className.match(/st-key-(\\S+)/);
        window.plotted[key] = (window.plotted[key] ?? 0) + 1;
    });
}});"""
"""Counts how often Plotly draws each chart as a whole; it gives a chart ``emit`` before that."""


def test_pictures_of_all_heads_choose_one(app: App, traced: Traced) -> None:
    """The overview and the costs on Translate, and where two checkpoints are compared."""
    attention = traced(SHORT).attention
    layers, heads, rows, columns = attention["cross"].shape
    app.open(q=SHORT, rank="true", show="max")
    app.expect_drawn("large", attention["cross"][-1].max(axis=0))
    across, down = heads * (columns + 1) - 1, layers * (rows + 1) - 1
    app.click_in("mosaic", (2 * (columns + 1) + columns / 2) / across, (rows / 2) / down)
    app.expect_drawn("large", attention["cross"][0, 2])
    app.expect_chosen(layer="1", head="3", show="one head")
    app.click_in("costs", 3.5 / 14, 0.5)
    app.expect_drawn("large", attention["encoder_self"][1, 3])
    app.expect_chosen(kind="encoder_self", layer="2", head="4")

    app.open("/training", training="compare", q=SHORT, layer=2, head=1)
    app.click_in("distances", 7.5 / 14, 0.5 / 3)
    app.expect_chosen(kind="decoder_self", layer="1", head="3")
    app.click_in("overview-mosaic", 3.5 / 4, 2.5 / 3)
    app.expect_chosen(kind="decoder_self", layer="3", head="4")


def test_a_click_on_a_curve_chooses_a_milestone(app: App) -> None:
    curve = curve_of(open_trained_run("books-small").metrics(), "valid_loss")
    app.open("/training", run="books-small")
    valid = "gd._fullData.find(trace => trace.name === 'valid')"
    app.expect_read("curves", f"{valid}.x", curve.steps)
    app.expect_read("curves", f"{valid}.y", np.float32(curve.values))
    [left, right], [low, high] = app.read(
        "curves", "[gd._fullLayout.xaxis.range, gd._fullLayout.yaxis.range]"
    )
    value = curve.values[curve.steps.tolist().index(5_000)]
    app.click_in("curves", (5_000 - left) / (right - left), (high - value) / (high - low))
    app.expect_address(step="5000")
    app.expect_read("curves", "gd._fullLayout.shapes[0].x0", 5_000)
    slider = app.widget("step").locator("input")
    expect(slider).to_have_attribute("aria-valuetext", "5,000")


def test_a_click_on_a_bar_draws_the_map_of_its_head_once(app: App) -> None:
    """What a click does not change stays, and so do the bars: only the frame moves.

    A second click on a bar chooses it again, where another was chosen elsewhere meanwhile.
    """
    app.load_always(COUNT_PLOTS)
    app.open("/why", q="The cat is black.")
    bars = "gd.data[1].hovertext.flatMap((said, at) => said === 'choose this head' ? [at] : [])"
    *_, last = app.read("account_parts", bars)
    count = app.read("account_parts", "gd.data[1].y.length")
    before = app.find("() => ({...window.plotted})")
    assert before == dict.fromkeys(before, 1)
    assert before.keys() == {"account_parts"}
    app.page.evaluate("window.plotted = {}")
    app.click_in("account_parts", 0.5, (last + 0.5) / count)
    app.expect_read("account_parts", FRAMES, [[last - 0.5, last + 0.5]])
    assert app.find("() => ({...window.plotted})") == {}
    chosen = app.read("account_parts", FRAMES)
    app.loads = False
    app.open("/why", q="The cat is black.", kind="cross", layer=1, head=1)
    assert app.read("account_parts", FRAMES) != chosen
    app.click_in("account_parts", 0.5, (last + 0.5) / count)
    app.expect_read("account_parts", FRAMES, chosen)


def test_a_cell_of_a_patch_and_a_list_write_the_translation_anew(app: App) -> None:
    """What is written has the patch's restored share, and the whole encoder's is B's."""
    asked = {"q": "The cat is black.", "why": "two sentences", "other": "The cats are black."}
    app.open("/why", **asked, patching="true")
    anew = app.page.locator(".st-key-patched-translation")
    app.click_in("patch_stream_encoder", 1.5 / 6, 0.5 / 4)
    app.expect_address(patch="stream.encoder.0.2")
    expect(anew).to_have_text("Los gatos es negro.")
    app.click_in("patch_sublayers_decoder", 1.5 / 3, 2.5 / 3)
    app.expect_address(patch="sublayer.decoder.3.cross")
    expect(app.page.get_by_text("A with it, restored")).to_be_visible()
    app.pick("patch", "“is → are” (3) as layer 1 of the encoder leaves it")
    app.expect_address(patch="stream.encoder.1.3")
    app.click_in("patch_stream_encoder", 2.5 / 6, 1.5 / 4)  # once more: none
    app.expect_address(patch=None)
    expect(anew).to_have_count(0)


_TABLE = """key => {
    const [table] = visible(`.st-key-${key}-box .chart-table table`);
    return table && [...table.rows].map(row => [...row.cells].map(cell => cell.textContent));
}"""
_NUMBERS = f"key => ({_TABLE})(key)?.slice(1).map(row => row.slice(1).map(Number))"


def test_the_table_of_a_map_has_its_numbers_after_the_same_clicks(app: App, traced: Traced) -> None:
    app.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    app.open(q=SHORT)
    app.page.locator(".st-key-large-box .chart-table summary").click()
    for kind, head in (("cross", 2), ("encoder_self", 3), ("decoder_self", 1)):
        app.choose(kind=kind, head=str(head))
        trace = traced(SHORT)
        weights = trace.attention[kind][-1, head - 1]
        app.expect_drawn("large", weights)
        masked = np.triu(np.ones(weights.shape, bool), 1) & (kind == "decoder_self")
        # All of them: the table follows the map a frame later, and some cells are in every map.
        app.expect(_NUMBERS, np.where(masked, np.nan, weights), "large", tolerance=6e-5)
        top, *rows = app.find(_TABLE, "large")
        assert top[1:] == token_labels(trace.keys_of(kind))
        assert (np.array([row[1:] for row in rows]) == "masked").tolist() == masked.tolist()
    app.page.locator(".st-key-mosaic-box .chart-table summary").click()  # a table for each head
    lists = app.page.locator(".st-key-mosaic-box .chart-table select")
    assert lists.locator("option").count() == trace.attention["cross"][:, :, 0, 0].size
    at_first = int(lists.input_value())
    lists.press("ArrowDown")
    assert lists.input_value() == str(at_first + 1)
    app.choose(kind="cross")
    app.expect(_NUMBERS, trace.attention["cross"][-1, 0], "large", tolerance=6e-5)
    table = app.page.locator(".st-key-large-box .chart-table")
    table.get_by_role("columnheader").nth(1).get_by_role("button").click()
    column = [float(row[1]) for row in app.find(_TABLE, "large")[1:]]
    assert column == sorted(column, reverse=True)
    app.page.set_viewport_size({"width": 1100, "height": 800})  # the map is drawn anew
    app.rest()
    assert [float(row[1]) for row in app.find(_TABLE, "large")[1:]] == column
    table.get_by_role("button", name="Copy as TSV").click()
    table.get_by_role("button", name="Copied").wait_for()
    copied = app.page.evaluate("navigator.clipboard.readText()").split("\n")
    assert len(copied) == len(column) + 1
    numbers = [float(line.split("\t")[1]) for line in copied[1:]]
    np.testing.assert_allclose(numbers, column, rtol=0, atol=6e-5)


def test_a_table_is_one_stop_for_the_keys(app: App) -> None:
    app.open("/heads", q=BRIEF)
    rows = app.page.locator(".st-key-head_table tbody button")
    rows.first.wait_for()
    app.rest()
    stops = "all => all.map((each, at) => each.tabIndex === 0 ? at : -1).filter(at => at >= 0)"
    assert len(rows.evaluate_all(stops)) == 1
    rows.first.focus()
    for key, place in (("ArrowDown", 1), ("End", rows.count() - 1), ("ArrowUp", rows.count() - 2)):
        app.page.keyboard.press(key)
        expect(rows.nth(place)).to_be_focused()
        assert rows.evaluate_all(stops) == [place]
    app.page.keyboard.press("Home")
    app.page.keyboard.press("Enter")
    expect(rows.first).to_have_attribute("aria-pressed", "true")
    expect(rows.first).to_be_focused()
