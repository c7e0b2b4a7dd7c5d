"""Lessons as people do them: answered wrongly and then rightly, by clicks, by keyboard, on paper.

All of them are gone through without a browser in ``tests/viz_app/pages/test_lessons.py``.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from headwise.viz_app.lessons.question import Asked, Place, Question
from headwise.viz_app.lessons.questions import ask, read_parameters
from headwise.viz_app.lessons.reading import SHIPPED, read_lessons
from headwise.viz_app.lessons.records import Lesson, Step
from headwise.viz_app.session.lessons import way_of
from headwise.viz_app.session.state import View, decode
from tests.browser.driver import App, NewApp
from tests.viz_app.lessons.asked import asked_of

pytestmark = pytest.mark.release

SENTENCE = "Where is my book?"
LESSONS, _ = read_lessons([SHIPPED])
WALKED = ("copy", "alignment", "stream", "why")
"""Together they are answered in every way, and turn from page to page."""


def opened_at(app: App, lesson: Lesson, number: int) -> tuple[View, str]:
    """Wait until a step is drawn; return the view and the page that its address has."""
    status = app.page.locator('.st-key-lesson p[role="status"]')
    expect(status).to_have_text(f"{lesson.title}: page {number} of {len(lesson.steps)}")
    app.page.locator(".st-key-lesson-question").wait_for()
    address = urlsplit(app.find("() => location.href"))
    view, unreadable = decode(parse_qs(address.query, keep_blank_values=True))
    assert unreadable == {}
    assert (view.lesson, view.lesson_step) == (lesson.name, number)
    return view, address.path.strip("/") or "translate"


def question_of(lesson: Lesson, step: Step, view: View) -> tuple[Question, Asked]:
    """Compute a step's question, of the run and the sentence that the address has."""
    asked = asked_of(step, lesson, view.run or "", view.sentence or "")
    return ask(step.ask, read_parameters(step.ask, step.parameters), asked), asked


def answer(app: App, step: Step, question: Question, asked: Asked, at: Place) -> None:
    """Answer as a reader would: by a click in the page, or by a button."""
    layers, heads, rows, columns = asked.trace.attention[asked.head.kind].shape
    match way_of(step):
        case "cell" | "row" as way:
            row, column = at if way == "cell" else (at[0], 0)
            app.click_in("large", (column + 0.5) / columns, (row + 0.5) / rows)
        case "head":
            across, down = heads * (columns + 1) - 1, layers * (rows + 1) - 1
            left, top = at[1] * (columns + 1), at[0] * (rows + 1)
            app.click_in("mosaic", (left + columns / 2) / across, (top + rows / 2) / down)
        case "source" | "target" as side:
            app.page.locator(f".st-key-{side}_tokens button").nth(at[0]).click()
        case None:
            place = [choice.place for choice in question.choices].index(at)
            app.page.locator(f".st-key-lesson-choice-{place} button").click()


def walk_through(app: App, name: str) -> None:
    """Answer all steps of a lesson, from *Learn* on and back there."""
    lesson = LESSONS[name]
    app.page.locator(f".st-key-lesson-{name}").click(position={"x": 8, "y": 8})  # beside its button
    for number, step in enumerate(lesson.steps, 1):
        view, page = opened_at(app, lesson, number)
        assert page == step.page
        question, asked = question_of(lesson, step, view)
        said = app.page.locator(".st-key-lesson .stAlert")
        expect(said).to_have_count(0)
        places = [choice.place for choice in question.choices]
        wrong = [place for place in places if not question.is_right(place)]
        right = [place for place in places if question.is_right(place)]
        for place, verdict in [*((each, "Not so.") for each in wrong[:1]), (right[0], "Right.")]:
            answer(app, step, question, asked, place)
            expect(said).to_contain_text(verdict)
        app.page.locator(".st-key-lesson-next button").click()
    ways_back = app.page.locator('[class*="st-key-lesson-see-"]')
    expect(ways_back).to_have_count(3)
    app.page.locator(".st-key-lesson-next button").click()
    expect(app.page.locator(f".st-key-lesson-{name}")).to_contain_text("done")
    app.expect_address(lessons=name)


@pytest.mark.parametrize("name", WALKED[1:])  # test_flows.py has the first
def test_a_lesson_is_walked_through(app: App, name: str) -> None:
    app.open("/learn", q=SENTENCE)
    walk_through(app, name)


def test_the_lessons_that_are_walked_through_are_answered_in_every_way() -> None:
    walked = {way_of(step) for name in WALKED for step in LESSONS[name].steps}
    assert walked == {way_of(step) for lesson in LESSONS.values() for step in lesson.steps}


def test_a_click_just_when_the_page_looks_for_news_is_answered(app: App) -> None:
    lesson = LESSONS["stream"]
    app.open("/inside", q=SENTENCE, lesson="stream")
    opened_at(app, lesson, 1)
    app.rest()
    # Streamlit sends what widgets have at the end of a moment, for the panel that was first.
    clicked = app.page.evaluate(
        """() => new Promise(done => {
            const later = setTimeout;
            window.setTimeout = (call, wait, ...others) => {
                if (String(call).includes('sendUpdateWidgetsMessage')) {
                    window.setTimeout = later;
                    document.querySelector('.st-key-lesson-choice-0 button').click();
                    done(true);
                }
                return later(call, wait, ...others);
            };
            later(() => done(false), 20_000);
        })"""
    )
    assert clicked
    app.page.locator(".st-key-lesson .stAlert").wait_for()
    app.expect_address(lesson_answer="0")


def test_a_click_that_drops_an_answer_is_seen_in_the_lesson(app: App) -> None:
    """Also a click that draws only the panel that it is in."""
    asked = {"training": "heads", "matrix_over": "sentence"}
    app.open("/training", q=SENTENCE, lesson="rows", lesson_answer=["3"], **asked)
    answer = app.page.locator(".st-key-lesson").get_by_text("Not so.")
    answer.wait_for()
    app.page.locator(".st-key-target_tokens").get_by_role("button", name="está").click()
    app.expect_address(lesson_answer=None)
    expect(answer).to_have_count(0)


def test_a_step_is_printed_with_what_it_speaks_of_alone(new_app: NewApp) -> None:
    app = new_app(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    app.open("/training", run="copy", q="c a f", lesson="learned", lesson_step=3)
    opened_at(app, LESSONS["learned"], 3)
    curves = app.page.locator(".st-key-curves-box .main-svg").first
    curves.wait_for()
    screen = curves.bounding_box()
    app.page.emulate_media(media="print")
    app.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for shown in (".st-key-lesson", ".st-key-curves-box"):
        expect(app.page.locator(shown)).to_be_visible()
    for hidden in (".stSidebar", ".stAppHeader", ".st-key-training", ".st-key-lesson-ways"):
        expect(app.page.locator(hidden).first).to_be_hidden()
    paper = curves.bounding_box()
    assert screen is not None
    assert paper is not None
    assert paper["width"] < 700 < screen["width"]
    expect(app.page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    app.page.evaluate("dispatchEvent(new Event('afterprint'))")
    app.page.emulate_media(media="screen")
    width = "place => visible(place)[0]?.getBoundingClientRect().width"
    app.expect(width, screen["width"], ".st-key-curves-box .main-svg")
