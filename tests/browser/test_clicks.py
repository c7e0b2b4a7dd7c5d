"""What looks like a thing can be clicked, and each click has a way by keyboard."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import Locator, expect

from headwise.model.checkpoint import load_weights, open_trained_run
from headwise.model.interface import Head
from headwise.viz_app.analysis.curves import curve_of
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import next_token_label, token_labels
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.pair_files import read_measured_pairs
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import App, NewApp, Traced, either, step_label
from tests.floats import printed

SHORT = "We saw three black cats on the white roof."
BRIEF = "I am hungry."
FOCUSED = "() => document.activeElement?.shadowRoot?.activeElement?.textContent"
"""The text of what is focused in a component."""
COUNT_PLOTS = """window.plotted = {};
Object.defineProperty(HTMLElement.prototype, 'emit', {set(value) {
    Object.defineProperty(this, 'emit', {value, configurable: true, writable: true});
    this.on('plotly_beforeplot', () => {
        const [, key] = this.closest('[class*="st-key-"]').className.match(/st-key-(\\S+)/);
        window.plotted[key] = (window.plotted[key] ?? 0) + 1;
    });
}});"""
"""Counts how often Plotly draws each chart as a whole; it gives a chart ``emit`` before that."""
COLUMN_FRAMES = """(gd.layout.shapes ?? []).filter(shape => shape.yref === 'y domain')
    .map(shape => [shape.x0, shape.x1])"""


def click_cell(app: App, trace: Trace, row: int, column: int) -> None:
    """Click a cell of the map of cross-attention."""
    rows, columns = trace.attention["cross"].shape[-2:]
    app.click_in("large", (column + 0.5) / columns, (row + 0.5) / rows)


def token(app: App, side: str, place: int) -> Locator:
    return app.page.locator(f".st-key-{side}_tokens button").nth(place)


def expect_inside(app: App, trace: Trace, query: int, key: int) -> None:
    """Inside a head is open, at a query and a key of cross-attention."""
    grid = make_grid(trace, "cross")
    app.expect_field("query", f"{query + 1}: {grid.rows[query]}")
    app.expect_field("key", f"{key + 1}: {grid.columns[key]}")
    app.expect_address(query=str(query) if query else None, key=str(key))
    assert "/inside?" in app.page.url


def test_a_row_s_label_and_mark_choose_its_step_and_a_cell_opens_inside_a_head(
    app: App, traced: Traced
) -> None:
    trace = traced(BRIEF)
    app.open(q=BRIEF, head=2)
    app.expect_drawn("large", trace.attention["cross"][-1, 1])
    for row, away in ((2, 60), (1, 6)):
        left, top, _, height = app.box('.st-key-large .nsewdrag[data-subplot="xy"]')
        app.page.mouse.click(left - away, top + (row + 0.5) / len(trace.predicted) * height)
        app.expect_field("at", step_label(trace, row))
        app.expect_address(at=str(row))
    click_cell(app, trace, 2, 3)
    expect_inside(app, trace, 2, 3)
    app.expect_chosen(kind="cross", head="2")


def test_the_map_is_walked_by_arrow_keys_and_read_out(app: App, traced: Traced) -> None:
    trace = traced(BRIEF)
    grid, weights = make_grid(trace, "cross"), trace.attention["cross"][-1, 0]
    app.open(q=BRIEF)
    app.expect_drawn("large", weights)
    app.page.locator(".st-key-large_cells .walker").focus()
    app.page.keyboard.press("ArrowUp")  # there is no row above
    status = app.page.locator('.st-key-large_cells [aria-live="polite"]')
    for key, (row, column) in (
        ("ArrowDown", (1, 0)),
        ("ArrowRight", (1, 1)),
        ("End", (1, len(grid.columns) - 1)),
        ("Home", (1, 0)),
    ):
        app.page.keyboard.press(key)
        said = f"query {grid.rows[row]}, key {grid.columns[column]}: weight {{:#.3g}}"
        told = printed(said, weights[row, column], dtype=np.float32, size=1)
        expect(status).to_have_text(either(told))
    app.page.keyboard.press(" ")
    app.expect_field("at", step_label(trace, 1))
    app.page.keyboard.press("ArrowRight")
    app.page.keyboard.press("Enter")
    expect_inside(app, trace, 1, 1)


def test_tokens_choose_step_and_column_and_are_one_stop_walked_by_arrow_keys(
    app: App, traced: Traced
) -> None:
    trace = traced(BRIEF)
    labels = token_labels(trace.predicted)
    app.open(q=BRIEF)
    token(app, "target", 2).click()
    app.expect_field("at", step_label(trace, 2))
    expect(token(app, "target", 2)).to_have_attribute("aria-pressed", "true")
    token(app, "source", 1).click()
    app.expect_address(at="2", column="1")
    app.expect_read("large", COLUMN_FRAMES, [[0.5, 1.5]])
    token(app, "source", 1).click()
    app.expect_address(at="2", column=None)
    app.expect_read("large", COLUMN_FRAMES, [])
    app.page.keyboard.press("Tab")
    for key, place in (("", 2), ("Home", 0), ("ArrowRight", 1), ("End", -1), ("ArrowLeft", -2)):
        if key:
            app.page.keyboard.press(key)
        app.expect(FOCUSED, labels[place])
    app.page.keyboard.press("Enter")
    app.expect_field("at", step_label(trace, len(labels) - 2))
    app.expect(FOCUSED, labels[-2])  # it is drawn again, and has kept the focus
    stops = app.page.locator(".st-key-target_tokens button[tabindex='0']")
    expect(stops).to_have_text([labels[-2]])


def test_a_bar_and_a_token_beside_the_map_force_and_what_follows_comes_into_view(
    new_app: NewApp, traced: Traced
) -> None:
    """Wherever in the bar's row the click is, short as the bar may be."""
    app = new_app(viewport={"width": 1280, "height": 500})
    trace = traced(BRIEF)
    names = [next_token_label(each, spaced=True) for each in trace.top_tokens[0]]
    predicted = names.index(token_labels(trace.predicted)[0])
    app.open(q=BRIEF, below="steps")
    app.expect_labels("top_tokens", "y", names)
    other = 1 if predicted == 0 else 0
    app.click_in("top_tokens", 0.7, (other + 0.5) / len(names))
    app.expect_field("fork", names[other])
    app.expect_address(fork=names[other])
    expect(app.page.locator(".st-key-forked-result")).to_be_in_viewport(ratio=0.9)
    app.page.locator(".st-key-next-token-2 button").click()
    app.expect_field("fork", names[2])
    expect(app.page.locator(".st-key-forked-result")).to_be_in_viewport(ratio=0.9)


def test_a_neighbour_s_bar_looks_it_up(app: App) -> None:
    app.open("/model", q=BRIEF, section="similarity")
    for place in (1, 2):
        labels = app.read("neighbours", "gd.layout.yaxis.ticktext")
        app.click_in("neighbours", 0.9, (place + 0.5) / len(labels))
        app.expect_field("token", labels[place])


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


# What opens Translate


def expect_opened(app: App, head: Head, *, step: int, q: str, target: str | None = None) -> None:
    """Translate is open at a head of ``copy``, with the map that a trace has of it."""
    run = open_trained_run("copy")
    trace = run_trace(load_weights(run, step).model, run.tokenizers, q, target)
    app.expect_drawn("large", trace.attention[head.kind][head.layer, head.head])
    app.expect_text("translation", trace.target_text)
    app.expect_address(run="copy", q=q, target=target)


def test_a_mark_of_the_accuracy_lists_what_fails_there_and_a_pair_asks_why(app: App) -> None:
    measured = read_measured_pairs(open_trained_run("de-en").folder)
    assert measured is not None
    scores = measured.checkpoints[4_000]
    app.open("/errors", run="de-en", q="Ein Hund.", errors="pairs")
    of_chart = measured.phenomena.index("negation") + 2  # after that of all pairs
    axes = f"gd._fullLayout.xaxis{of_chart}.range, gd._fullLayout.yaxis{of_chart}.range"
    (left, right), (low, high) = app.read("pair_curves", f"[{axes}]")
    share = float(scores.outcomes[measured.places("negation")].mean())
    x, y = (4_000 - left) / (right - left), (high - share) / (high - low)
    app.click_in("pair_curves", x, y, subplot=f"x{of_chart}y{of_chart}")
    app.expect_address(step="4000", phenomenon="negation")
    rows = app.page.locator(".st-key-failing_pairs tbody tr")
    failing = [n for n in measured.places("negation") if scores.margins[n] < 0]
    expect(rows).to_have_count(len(failing))
    worst = measured.pairs[min(failing, key=lambda n: scores.margins[n])]
    rows.first.get_by_role("button").click()
    app.expect_address(q=worst.source, target=worst.right)


def test_a_click_on_a_bar_draws_two_charts_once_each(app: App) -> None:
    """Its own and the map of its head: what a click does not change stays."""
    app.load_always(COUNT_PLOTS)
    app.open("/why", q="The cat is black.")
    bars = "gd.data[1].hovertext.flatMap((said, at) => said === 'choose this head' ? [at] : [])"
    *_, last = app.read("account_parts", bars)
    count = app.read("account_parts", "gd.data[1].y.length")
    before = app.find("() => ({...window.plotted})")
    assert before == dict.fromkeys(before, 1)
    assert before.keys() == {"account_parts", "head_map"}
    app.page.evaluate("window.plotted = {}")
    app.click_in("account_parts", 0.5, (last + 0.5) / count)
    app.page.wait_for_function("'head_map' in window.plotted && 'account_parts' in window.plotted")
    assert app.find("() => ({...window.plotted})") == {"account_parts": 1, "head_map": 1}


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
    expect(app.page.get_by_text("The shared target is kept up to this position")).to_be_visible()
    app.pick("patch", "“is → are” (3) as layer 1 of the encoder leaves it")
    app.expect_address(patch="stream.encoder.1.3")
    app.click_in("patch_stream_encoder", 2.5 / 6, 1.5 / 4)  # once more: none
    app.expect_address(patch=None)
    expect(anew).to_have_count(0)


def test_a_cell_of_the_matrix_opens_its_head_at_its_step(app: App) -> None:
    q, steps = "c a f e b", open_trained_run("copy").steps()
    app.open("/training", run="copy", training="heads", measure="confidence", q=q)
    # Above the four heads of each kind is a row for its name.
    app.click_in("head_matrix", 3.5 / len(steps), 12.5 / 15)
    expect_opened(app, Head("cross", 0, 1), step=steps[3], q=q)
    app.expect_address(step=str(steps[3]))
    app.go_to("Training")
    # The button opens the same: the head's choice has come along.
    expect(app.page.locator(".st-key-inspector")).to_contain_text("Cross 1.2")
    app.page.locator(".st-key-head-translate button").click()
    expect_opened(app, Head("cross", 0, 1), step=steps[3], q=q)


def test_an_example_of_a_head_is_opened_with_its_target(app: App) -> None:
    run = open_trained_run("copy")
    measures = read_measures(run.folder, run.steps()[-1])
    app.open("/heads", run="copy")
    listed = app.page.locator(".st-key-head_table tbody tr").filter(has_text="Decoder self 2.1")
    listed.click()
    first = app.page.locator(".st-key-example_table tbody tr").first
    example = measures.examples["decoder_self", 1, 0][0]
    sentence = measures.sentences[example.sentence]
    consumed = ["<s>", *sentence.reference.split()]
    expect(first.locator("mark.query")).to_have_text(consumed[example.query])
    expect(first.locator("mark.key")).to_have_text(consumed[example.key])
    first.locator("button").press("Enter")
    q, target = sentence.source, sentence.reference
    expect_opened(app, Head("decoder_self", 1, 0), step=measures.step, q=q, target=target)


def test_a_ranking_goes_to_its_top_and_keeps_the_chosen_head_in_view(app: App) -> None:
    app.open("/heads", q=BRIEF, kind="encoder_self", layer=1, head=1)
    shown = app.page.locator(".st-key-head_table .list")
    expect(shown.locator("tr.chosen")).to_contain_text("Encoder self 1.1")
    for order in ("smallest first", "largest first"):
        shown.evaluate("list => { list.scrollTop = 200; }")
        app.choose(heads_order=order)
        expect(shown).to_have_js_property("scrollTop", 0)
        assert shown.evaluate(
            """list => {
                const [frame, row] = [list, list.querySelector('.chosen')].map(
                    (each) => each.getBoundingClientRect());
                return row.top >= frame.top && row.bottom <= frame.bottom + 1;
            }"""
        )


_TABLE = """key => {
    const [table] = visible(`.st-key-${key}-box .chart-table table`);
    return table && [...table.rows].map(row => [...row.cells].map(cell => cell.textContent));
}"""
_NUMBERS = f"key => ({_TABLE})(key)?.slice(1).map(row => row.slice(1).map(Number))"

_NEW_NUMBERS = """() => {
    const chart = [...document.querySelectorAll(".st-key-large-box .js-plotly-plot")].at(-1);
    const same = ({z}) => Array.from(z, row => Array(row.length).fill(1 / 8));
    const isMap = ({type, colorscale}) =>
        type === "heatmap" && colorscale[0][1] !== "rgba(0,0,0,0)";
    const other = each => isMap(each) ? {...each, z: same(each)} : each;
    chart._fullData = chart._fullData.map(other);
    chart.emit("plotly_afterplot");
}"""
"""Plotly has drawn other numbers, and no element of the page came or went."""


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
    app.page.evaluate(_NEW_NUMBERS)
    app.expect(_NUMBERS, np.where(masked, np.nan, 0.125), "large", tolerance=6e-5)
    app.page.locator(".st-key-mosaic-box .chart-table summary").click()  # a table for each head
    lists = app.page.locator(".st-key-mosaic-box .chart-table select")
    assert lists.locator("option").count() == trace.attention["cross"][:, :, 0, 0].size
    box, tools = (app.page.locator(f".st-key-mosaic-box{each}") for each in ("", " .chart-tools"))
    assert tools.evaluate("e => e.clientWidth") <= box.evaluate("e => e.clientWidth")
    lists.focus()
    at_first = int(lists.input_value())
    for place in (1, 2):  # it keeps the focus
        app.page.keyboard.press("ArrowDown")
        assert lists.input_value() == str(at_first + place)
    app.choose(kind="cross")
    app.expect(_NUMBERS, trace.attention["cross"][-1, 0], "large", tolerance=6e-5)
    table = app.page.locator(".st-key-large-box .chart-table")
    table.get_by_role("columnheader").nth(1).get_by_role("button").click()
    column = [float(row[1]) for row in app.find(_TABLE, "large")[1:]]
    assert column == sorted(column, reverse=True)
    app.page.set_viewport_size({"width": 1100, "height": 800})  # the map is drawn anew
    app.expect_read("large", "gd.clientWidth === gd._fullLayout.width", True)
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
    stops = (
        "all => all.map((each, place) => each.tabIndex === 0 ? place : -1).filter(at => at >= 0)"
    )
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


def test_where_heads_rest_follows_the_kind_that_is_chosen_above_it(app: App) -> None:
    app.open(q=BRIEF, below="sinks", kind="cross")
    heading = app.page.get_by_role("heading", name="Attention sinks of")
    expect(heading).to_have_text("Attention sinks of cross-attention")
    for kind, named in (("Encoder self", "encoder self"), ("Decoder self", "decoder self")):
        app.choose(kind=kind)
        expect(heading).to_have_text(f"Attention sinks of {named}-attention")
