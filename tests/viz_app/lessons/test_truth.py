"""Every lesson on every run that it runs on, on ten sentences: what is right and printed."""

from __future__ import annotations

import pytest

from headwise.viz_app.analysis.question import Asked, Question
from headwise.viz_app.analysis.questions import ask, read_parameters
from headwise.viz_app.lessons.reading import SHIPPED as LESSONS
from headwise.viz_app.lessons.reading import read_lessons
from headwise.viz_app.lessons.records import Lesson, Step
from headwise.viz_app.measuring.files import read_measures
from tests.shipped import SHIPPED
from tests.viz_app.lessons.asked import asked_of, fits, run_of
from tests.viz_app.lessons.truths import TRUTHS

SENTENCES = 10
ALL, _ = read_lessons([LESSONS])
CASES = [(lesson, name) for lesson in ALL.values() for name in SHIPPED if fits(lesson, name)]


def check(question: Question, asked: Asked, step: Step) -> None:
    """Compare a question with the truth: its right answers, and what it prints after each."""
    places = [choice.place for choice in question.choices]
    assert len(places) == len(set(places)) >= min(2, len(places))
    labels = {choice.place: choice.label for choice in question.choices}
    assert question.right <= {*places} | question.right
    assert {*places} & question.right, "no choice is right"
    assert "{" not in "".join(question.names.values())
    truth = TRUTHS[step.ask](asked, read_parameters(step.ask, step.parameters))
    if truth.number:
        [right] = question.right
        assert labels[right] == truth.number
    else:
        assert question.right == truth.right
    for place in places:
        reason = question.reason(place)
        assert truth.printed.get(place, "") in reason, (place, reason)
        for text in truth.always:
            assert text in reason


@pytest.mark.parametrize(
    ("lesson", "name"), CASES, ids=lambda each: str(getattr(each, "name", each))
)
def test_what_is_right_and_what_is_printed_is_true(lesson: Lesson, name: str) -> None:
    run = run_of(name)
    examples = read_measures(run.folder, run.steps()[-1]).sentences[:SENTENCES]
    texts = [lesson.sentence] if lesson.sentence else [each.source for each in examples]
    assert texts
    for text in texts:
        for step in lesson.steps:
            asked = asked_of(step, lesson, name, text)
            try:
                question = ask(step.ask, read_parameters(step.ask, step.parameters), asked)
            except ValueError:
                if lesson.sentence:  # its words are not known to this run: the reader is told so
                    continue
                raise
            check(question, asked, step)
