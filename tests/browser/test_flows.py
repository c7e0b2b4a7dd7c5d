"""Twelve things that people come for, each done by hand; the rest is tried before a release.

Between them they come to all eight pages, in both themes, on screens of 390 to 1,920 pixels. Where
they stop, nothing is against the page; what a click changes is seen without a scroll by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import numpy as np
from playwright.sync_api import Browser, ViewportSize, expect

from headwise.model.checkpoint import TrainedRun, load_weights, open_trained_run
from headwise.model.interface import Head
from headwise.model.turned import Turned, TurnedHead
from headwise.viz_app.analysis.grid import make_grid
from headwise.viz_app.analysis.labels import token_labels
from headwise.viz_app.measuring.files import read_measures
from headwise.viz_app.measuring.pair_files import read_measured_pairs
from headwise.viz_app.records.measures import Measures
from headwise.viz_app.records.trace import Trace
from headwise.viz_app.trace.sentence import run_trace
from tests.browser.driver import ANOTHER_PASS, DRAWN, App, NewApp, Traced, either, short_label
from tests.browser.faults import faults_of
from tests.browser.test_lessons import WALKED, walk_through
from tests.floats import printed

PHONE, TABLET, LAPTOP, DESK = (
    ViewportSize(width=width, height=height)
    for width, height in ((390, 844), (820, 1180), (1280, 800), (1920, 1080))
)
BRIEF = "I love you."
SENTENCE = "We saw three black cats on the white roof."
LONG = " ".join(["The old man gave the little girl a red apple."] * 6)
"""60 words."""
INSPECTOR, MAP = ".st-key-inspector", ".st-key-large"


def stop(app: App) -> None:
    """Look at the page: nothing is against it."""
    assert faults_of(app) == []


def largest_first(measures: Measures, name: str) -> list[Head]:
    """Return all heads that have a measure, the one with the largest value first."""
    known = {
        Head(kind, *map(int, place)): values[tuple(place)]
        for kind, values in measures.values[name].items()
        for place in np.argwhere(np.isfinite(values))
    }
    return sorted(known, key=lambda head: -known[head])


def test_a_head_is_found_by_its_habit(
    new_app: NewApp, run: TrainedRun, newest: int, trace_at: Callable[..., Trace]
) -> None:
    """Of all heads the one that looks most at the token before; then where it does so most."""
    measures = read_measures(run.folder, newest)
    head = largest_first(measures, "previous")[0]
    app = new_app(viewport=LAPTOP)
    app.open("/heads", run="en-es", q=SENTENCE)
    app.pick("measure", "previous token")
    first = app.page.locator(".st-key-head_table tbody tr").first
    expect(first).to_contain_text(short_label(head))
    with app.in_sight(".st-key-example_table", INSPECTOR):
        first.click()
    stop(app)
    example = measures.examples[head][0]
    sentence = measures.sentences[example.sentence]
    app.page.locator(".st-key-example_table tbody tr").first.get_by_role("button").click()
    app.expect_address(q=sentence.source, target=sentence.reference)
    target = tuple(run.tokenizers.encode_target(sentence.reference))
    weights = trace_at(newest, sentence.source, target).attention[head.kind][head.layer, head.head]
    app.expect_drawn("large", weights)
    assert abs(weights[example.query, example.key] - example.weight) < 0.01


def test_why_this_word(new_app: NewApp, traced: Traced) -> None:
    """By how much it is likelier than the next word, and what that is the sum of."""
    trace, at = traced(SENTENCE), 3
    word = token_labels(trace.predicted)[at]
    first, second = trace.predictions.top_log_probability[at][:2]
    app = new_app(viewport=LAPTOP, color_scheme="dark")
    app.open("/why", q=SENTENCE)
    with app.in_sight(".st-key-account_parts"):
        app.page.locator(".st-key-target_tokens button").nth(at).click()
    said = f"{word} beats .+ by {{:.3f}} logits: "
    told = printed(said, first - second, dtype=np.float32, size=10)
    expect(app.page.get_by_text("beats")).to_have_text(re.compile("|".join(told)))
    bars = np.array(app.read("account_parts", "gd._fullData[0].x"))
    assert abs(bars.sum() - (first - second)) < 1e-3
    stop(app)


def test_where_a_number_comes_from(new_app: NewApp, traced: Traced) -> None:
    """From a bar of the account to its head, and on to the scores that its weights come from."""
    trace, at = traced(SENTENCE), 3
    app = new_app(viewport=DESK)
    app.open("/why", q=SENTENCE, at=at)
    bars = "gd.data[1].hovertext.flatMap((said, at) => said === 'choose this head' ? [at] : [])"
    *_, last = app.read("account_parts", bars)
    count = app.read("account_parts", "gd.data[1].y.length")
    with app.in_sight(INSPECTOR):
        app.click_in("account_parts", 0.5, (last + 0.5) / count)
    at_head = parse_qs(urlsplit(app.page.url).query)
    layer, number = (int(at_head[name][0]) - 1 for name in ("layer", "head"))
    head = Head(at_head["kind"][0], layer, number)
    expect(app.page.locator(INSPECTOR)).to_contain_text(short_label(head))
    stop(app)
    app.page.locator(".st-key-head-inside button").click()
    app.choose(inside="2 Scores, softmax")
    scores = np.array(app.read("stages", "gd._fullData[0].z"), float)[-1]  # of masked ones NaN
    weights = np.exp(np.nan_to_num(scores, nan=-np.inf))
    weights /= weights.sum()
    of_trace = trace.attention[head.kind][head.layer, head.head, at]
    np.testing.assert_allclose(weights, of_trace, atol=1e-5)
    with app.in_sight(".st-key-stages", INSPECTOR):
        app.page.locator(".st-key-head [role=radio][aria-checked=false]").first.click()
    stop(app)


def test_since_which_step(new_app: NewApp, run: TrainedRun, trace_at: Callable[..., Trace]) -> None:
    """A head plays; at the step by which it changed most, the page is as it was then."""
    app = new_app(viewport=LAPTOP, color_scheme="dark")
    app.open("/training", q=SENTENCE, training="watch", playing="head", run="en-es")
    player = app.page.locator(".player")
    expect(player).to_have_attribute("data-frame", str(len(run.steps()) - 1))  # all have come
    with app.in_sight(".st-key-player", INSPECTOR):
        app.page.locator(".st-key-head [role=radio]").nth(2).click()
    said = re.compile(r"Cross 3.3 changed most between steps ([\d,]+) and ([\d,]+)")
    expect(player.locator(".changed-said")).to_contain_text(said)
    found = said.search(player.locator(".changed-said").inner_text())
    assert found is not None
    before, step = (int(each.replace(",", "")) for each in found.groups())
    assert run.steps()[run.steps().index(before) + 1] == step
    player.get_by_role("slider").press("Home")
    for _ in range(run.steps().index(step)):
        player.get_by_role("slider").press("ArrowRight")
    player.get_by_role("button", name="Use this checkpoint").click()
    app.expect_address(step=str(step))
    stop(app)
    app.choose(training="heads")
    with app.in_sight(".st-key-head-history"):
        app.page.locator(".st-key-head [role=radio]").nth(1).click()
    app.go_to("Translate")
    then = trace_at(step, SENTENCE)
    app.expect_text("translation", then.target_text)
    app.expect_drawn("large", then.attention["cross"][-1, 1])


def test_which_of_two_heads_matters_and_how_sure_that_is(
    new_app: NewApp, run: TrainedRun, newest: int
) -> None:
    """What each costs, with its error; and what the model writes without the first of them."""
    measures = read_measures(run.folder, newest)
    app = new_app(viewport=DESK, color_scheme="dark")
    app.open("/heads", run="en-es", q=SENTENCE)
    heads = largest_first(measures, "cost")[:2]
    rows = app.page.locator(".st-key-head_table tbody tr")
    for place, head in enumerate(heads):
        cost, error = (
            float(each[head.kind][head.layer, head.head])
            for each in (measures.values["cost"], measures.cost_errors)
        )
        expect(rows.nth(place)).to_contain_text(short_label(head))
        expect(rows.nth(place)).to_contain_text(f"{cost:+.3f} ± {error:.3f}")
    rows.first.click()
    expect(app.page.locator(INSPECTOR)).to_contain_text(short_label(heads[0]))
    with app.in_sight(".st-key-switched-off"):
        app.page.locator(".st-key-turn-head button").click()
    model, turned = load_weights(run, newest).model, Turned((TurnedHead(heads[0]),))
    app.expect_text(
        "without", run_trace(model, run.tokenizers, SENTENCE, turned=turned).target_text
    )
    stop(app)


def test_what_fails_and_how(new_app: NewApp) -> None:
    """The worst translation is opened; of pairs, those with a negation, and why one fails."""
    run = open_trained_run("de-en")
    measures, measured = read_measures(run.folder, run.steps()[-1]), read_measured_pairs(run.folder)
    assert measured is not None
    app = new_app(viewport=TABLET)
    app.open("/errors", run="de-en", q="Ein Hund.")
    worst = app.page.locator(".st-key-failure_table tbody tr").first
    source, translation = worst.locator("td").nth(0).inner_text(), worst.locator("td").nth(1)
    [place] = [at for at, each in enumerate(measures.sentences) if each.source == source]
    expect(translation).to_have_text(measures.translated[place].translation)
    stop(app)
    worst.get_by_role("button").click()
    app.expect_address(q=source)
    app.expect_text("translation", measures.translated[place].translation)
    app.go_to("Errors")
    app.choose(errors="Pairs")
    app.widget("phenomenon").scroll_into_view_if_needed()
    app.pick("phenomenon", "negation")
    margins = measured.checkpoints[run.steps()[-1]].margins
    failing = [n for n in measured.places("negation") if margins[n] < 0]
    rows = app.page.locator(".st-key-failing_pairs tbody tr")
    expect(rows).to_have_count(len(failing))
    pair = measured.pairs[min(failing, key=lambda n: margins[n])]
    rows.first.get_by_role("button").click()
    app.expect_address(q=pair.source, target=pair.right)


def test_a_picture_for_a_paper(new_app: NewApp, traced: Traced) -> None:
    """It is as wide as a column, and says what it shows."""
    app = new_app(viewport=DESK)
    app.open(q=SENTENCE, run="en-es")
    app.choose(head="2", printed="85 mm")
    app.expect_drawn("large", traced(SENTENCE).attention["cross"][-1, 1])
    file = app.download(app.page.locator(".st-key-large-box .chart-tools .save"))
    picture = ElementTree.fromstring(Path(file.path()).read_bytes())
    assert 60 < float(picture.get("width", "").removesuffix("mm")) <= 85
    words = {"".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    step = open_trained_run("en-es").steps()[-1]
    assert f"cross, layer 3, head 2 · run en-es, step {step:,} · Headwise" in words
    grid = make_grid(traced(SENTENCE), "cross")
    assert {*grid.rows, *grid.columns} <= words
    stop(app)


def test_a_link_that_another_browser_opens(new_app: NewApp, browser: Browser, address: str) -> None:
    app = new_app(viewport=LAPTOP)
    app.open(q=BRIEF, below="steps")
    app.choose(kind="encoder_self", layer="2", head="3")
    with app.in_sight(MAP):
        app.page.locator(".st-key-source_tokens button").nth(1).click()
    names = app.read("top_tokens", "gd.layout.yaxis.ticktext")
    with app.in_sight(".st-key-forked-result"):
        app.click_in("top_tokens", 0.7, 1.5 / len(names))
    app.expect_address(kind="encoder_self", layer="2", head="3", column="1", fork=names[1])
    link, *_ = app.link_and_citations()
    with browser.new_context(viewport=LAPTOP, reduced_motion="reduce") as context:
        other = App(context, address)
        other.open(link)
        other.expect(DRAWN, app.find(DRAWN))
        assert other.page.url == app.page.url
        assert other.complaints == []


def test_a_phone(new_app: NewApp, traced: Traced) -> None:
    """The page has its name, the map comes before words, and a long sentence fits."""
    app = new_app(viewport=PHONE, color_scheme="dark")
    app.open(q=BRIEF)
    name = "() => getComputedStyle(document.querySelector('.stAppHeader'), '::after').content"
    app.expect(name, '"Translate"')
    order = ("head-toolbar", "map-toolbar", "head-line", "large-box", "mosaic-box", "head-words")
    top = "place => visible(place).map(each => each.getBoundingClientRect().top + scrollY)[0]"
    tops = [app.find(top, f".st-key-{key}") for key in order]
    assert tops == sorted(tops)
    assert tops[3] < 844 * 0.6
    app.type(LONG)
    app.expect_text("translation", traced(LONG).target_text)
    assert app.find("() => document.documentElement.scrollWidth") <= 390
    stop(app)


def test_keys_alone(new_app: NewApp, traced: Traced) -> None:
    """A sentence is typed, a position chosen, and a cell read and opened."""
    trace = traced(SENTENCE)
    grid, weights = make_grid(trace, "cross"), trace.attention["cross"][-1, 0]
    app = new_app(viewport=TABLET, color_scheme="dark")
    app.open(q=BRIEF)
    app.tab_to(".st-key-sentence")
    app.page.keyboard.press("ControlOrMeta+A")
    app.page.keyboard.type(SENTENCE)
    app.page.keyboard.press("Enter")
    app.expect_text("translation", trace.target_text)
    app.tab_to(".st-key-target_tokens")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        app.page.keyboard.press(key)
    app.expect_address(at="2")
    app.rest()
    app.tab_to(".st-key-large")
    for key in ("Home", "ArrowDown", "ArrowRight"):
        app.page.keyboard.press(key)
    said = f"query {grid.rows[3]}, key {grid.columns[1]}, weight {{:#.3g}}"
    told = printed(said, weights[3, 1], dtype=np.float32, size=1)
    status = app.page.locator('.st-key-large .status[aria-live="polite"]')
    expect(status).to_have_text(either(told))
    stop(app)
    app.page.keyboard.press("Enter")
    app.expect_field("query", f"4: {grid.rows[3]}")
    app.expect_field("key", f"2: {grid.columns[1]}")
    assert "/inside?" in app.page.url


def test_the_run_that_copies(new_app: NewApp) -> None:
    """It has a known answer: the same symbols, each read at its own place; and masked maps."""
    symbols = "d b a f c e"
    app = new_app(viewport=PHONE)
    app.open(run="copy", q=symbols, layer=1, head=1)
    app.expect_text("translation", symbols)
    weights = np.array(app.read("large", "gd._fullData[0].z"))
    assert weights.argmax(axis=1)[:-1].tolist() == [*range(6)]
    app.open("/model", run="copy", q=symbols, section="masks")
    app.expect_drawn("causal", np.tri(7), tolerance=ANOTHER_PASS)
    stop(app)


def test_a_lesson(app: App) -> None:
    app.open("/learn", q=BRIEF)
    stop(app)
    walk_through(app, WALKED[0])
