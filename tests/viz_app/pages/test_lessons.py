"""Lessons without a browser: begun, answered, left, gone on with; what they need; broken files."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwise.model.checkpoint import TrainedRun, list_runs, load_weights, open_trained_run
from headwise.viz_app.frame import lesson_panel
from headwise.viz_app.learn.page import minutes
from headwise.viz_app.lessons.questions import ask, read_parameters
from headwise.viz_app.lessons.reading import SHIPPED, read_lessons
from headwise.viz_app.lessons.records import Lesson
from headwise.viz_app.measuring.pair_files import write_pairs
from headwise.viz_app.session import lessons, slices
from headwise.viz_app.session.lessons import check_step, view_of, way_of
from headwise.viz_app.session.parts import PARTS
from headwise.viz_app.session.state import change
from headwise.viz_app.session.view import change_view
from headwise.viz_app.why.word.account import run_account
from tests.imports import ROOT
from tests.shipped import SHIPPED as SHIPPED_RUNS
from tests.viz_app.lessons.asked import asked_of, fits
from tests.viz_app.measures import made_up_pairs
from tests.viz_app.pages.driver import CATS, DOG, Page, Start, traced, unescaped

LESSONS, _ = read_lessons([SHIPPED])
FIRST = LESSONS["rows"]
SENTENCES = {"en-es": "Where is my book?", "books-small": "Where is my book?", "copy": "c a f e b"}
"""Run → a sentence for lessons that have none."""
OWN = """---
title: <b>Mine</b>
teaches: [x](y) and $x$
---
"""
OWN_STEP = """
## <b>One</b>
page: translate
view: kind=cross&layer=1&head=1
ask: row_sum row=first

[Link](http://x) <script>a</script> **bold** $d_k$

? Sum of {row}?
"""


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the pages that lessons open, which a page in AppTest cannot."""
    seen: list[str] = []

    def note(page: str, **choices: Any) -> None:
        seen.append(page)
        change_view(**choices)

    monkeypatch.setattr(lessons, "open_page", note)
    monkeypatch.setattr(lessons.st, "rerun", lambda *_: None)
    return seen


def press(app: Page, key: str) -> Page:
    return app.button(key=key).click().run()


def said(app: Page) -> str:
    """What is written in the panel, and the question."""
    return unescaped(" ".join(each.value for each in app.markdown))


def test_a_lesson_is_begun_gone_through_and_done(start_page: Start, opened: list[str]) -> None:
    app = start_page("learn", q=CATS)
    assert len([b for b in app.button if (b.key or "").startswith("start-")]) == len(LESSONS)
    app = press(app, "start-rows")
    assert opened == ["translate"]
    app = start_page("translate", **app.address)
    for number in range(1, len(FIRST.steps) + 1):
        assert FIRST.steps[number - 1].title in said(app)
        at = {"lesson": "rows", "lesson_step": str(number), "lessons": f"rows:{number}"}
        assert at.items() <= ({"lesson_step": "1"} | app.address).items()
        if number == 2:
            app = press(press(app, "lesson-back"), "lesson-next")
            assert app.address["lesson_step"] == "2"
        app = press(app, "lesson-next")
    assert app.address["lesson_step"] == str(len(FIRST.steps) + 1)
    learned = [step.learned for step in FIRST.steps if step.learned]
    assert all(sentence in said(app) for sentence in learned)
    assert f"Questions left: {len(FIRST.steps)} of {len(FIRST.steps)}" in app.captions
    app = press(press(app, "lesson-see-2"), "lesson-next")
    app = start_page("translate", **(app.address | {"lesson_step": str(len(FIRST.steps) + 1)}))
    app = press(app, "lesson-next")  # the last button finishes
    assert opened[-1] == "learn"
    assert "lesson" not in app.address
    last = len(FIRST.steps)
    assert app.address["lessons"] == "rows:3"  # and no question was answered
    app = start_page("learn", q=CATS, lessons=f"rows:{last}:1")
    assert f"1 of {last} answered, go on at page 2" in app.captions


def test_an_answer_gets_its_reason(start_page: Start) -> None:
    app = start_page("translate", q=CATS, lesson="rows", lesson_step="2", lessons="rows:2")
    choices = [button for button in app.button if "choice" in (button.key or "")]
    labels = [unescaped(button.label) for button in choices]
    right = labels.index("1.00")
    wrong = 1 if right == 0 else 0
    app = press(app, f"lesson-choice-{wrong}")
    (warning,) = app.warnings
    assert warning.startswith("**Not so.** ")
    assert "softmax divides every row" in warning
    app = press(app, f"lesson-choice-{right}")
    assert [success.value[:11] for success in app.success] == ["**Right.** "]
    assert not app.warning
    assert app.address["lessons"] == "rows:2:2"
    others = "".join(str(n + 1) for n in range(len(FIRST.steps)) if n != 1)
    app = start_page("translate", **(app.address | {"lessons": f"rows:2:{others}"}))
    assert app.address["lessons"] == "rows"
    assert f"1 of {len(LESSONS)} done" in start_page("learn", q=CATS, lessons="rows").captions
    app = start_page("translate", **(app.address | {"lessons": "rows:2"}))
    app = app.choose(sentence="The dog sees a red house.")
    assert not app.success  # another sentence, another question


def test_a_lesson_is_left_and_gone_on_with(start_page: Start) -> None:
    """The first is offered until one is begun, then that one until it is done."""
    app = start_page("translate", q=CATS)
    assert app.button(key="first-lesson").label.startswith("First less")
    app = start_page("translate", q=CATS, lesson="rows", lesson_step="3", lessons="rows:3")
    app = press(app, "lesson-leave")
    assert "lesson" not in app.address
    assert app.button(key="first-lesson").label.startswith("Go on at page 3: What a row")
    done = start_page("translate", q=CATS, lessons="rows")
    assert "first-lesson" not in [button.key for button in done.button]
    app = press(start_page("learn", q=CATS, lessons="rows:3"), "start-rows")
    assert app.address["lesson_step"] == "3"


def test_leaving_a_lesson_goes_back_to_what_was_seen_before(start_page: Start) -> None:
    app = start_page("translate", q=CATS, kind="encoder_self", layer="2", head="3", units="words")
    before = app.address
    app = press(app, "first-lesson")
    assert (app.address["lesson"], "units" in app.address) == ("rows", False)
    app = press(app, "lesson-leave")
    assert app.address == before | {"lessons": app.address["lessons"]}


@pytest.mark.parametrize(("step", "answer"), [(1, "negation"), (3, "at none of them")])
def test_the_lesson_on_pairs_is_answered_on_the_run_that_is_open(
    start_page: Start, own_root: Path, run: TrainedRun, step: int, answer: str
) -> None:
    measured = made_up_pairs()
    scores = {
        at: replace(measured.checkpoints[of], step=at, sha256=load_weights(run, at).sha256)
        for at, of in ((0, 0), (60, 20))
    }
    at = {"lesson": "pairs", "lesson_step": str(step), "lessons": f"pairs:{step}", "q": CATS}
    app = start_page("errors", own_root, errors="pairs", **at)
    assert "This lesson needs measured pairs" in said(app)
    write_pairs(own_root / "tiny", replace(measured, checkpoints=scores, heads_step=60), (0, 60))
    app = start_page("training", own_root, **at)
    labels = [unescaped(b.label) for b in app.button if "lesson-choice" in (b.key or "")]
    assert len(labels) >= 2
    wrong = labels.index(next(label for label in labels if label != answer))
    assert "Not so" in press(app, f"lesson-choice-{wrong}").warnings[0]
    app = press(app, f"lesson-choice-{labels.index(answer)}")
    assert [success.value[:10] for success in app.success] == ["**Right.**"]


def test_patches_for_a_question_are_run_in_slices_that_a_button_ends(
    start_page: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwise.model.interventions.POSITIONS_AT_A_TIME", 100)
    lesson = LESSONS["plural"]
    number = next(n for n, step in enumerate(lesson.steps, 1) if step.ask.startswith("restoring"))
    at = {"why": "two sentences", "q": CATS, "other": "The cats see the dog."}
    app = start_page("why", **at, lesson="plural", lesson_step=str(number))
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(shared_by="B")
    assert "lesson-choice-0" not in [button.key for button in app.button]
    monkeypatch.setattr(slices, "SECONDS", math.inf)
    assert "lesson-choice-0" in [button.key for button in app.run().button]
    monkeypatch.setattr(slices, "SECONDS", 0.0)
    app.choose(other="The dogs see the dog.")
    assert "lesson" not in press(app, "stop-lesson-progress").address


def test_a_lesson_says_what_it_needs(start_page: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    app = start_page("translate", q=CATS, lesson="copy")
    assert "This lesson needs run copy" in said(app)
    assert "No run of this app has it" in app.captions
    assert "lesson-choice-0" not in [button.key for button in app.button]
    monkeypatch.setattr(lesson_panel, "fitting_runs", lambda _: ["tiny"])
    app = start_page("translate", q=CATS, lesson="copy")
    assert app.button(key="lesson-run-tiny").label == "Open tiny"


def test_a_lesson_asks_at_the_first_token_that_differs(start_page: Start, run: TrainedRun) -> None:
    """On Why, where a click on the source answers, too; another language has to be opened."""
    lesson = LESSONS["agreement"]
    app = start_page("why", q=DOG, lesson="agreement", lesson_step="1")
    app = press(app, "lesson-again")
    target = lesson.steps[0].view["target"]
    assert (app.address["q"], app.address["target"]) == (lesson.sentence, target)
    one, two = (run.tokenizers.encode_target(text) for text in (target, lesson.steps[0].against))
    at = next(place for place in range(len(two)) if one[place] != two[place]) - 1
    assert at > 0
    assert (app.address["at"], app.address["instead"]) == (str(at), f"id:{two[at + 1]}")
    why = {"lesson": "why", "lesson_step": "4", "target": target, "at": str(at)}
    app = start_page("why", q=lesson.sentence, **why)
    assert "click a token of the source" in app.captions
    account = run_account(
        load_weights(run, 60).model,
        traced(run, lesson.sentence, target=target),
        at,
        likeliest_other(run, lesson.sentence, target, at),
    )
    columns = account.parts.heads["cross"].sum(axis=(0, 1))
    app = start_page("why", q=lesson.sentence, **why, lesson_answer=str(int(columns.argmax())))
    assert [success.value[:11] for success in app.success] == ["**Right.** "]
    app = start_page("why", q=lesson.sentence, **why, lesson_answer=str(int(columns.argmin())))
    assert "**Not so.**" in app.warnings[0]


def likeliest_other(run: TrainedRun, text: str, target: str, at: int) -> int:
    """Return the id of the likeliest token at a step that the target does not have."""
    trace = traced(run, text, target=target)
    likeliest = trace.predictions.top_ids[at].tolist()
    return next(id for id in likeliest if id != trace.predicted.ids[at])


def test_lessons_of_a_folder_are_shown_as_text_and_broken_ones_named(
    start_page: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWISE_LESSONS", str(tmp_path))
    (tmp_path / "90-mine.md").write_text(OWN + 3 * OWN_STEP, encoding="utf-8")
    bad = (OWN + 3 * OWN_STEP).replace("layer=1", "layer=x", 1)
    (tmp_path / "91-bad.md").write_text(bad, encoding="utf-8")
    app = start_page("learn", q=CATS)
    (warning,) = app.warnings
    assert "91-bad.md, line 8: view: layer cannot be 'x'" in warning
    app = start_page("translate", q=CATS, lesson="mine")
    drawn = "".join(each.value for each in app.markdown)
    assert not [part for part in ("<b>", "<script>", "[Link]") if part in drawn]
    assert "**bold** $d_k$" in drawn


def plain(label: str) -> str:
    """A label of a choice without Markdown, and without the mark of a token within a word."""
    return unescaped(label).replace("·", "").strip()


@pytest.mark.usefixtures("few_examples")
@pytest.mark.parametrize("lesson", LESSONS.values(), ids=LESSONS)
def test_a_shipped_lesson_is_gone_through_and_answered_by_what_is_computed_beside_it(
    start_page: Start, opened: list[str], lesson: Lesson
) -> None:
    """On a shipped run, from page to page by the buttons; where a click answers, its place is."""
    name = next(each for each in ("en-es", *SHIPPED_RUNS) if fits(lesson, each))
    at = {"run": name, "q": SENTENCES[name], "lesson": lesson.name}
    app = start_page(lesson.steps[0].page, ROOT / "checkpoints", **at)
    assert len(app.errors) <= 1  # the choices of its first step are not there yet
    for number, step in enumerate(lesson.steps, 1):
        app.args = (step.page,)  # which the button opens
        app = press(app, "lesson-next" if number > 1 else "lesson-again")
        assert (opened[-1], app.errors, app.warnings) == (step.page, [], [])
        asked = asked_of(step, lesson, name, lesson.sentence or SENTENCES[name])
        question = ask(step.ask, read_parameters(step.ask, step.parameters), asked)
        right = next(each for each in question.choices if question.is_right(each.place))
        words = re.sub(r"\$[^$]*\$", "", said(app))  # formulas have braces, too
        assert not [name for name in question.names if f"{{{name}}}" in words]
        if way_of(step) is None:
            choices = [b for b in app.button if (b.key or "").startswith("lesson-choice-")]
            assert len(choices) == len(question.choices)
            [choice] = [b.key for b in choices if plain(b.label) == plain(right.label)]
            app = press(app, choice)
        else:
            session = app.session_state["session"]
            session.view = change(session.view, lesson_answer=right.place)
            app.run()
        assert [success.value[:11] for success in app.success] == ["**Right.** "]


@pytest.mark.parametrize("lesson", LESSONS.values(), ids=str)
def test_shipped_lessons_name_what_there_is(lesson: Lesson) -> None:
    """Pages, parts, fields of the view and runs."""
    for need in lesson.needs:
        if need.startswith("run "):
            assert need[4:] in list_runs()
        if need.startswith("languages "):
            runs = map(open_trained_run, list_runs())
            pairs = [f"{each.source_language}-{each.target_language}" for each in runs]
            assert need.removeprefix("languages ") in pairs
    for step in lesson.steps:
        check_step(step)
        view, _ = view_of(step)
        assert view.run is None or view.run in list_runs()
        if view.step is not None:
            assert view.step in open_trained_run(view.run or "en-es").steps()


def test_a_step_dims_all_parts_but_its_own(start_page: Start) -> None:
    app = start_page("translate", q=CATS, lesson="rows", lesson_step="2")
    assert FIRST.steps[1].bright == ("map",)
    (style,) = app.markup("grayscale(1)")
    screen, _, printed = style.partition("@media print")
    for part, keys in PARTS["translate"].items():
        for key in keys:
            assert (f".st-key-{key}" in screen) is (part != "map"), key
            assert (f".st-key-{key}" in printed) is (part == "map"), key


def test_minutes_are_of_words_and_questions() -> None:
    assert minutes(["word"] * 4) == 3  # two of four answers, and the beginning of a third
    assert minutes(["word " * 150] * 3) == 5  # three of reading, one and a half of answers
    assert minutes([]) == 0
